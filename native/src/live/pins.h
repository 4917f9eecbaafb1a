/*
 * live/pins.h - which commits are being read.
 *
 *   slot   u64 owner   process that has the slot (os/process.h); 0: free
 *          u64 epoch   commit that it reads; 0: none; top bit: its time is over
 *          u64 since   when it was pinned, in nanoseconds of CLOCK_MONOTONIC
 *                                                            64 bytes, 256 of them
 *
 * A reader pins the last commit, the writer reads all pins before it reuses memory:
 *
 *   reader   e = committed; epoch = e; (barrier); committed == e? else once more
 *   writer   committed = w; membarrier; read all epochs; reuse what no version from the oldest
 *            of them on has
 *
 * Either the reader sees that its commit is not the last any more, or the writer sees its pin.
 * A pin that comes too late for the writer's look is of the last commit, which needs nothing
 * that was superseded until then. tests/models/pins.pml is this protocol as a model.
 *
 * Every process can write the slots, so nobody trusts them: a reader that scribbles over them
 * keeps memory from being reused, or takes other readers' pins away (their reads then fail with
 * AETHER_E_EXPIRED), but never makes the writer wrong. The commit number is elsewhere.
 *
 * The owner is one word: no crash can leave half of it, and a dead owner's slot is taken over by
 * one compare-and-swap, by the writer or by the next reader. An expired pin stays with its owner
 * until that lets go, so no late release can hit the slot's next owner, and the slot needs no
 * generation.
 *
 * Caveats: an epoch is the number of a commit. A forked child must not release its parent's pins:
 * ae_pin_release() looks.
 */
#ifndef AE_LIVE_PINS_H
#define AE_LIVE_PINS_H

#include <stdatomic.h>

#include "os/shared.h"

#define AE_PINS 256

typedef _Atomic uint64_t ae_word;

typedef struct ae_pin {
    ae_word owner, epoch, since;
    uint64_t pad[5];
} ae_pin;

/* Create the slots, or map those of another process. */
int ae_pins_create(ae_shared *out, aether_error *err);
int ae_pins_attach(int fd, ae_shared *out, aether_error *err);

/* Take a slot and pin the last commit in it. `fences`: the writer has no membarrier. AETHER_E_LIMIT:
 * all slots are taken. */
int ae_pin_take(const ae_shared *pins, const ae_word *committed, bool fences, ae_pin **out, uint64_t *epoch,
                aether_error *err);
/* Pin the last commit in a slot that this process has, in place of what it pins. */
uint64_t ae_pin_renew(ae_pin *pin, const ae_word *committed, bool fences);
/* Return whether this process has the slot. */
bool ae_pin_is_own(const ae_pin *pin);
/* Give the slot back, if this process has it. */
void ae_pin_release(ae_pin *pin);

/* Return whether everything that was read until now belonged to `epoch`: the pin was there all the
 * time. */
static inline bool ae_pin_held(const ae_pin *pin, uint64_t epoch) {
#ifdef AE_SANITIZED /* ThreadSanitizer knows no fences */
    return atomic_load_explicit(&pin->epoch, memory_order_acquire) == epoch;
#else
    atomic_thread_fence(memory_order_acquire); /* the reads before come before this one */
    return atomic_load_explicit(&pin->epoch, memory_order_relaxed) == epoch;
#endif
}

/* What the writer knows of the pins. */
typedef struct ae_pins_seen {
    uint64_t oldest; /* commit that is still read; the last one if there are no pins */
    uint64_t count;  /* pins that are not expired */
    uint64_t since;  /* of the oldest */
    uint32_t pid;    /* of the oldest; 0: there are no pins */
} ae_pins_seen;

/* Look at all pins. The result holds for reuse of memory only after ae_pins_publish(). */
ae_pins_seen ae_pins_look(const ae_shared *pins, const ae_word *committed);
/* Let every reader see that `committed` is the last commit, or let its pin be seen. */
void ae_pins_publish(ae_word *committed, bool fences);
/* Free the slots of processes that have ended, and let pins expire that are of commits before `first`, or
 * older than max_age nanoseconds (0: none). Pins of the commits from `last` on are left alone: they hold
 * nothing back. */
void ae_pins_reap(const ae_shared *pins, uint64_t first, uint64_t last, uint64_t max_age);

/* Return CLOCK_MONOTONIC in nanoseconds. */
uint64_t ae_pins_now(void);

#endif
