/*
 * io/tier.h - what a tier does for a queue, and the seam for tests.
 *
 *   queue.c:  push(read) push(read) ...  enter(wanted)  pop(read) pop(read) ...
 *                                          |
 *             uring.c: one io_uring_enter: hands all over, waits for `wanted`
 *             pread.c: threads take the reads; the caller works along, then waits
 *
 * A read that was pushed comes back by pop exactly once, with `result`: bytes, or a
 * negative errno. Until then its memory belongs to the system.
 *
 * Caveats: a tier's state belongs to one thread, which alone may call these.
 */
#ifndef AE_IO_TIER_H
#define AE_IO_TIER_H

#include "aether.h"

#include <stdbool.h>

struct ae_io_batch;

/* A read under way: `size` bytes at `offset` to `data`, of which `got` are there. */
typedef struct ae_io_op {
    struct ae_io_op *next; /* in the list that it is in */
    struct ae_io_batch *batch;
    void *owner; /* the tier's state */
    int fd;
    int32_t result;
    uint64_t request;      /* index in the batch */
    uint64_t offset;       /* in the file, of data[0] */
    uint8_t *data;         /* the caller's memory, or `bounce` */
    uint32_t size, needed; /* bytes that are read; that must come */
    uint32_t start;        /* this attempt reads data[start .. start + length) */
    uint32_t length;
    uint32_t got;
    uint32_t attempts; /* in a row that brought nothing */
    uint8_t *target;   /* where needed bytes of `bounce` go, from bounce[skip] on; NULL: they are there */
    uint32_t skip;
    uint32_t bounce_size;
    uint8_t *bounce;
} ae_io_op;

typedef struct ae_io_tier_ops {
    int (*create)(void **out, aether_error *err); /* AETHER_E_UNSUPPORTED: not here, and why */
    void (*destroy)(void *state);                 /* nothing is under way */
    void (*push)(void *state, ae_io_op *op);
    /* Hand over what was pushed and wait until `wanted` reads have come back, or
     * fewer. A negative errno: the system refuses for good, and what it has not
     * taken comes back with that error. */
    int (*enter)(void *state, uint32_t wanted);
    ae_io_op *(*pop)(void *state); /* one that has come back, or NULL */
    /* In a forked child: free what is this process's and use nothing. */
    void (*abandon)(void *state);
} ae_io_tier_ops;

extern const ae_io_tier_ops ae_io_uring, ae_io_pread;

/* For tests: what is done to the reads of both tiers. NULL members change nothing. */
typedef struct ae_io_hooks {
    int (*setup)(void);                               /* errno of creating a ring; 0: create it */
    int (*enter)(void);                               /* errno of entering the ring; 0: enter it */
    uint32_t (*length)(uint64_t at, uint32_t length); /* bytes that the system is asked for */
    int32_t (*result)(uint64_t at, int32_t result);   /* what came back: bytes or -errno */
} ae_io_hooks;

void ae_io_set_hooks(const ae_io_hooks *hooks); /* NULL: none. Not while anything is read */
extern ae_io_hooks ae_io_hook;

#endif
