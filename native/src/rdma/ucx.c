#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rdma/ucx.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

#ifdef AE_HAVE_UCX

#define LIBRARY "libucp.so.0"
#define REAL    "rc,dc,cuda" /* transports that read by themselves, and the memory of GPUs beside them */
#define DEVICES "/sys/class/infiniband"

static struct {
    pthread_once_t once;
    ae_ucx functions;
    bool loaded;
    char why[256];
} found = {.once = PTHREAD_ONCE_INIT};

/* UCX takes signals for its own reports of crashes as soon as it is there. They belong to the program, to
 * Python's faulthandler, and to mappings of files (os/sigbus.h). */
static void *open_quietly(void) {
    static const int taken[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    enum { COUNT = sizeof taken / sizeof *taken };
    struct sigaction before[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        sigaction(taken[i], NULL, &before[i]);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (uint32_t i = 0; i < COUNT; i++)
        sigaction(taken[i], &before[i], NULL);
    return library;
}

static void load_library(void) {
    void *library = open_quietly();
    if (!library) {
        const char *why = dlerror();
        snprintf(found.why, sizeof found.why, "%s: install UCX (Debian, Ubuntu: libucx0)",
                 why ? why : LIBRARY " is not there");
        return;
    }
#define LOAD(name)                                                                                           \
    *(void **)(void *)&found.functions.name = dlsym(library, #name);                                         \
    if (!found.functions.name) {                                                                             \
        snprintf(found.why, sizeof found.why, LIBRARY " has no %s: install UCX 1.13 or later", #name);       \
        return;                                                                                              \
    }
    AE_UCX_FUNCTIONS(LOAD)
#undef LOAD
    found.loaded = true;
}

const ae_ucx *ae_ucx_load(aether_error *err) {
    pthread_once(&found.once, load_library);
    if (found.loaded)
        return &found.functions;
    ae_error_set(err, AETHER_E_UNSUPPORTED, "%s", found.why);
    return NULL;
}

/* Transports that somebody has named instead, or NULL. */
static const char *named_transports(void) {
    const char *named = getenv("AETHERGRAPH_UCX_TLS");
    return named && *named ? named : NULL;
}

bool ae_ucx_is_named(void) {
    return named_transports() != NULL;
}

static bool has_device(void) {
    DIR *folder = opendir(DEVICES);
    bool any = false;
    for (struct dirent *entry; !any && folder && (entry = readdir(folder));)
        any = entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return any;
}

int aether_rdma_problem(aether_error *err) {
    if (!ae_ucx_load(err))
        return AETHER_E_UNSUPPORTED;
    if (named_transports() || has_device())
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_UNSUPPORTED,
                        "there is no InfiniBand or RoCE device here (" DEVICES " is empty)");
}

uint32_t aether_rdma_version(void) {
    unsigned major, minor, patch;
    const ae_ucx *u = ae_ucx_load(NULL);
    if (!u)
        return 0;
    u->ucp_get_version(&major, &minor, &patch);
    return major << 16 | minor;
}

int ae_ucx_failed(const ae_ucx *u, ucs_status_t status, const char *what, aether_error *err) {
    if (status == UCS_ERR_NO_MEMORY)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "UCX: %s: out of memory", what);
    return ae_error_set(err, AETHER_E_IO, "UCX: %s: %s", what, u->ucs_status_string(status));
}

ucp_context_h ae_ucx_context(const ae_ucx *u, aether_error *err) {
    ucp_config_t *config;
    ucp_context_h context = NULL;
    if (aether_rdma_problem(err))
        return NULL;
    ucs_status_t status = u->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        ae_ucx_failed(u, status, "reading its configuration", err);
        return NULL;
    }
    const char *transports = named_transports() ? named_transports() : REAL;
    status = u->ucp_config_modify(config, "TLS", transports);
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 0,
    };
    if (status == UCS_OK)
        status = u->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
    u->ucp_config_release(config);
    if (status == UCS_OK)
        return context;
    ae_error_set(err, AETHER_E_UNSUPPORTED, "UCX finds no transport among %s: %s", transports,
                 u->ucs_status_string(status));
    return NULL;
}

#else

int aether_rdma_problem(aether_error *err) {
    return ae_error_set(
        err, AETHER_E_UNSUPPORTED,
        "built without UCX: install its headers (Debian, Ubuntu: libucx-dev) and build again");
}

uint32_t aether_rdma_version(void) {
    return 0;
}

#endif
