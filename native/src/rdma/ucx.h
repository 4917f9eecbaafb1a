/*
 * rdma/ucx.h - UCX, loaded when it is first asked for.
 *
 *   headers at build time (AE_HAVE_UCX)     structs and numbers
 *   libucp.so.0 at run time, by dlopen      functions; a build that had the headers runs without it
 *
 * Only transports by which the network card reads memory by itself are used: InfiniBand and RoCE, which UCX
 * calls rc and dc. Over others UCX would ask the other side's processor, which a TCP connection of our own
 * does better. AETHERGRAPH_UCX_TLS names others in their place, for tests between processes of a machine
 * ("tcp").
 *
 * Caveats: nothing of UCX survives a fork. A child leaves its parent's objects alone, and makes its own.
 */
#ifndef AE_RDMA_UCX_H
#define AE_RDMA_UCX_H

#include <stdbool.h>

#define AETHER_EXPERIMENTAL
#include "aether/experimental.h"

#ifdef AE_HAVE_UCX
#include <ucp/api/ucp.h>

#define AE_UCX_FUNCTIONS(X)                                                                                  \
    X(ucp_get_version)                                                                                       \
    X(ucp_config_read)                                                                                       \
    X(ucp_config_modify)                                                                                     \
    X(ucp_config_release)                                                                                    \
    X(ucp_init_version)                                                                                      \
    X(ucp_cleanup)                                                                                           \
    X(ucp_worker_create)                                                                                     \
    X(ucp_worker_destroy)                                                                                    \
    X(ucp_worker_get_address)                                                                                \
    X(ucp_worker_release_address)                                                                            \
    X(ucp_worker_get_efd)                                                                                    \
    X(ucp_worker_arm)                                                                                        \
    X(ucp_worker_progress)                                                                                   \
    X(ucp_worker_signal)                                                                                     \
    X(ucp_mem_map)                                                                                           \
    X(ucp_mem_unmap)                                                                                         \
    X(ucp_rkey_pack)                                                                                         \
    X(ucp_rkey_buffer_release)                                                                               \
    X(ucp_ep_create)                                                                                         \
    X(ucp_ep_close_nbx)                                                                                      \
    X(ucp_ep_rkey_unpack)                                                                                    \
    X(ucp_rkey_destroy)                                                                                      \
    X(ucp_get_nbx)                                                                                           \
    X(ucp_request_check_status)                                                                              \
    X(ucp_request_free)                                                                                      \
    X(ucs_status_string)

typedef struct ae_ucx {
#define AE_UCX_FIELD(name) __typeof__(name) *name; /* NOLINT(bugprone-macro-parentheses): a declaration */
    AE_UCX_FUNCTIONS(AE_UCX_FIELD)
#undef AE_UCX_FIELD
} ae_ucx;

/* Return UCX, or NULL with AETHER_E_UNSUPPORTED: what is missing, and what to do. */
const ae_ucx *ae_ucx_load(aether_error *err);

/* Return a context for reading memory; NULL: there is no transport for that. It is used by one worker. */
ucp_context_h ae_ucx_context(const ae_ucx *u, aether_error *err);

/* Return whether somebody has named transports, for a test. */
bool ae_ucx_is_named(void);

/* Set the error AETHER_E_IO: `what` failed. */
int ae_ucx_failed(const ae_ucx *u, ucs_status_t status, const char *what, aether_error *err);
#endif

#endif
