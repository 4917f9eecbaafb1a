/*
 * io/tier.h - the ways of reading, as tables of operations that a queue calls; hooks for tests.
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

#include <stdbool.h>

#include "aether/io.h"

struct ae_io_batch;

/* A read under way: `size` bytes at `offset` to `data`, of which `got` are there. */
typedef struct ae_io_op {
    struct ae_io_op *next; /* in the list that holds the read */
    struct ae_io_batch *batch;
    void *owner; /* the tier's state */
    int fd;
    int32_t result;
    uint64_t request;      /* index in the batch */
    uint64_t offset;       /* in the file, of data[0] */
    uint8_t *data;         /* the caller's memory, or `bounce` */
    uint32_t size, needed; /* bytes to read; the first `needed` of them must come */
    uint32_t start;        /* this attempt reads data[start .. start + length) */
    uint32_t length;
    uint32_t got;
    uint32_t attempts; /* attempts in a row that brought nothing */
    uint8_t *target;   /* where bytes from bounce[skip] on are copied to; NULL: no copy is needed */
    uint32_t skip;
    uint32_t bounce_size;
    uint8_t *bounce;
} ae_io_op;

typedef struct ae_io_tier_ops {
    uint32_t number;  /* AETHER_IO_* */
    const char *name; /* for AETHERGRAPH_IO, and messages */
    /* AETHER_E_UNSUPPORTED: the tier does not work here; the message says why. */
    int (*create)(void **out, aether_error *err);
    void (*destroy)(void *state); /* called when nothing is under way */
    void (*push)(void *state, ae_io_op *op);
    /* Hand over the pushed reads and wait until `wanted` reads have come back, or
     * fewer. A negative errno: the system refuses for good, and the reads that it has
     * not taken come back with that error. */
    int (*enter)(void *state, uint32_t wanted);
    /* Return a read that has come back, or NULL. */
    ae_io_op *(*pop)(void *state);
    /* Free the state in a forked child, without using the parent's ring or threads. */
    void (*abandon)(void *state);
} ae_io_tier_ops;

extern const ae_io_tier_ops ae_io_uring, ae_io_pread;

/* The tier that takes the place of another one that fails. */
#define AE_IO_FALLBACK (&ae_io_pread)

/* Return tier i in the order in which AETHER_IO_AUTO tries them; NULL past the last one. */
const ae_io_tier_ops *ae_io_tier_at(uint32_t i);
/* Return the tier of this number, or of this name; NULL if there is none. */
const ae_io_tier_ops *ae_io_tier(uint32_t number);
const ae_io_tier_ops *ae_io_tier_named(const char *name);

/* Changes to the reads of both tiers, for tests. NULL members change nothing. */
typedef struct ae_io_hooks {
    int (*setup)(void);                               /* errno of creating a ring; 0: create it */
    int (*enter)(void);                               /* errno of entering the ring; 0: enter it */
    uint32_t (*length)(uint64_t at, uint32_t length); /* bytes that the system is asked for */
    int32_t (*result)(uint64_t at, int32_t result);   /* result of the read: bytes or -errno */
} ae_io_hooks;

/* Set the hooks; NULL: none. Not while anything is read. */
void ae_io_set_hooks(const ae_io_hooks *hooks);
extern ae_io_hooks ae_io_hook;

#endif
