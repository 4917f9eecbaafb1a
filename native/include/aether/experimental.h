/*
 * aether/experimental.h - what has been used by few, over few devices and kernels, or may take another form.
 *
 *   #define AETHER_EXPERIMENTAL
 *   #include <aether/experimental.h>
 *
 *   "Topologies of your own"     aether_topology_describe: facts and checks of one of aether/topology.h
 *   "Topologies that ask ..."    lists that are elsewhere: a function answers for them
 *   "Datagrams"                  rows by UDP or AF_XDP: aether_receiver_open [, _attach], then _wait and
 *                                _take in turns, _close
 *   "Memory that others read"    rows by RDMA: aether_rdma_target_create, _add, _serve on one machine,
 *                                aether_rdma_reader_create, _land, aether_rdma_read on the other
 *
 * Caveats: the rules of aether.h hold, but a new patch version may change or remove any of this. AF_XDP was
 * run over veth pairs, and RDMA over UCX's transports by TCP and shared memory, neither over a network card.
 */
#ifndef AETHER_EXPERIMENTAL_H
#define AETHER_EXPERIMENTAL_H

#ifndef AETHER_EXPERIMENTAL
#error                                                                                                       \
    "aether/experimental.h changes from release to release: #define AETHER_EXPERIMENTAL before you include it"
#endif

#include "aether.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* CFFI BEGIN */

/* ---- Topologies of your own (topology.h) --------------------------------- */

/* Facts of a topology; they hold for its life. */
typedef struct aether_topology_facts {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids are below it */
    uint64_t num_edges;
    uint64_t end_positions; /* positions are below it */
    uint64_t end_edge_ids;  /* edge ids are below it */
    uint32_t id_bytes;      /* 4 or 8 */
    uint32_t edge_ids_are_positions;
    uint32_t own_values; /* AETHER_OWN_* */
    uint32_t reserved;
} aether_topology_facts;

/* Copy the facts of a topology, also of one's own (topology.h), and check that it
 * has the operations that it needs and that its facts agree. AETHER_E_INVALID names what is
 * wrong, and what it should be. */
int aether_topology_describe(const aether_topology *t, aether_topology_facts *out, aether_error *err);

/* ---- Topologies that ask for their lists (src/topology/asked.c) ---------- */

#define AETHER_ASK_LISTS   0 /* of nodes: two numbers for each, first position and degree */
#define AETHER_ASK_IDS     1 /* at positions */
#define AETHER_ASK_EDGES   2 /* edge ids at positions */
#define AETHER_ASK_WEIGHTS 3 /* of the edges at positions: doubles, finite and not negative */
#define AETHER_ASK_TIMES   4 /* of the edges at positions: int64, ascending in every list */

/* Answer a question of n numbers: fill `out`, and return AETHER_OK, or a code with `err` filled. It is
 * called from any thread, from several at once. */
typedef int (*aether_ask_fn)(void *user, uint32_t what, const uint64_t *in, uint64_t n, uint64_t *out,
                             aether_error *err);

/* Facts of lists that are elsewhere. */
typedef struct aether_asked_lists {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids in them are below it */
    uint64_t num_edges; /* entries of all lists */
    uint32_t edge_ids_are_positions;
    uint32_t own_values;    /* AETHER_OWN_*: what else can be asked for */
    uint64_t end_positions; /* positions are below it; 0: num_edges, as they are dense */
    uint64_t end_edge_ids;  /* edge ids are below it; 0: num_edges */
} aether_asked_lists;

/* Make a topology that asks for its lists: those of up to 4096 nodes, and the ids of all
 * positions of a hop, in one question each. Answers are checked: AETHER_E_CORRUPT. */
int aether_topology_create_asked(const aether_asked_lists *lists, aether_ask_fn answer, void *user,
                                 aether_topology **out, aether_error *err);
/* Answer such a question, AETHER_ASK_*, from the lists of a topology: what the other side of an
 * aether_ask_fn does. Numbers may come from anywhere: AETHER_E_RANGE names the first bad one.
 * AETHER_E_UNSUPPORTED: the topology keeps no such values itself. */
int aether_topology_answer(const aether_topology *t, uint32_t what, const uint64_t *in, uint64_t n,
                           uint64_t *out, aether_error *err);

/* ---- Datagrams (src/net/datagram.h) -------------------------------------- */

#define AETHER_DATAGRAM_MOST 65507 /* bytes that UDP carries in one */

/* What a datagram says before its rows. */
typedef struct aether_datagram {
    uint64_t sequence; /* its number in the stream */
    uint64_t offset;   /* of its rows, where they were put */
    uint32_t stream;
    uint32_t rows;
} aether_datagram;

typedef struct aether_receiver_stats {
    uint64_t by_socket; /* datagrams that came by the socket */
    uint64_t by_xdp;    /* frames that came by AF_XDP */
    uint64_t refused;   /* of both: damaged, or none of ours */
} aether_receiver_stats;

/* Takes datagrams from a socket, and from the queues of a network interface. One thread. */
typedef struct aether_receiver aether_receiver;

/* Write a datagram of `out_size` bytes: 24 and those of the rows. AETHER_E_LIMIT: too many. */
int aether_datagram_pack(const aether_datagram *head, const void *rows, uint64_t size, void *out,
                         uint64_t out_size, aether_error *err);
/* Receive from a bound UDP socket, which stays the caller's and must outlive the receiver. Rows have
 * `row_bytes`. */
aether_receiver *aether_receiver_open(int fd, uint32_t row_bytes, aether_error *err);
/* Also take the datagrams for the socket's address from the first queues of an interface, by AF_XDP
 * (src/net/xdp_program.h). Errors: AETHER_E_NOT_FOUND: no such interface; AETHER_E_IO: the system
 * refuses, os_errno says why (EPERM: needs root). The receiver goes on with its socket then. */
int aether_receiver_attach(aether_receiver *r, const char *interface, uint32_t queues, aether_error *err);
/* Wait until a datagram is there: 1, or 0 after so many milliseconds or a signal. */
int aether_receiver_wait(aether_receiver *r, int32_t milliseconds, aether_error *err);
/* Take the datagrams that are there, without waiting: their rows into a room of `size` bytes, heads[most].
 * Stops when fewer than 65,536 bytes are left there. */
int aether_receiver_take(aether_receiver *r, void *room, uint64_t size, aether_datagram *heads, uint32_t most,
                         uint32_t *count, aether_error *err);
void aether_receiver_stats_read(const aether_receiver *r, aether_receiver_stats *out);
void aether_receiver_close(aether_receiver *r);

/* ---- Memory that others read, by UCX (src/rdma/ucx.h) -------------------- */

/* Return AETHER_OK if memory can be read by RDMA here, else AETHER_E_UNSUPPORTED: what is missing. */
int aether_rdma_problem(aether_error *err);
/* Return the version of UCX, major << 16 | minor; both sides need the same. 0: there is none. */
uint32_t aether_rdma_version(void);

/* Memory of this process that others read. One thread at a time, but for aether_rdma_target_wake(). */
typedef struct aether_rdma_target aether_rdma_target;

int aether_rdma_target_create(aether_rdma_target **out, aether_error *err);
void aether_rdma_target_destroy(aether_rdma_target *t);
/* Return the address that readers connect to. */
const void *aether_rdma_target_address(const aether_rdma_target *t, uint64_t *size);
/* Let whoever has the key read memory, which must stay until the target is destroyed. The key is the
 * target's. */
int aether_rdma_target_add(aether_rdma_target *t, const void *data, uint64_t size, const void **key,
                           uint64_t *key_size, aether_error *err);
/* Let readers connect, for so many milliseconds at most; to be called again and again. */
int aether_rdma_target_serve(aether_rdma_target *t, int32_t milliseconds, aether_error *err);
/* End the wait of aether_rdma_target_serve() in another thread. */
void aether_rdma_target_wake(aether_rdma_target *t);

/* Reads the memory behind a key. One thread at a time; of no use to a forked child. */
typedef struct aether_rdma_reader aether_rdma_reader;

/* `address` and `key` as the target has them, for `size` bytes at address `base` there. Errors:
 * AETHER_E_UNSUPPORTED: no transport between the two reads memory. */
int aether_rdma_reader_create(const void *address, const void *key, uint64_t base, uint64_t size,
                              aether_rdma_reader **out, aether_error *err);
void aether_rdma_reader_destroy(aether_rdma_reader *r);
/* Register the memory to read into, of this machine or of its GPU, which stays the caller's, until the next
 * call or the end. */
int aether_rdma_reader_land(aether_rdma_reader *r, void *memory, uint64_t size, aether_error *err);
/* n pieces of `bytes`, at offsets[i] from the base, which go to i * stride of the memory to read into. */
typedef struct aether_rdma_pieces {
    uint64_t size; /* sizeof(aether_rdma_pieces) */
    const uint64_t *offsets;
    uint64_t n;
    uint64_t bytes;
    uint64_t stride;
    uint32_t milliseconds; /* for all of them, at most */
    uint32_t reserved;
} aether_rdma_pieces;

/* Read pieces. Errors: AETHER_E_RANGE: beyond the size; AETHER_E_IO: the connection has ended, or has not
 * answered in time, and is of no use any more. */
int aether_rdma_read(aether_rdma_reader *r, const aether_rdma_pieces *pieces, aether_task *task,
                     aether_error *err);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
