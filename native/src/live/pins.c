#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "live/pins.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "core/error.h"
#include "os/membarrier.h"
#include "os/process.h"

#define BYTES   (AE_PINS * sizeof(ae_pin))
#define EXPIRED (UINT64_C(1) << 63)

_Static_assert(sizeof(ae_pin) == 64, "a slot is a cache line");

int ae_pins_create(ae_shared *out, aether_error *err) {
    int rc = ae_shared_create("aether-live-pins", BYTES, AE_SHARED_WHOLE, out, err);
    if (!rc)
        rc = ae_shared_seal(out, true, err);
    if (rc)
        ae_shared_close(out);
    return rc;
}

int ae_pins_attach(int fd, ae_shared *out, aether_error *err) {
    int rc = ae_shared_attach(fd, AE_SHARED_WHOLE, true, "pins", out, err);
    if (!rc && out->size != BYTES) {
        ae_shared_close(out);
        rc = ae_error_set(err, AETHER_E_INVALID, "descriptor %d has not the size of a live graph's pins", fd);
    }
    return rc;
}

static ae_pin *slots(const ae_shared *pins) {
    return (ae_pin *)(void *)pins->data;
}

uint64_t ae_pins_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- readers ---- */

/* Acquire: what the slot's last owner has read is behind us. */
static bool claim_pin(ae_pin *pin, uint64_t from) {
    return atomic_compare_exchange_strong_explicit(&pin->owner, &from, ae_process_self(),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* Threads begin to search where they found a slot last. */
static ae_pin *find_pin(const ae_shared *pins) {
    static _Thread_local uint32_t hint;
    for (int dead = 0; dead < 2; dead++) /* free slots first: asking for a process takes long */
        for (uint32_t i = 0; i < AE_PINS; i++) {
            ae_pin *pin = &slots(pins)[(hint + i) % AE_PINS];
            const uint64_t owner = atomic_load_explicit(&pin->owner, memory_order_relaxed);
            if ((dead ? owner && !ae_process_alive(owner) : !owner) && claim_pin(pin, owner)) {
                hint = (hint + i) % AE_PINS;
                return pin;
            }
        }
    return NULL;
}

uint64_t ae_pin_renew(ae_pin *pin, const ae_word *committed, bool fences) {
    const bool barrier = !fences && ae_membarrier_register();
    uint64_t last = atomic_load_explicit(committed, memory_order_acquire), epoch;
    /* Before the pin: whoever sees that knows its age. */
    atomic_store_explicit(&pin->since, ae_pins_now(), memory_order_relaxed);
    do {
        epoch = last;
        if (barrier) {
            /* Release: reads under an older pin end before the writer sees this one. */
            atomic_store_explicit(&pin->epoch, epoch, memory_order_release);
            atomic_signal_fence(memory_order_seq_cst);
            last = atomic_load_explicit(committed, memory_order_acquire);
        } else {
            atomic_exchange_explicit(&pin->epoch, epoch, memory_order_seq_cst);
            last = atomic_load_explicit(committed, memory_order_seq_cst);
        }
    } while (last != epoch);
    return epoch;
}

#define NAMED 8 /* processes in a message */

/* Say who has all the slots. */
static int all_taken(const ae_shared *pins, aether_error *err) {
    struct {
        uint32_t pid, count;
    } most[NAMED] = {0};
    char text[NAMED * 40] = "";
    uint32_t pids[AE_PINS], counts[AE_PINS] = {0}, num = 0;
    for (uint32_t i = 0; i < AE_PINS; i++) {
        const uint32_t pid =
            ae_process_pid(atomic_load_explicit(&slots(pins)[i].owner, memory_order_relaxed));
        uint32_t at = 0;
        if (!pid) /* given back meanwhile */
            continue;
        while (at < num && pids[at] != pid)
            at++;
        pids[at] = pid;
        counts[at]++;
        num += at == num;
    }
    for (uint32_t i = 0; i < num; i++) { /* those with most first */
        uint32_t at = NAMED;
        while (at && most[at - 1].count < counts[i])
            at--;
        for (uint32_t j = NAMED - 1; j > at; j--)
            most[j] = most[j - 1];
        if (at < NAMED) {
            most[at].pid = pids[i];
            most[at].count = counts[i];
        }
    }
    for (uint32_t i = 0, used = 0; i < NAMED && most[i].count; i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%sprocess %" PRIu32 " has %" PRIu32,
                                   i ? ", " : "", most[i].pid, most[i].count);
    return ae_error_at(err, AETHER_E_LIMIT, -1, AE_PINS,
                       "all %d snapshots that a live graph can have are in use (%s%s): close some, or let "
                       "readers share one; those that are held can be read",
                       AE_PINS, text, num > NAMED ? ", and others" : "");
}

int ae_pin_take(const ae_shared *pins, const ae_word *committed, bool fences, ae_pin **out, uint64_t *epoch,
                aether_error *err) {
    *out = find_pin(pins);
    if (!*out)
        return all_taken(pins, err);
    *epoch = ae_pin_renew(*out, committed, fences);
    return AETHER_OK;
}

bool ae_pin_is_own(const ae_pin *pin) {
    return atomic_load_explicit(&pin->owner, memory_order_relaxed) == ae_process_self();
}

void ae_pin_release(ae_pin *pin) {
    if (!ae_pin_is_own(pin))
        return;
    atomic_store_explicit(&pin->epoch, 0, memory_order_release);
    atomic_store_explicit(&pin->owner, 0, memory_order_release);
}

/* ---- the writer ---- */

void ae_pins_publish(ae_word *committed, bool fences) {
    if (fences)
        /* Adding 0: threads that only count come here beside the writer, whose commit must stand. */
        atomic_fetch_add_explicit(committed, 0, memory_order_seq_cst);
    else
        ae_membarrier();
}

ae_pins_seen ae_pins_look(const ae_shared *pins, const ae_word *committed) {
    ae_pins_seen seen = {.oldest = atomic_load_explicit(committed, memory_order_relaxed)};
    for (uint32_t i = 0; i < AE_PINS; i++) {
        ae_pin *pin = &slots(pins)[i];
        const uint64_t epoch = atomic_load_explicit(&pin->epoch, memory_order_seq_cst);
        if (!epoch || epoch & EXPIRED)
            continue;
        if (seen.count++ == 0 || epoch < seen.oldest) {
            seen.oldest = epoch < seen.oldest ? epoch : seen.oldest;
            seen.since = atomic_load_explicit(&pin->since, memory_order_relaxed);
            seen.pid = ae_process_pid(atomic_load_explicit(&pin->owner, memory_order_relaxed));
        }
    }
    return seen;
}

static bool is_overdue(ae_pin *pin, uint64_t now, uint64_t max_age) {
    const uint64_t since = atomic_load_explicit(&pin->since, memory_order_relaxed);
    return max_age && since < now && now - since > max_age;
}

static void expire(ae_pin *pin, uint64_t epoch) {
    atomic_compare_exchange_strong_explicit(&pin->epoch, &epoch, epoch | EXPIRED, memory_order_acq_rel,
                                            memory_order_relaxed);
}

void ae_pins_reap(const ae_shared *pins, uint64_t first, uint64_t last, uint64_t max_age) {
    const uint64_t now = ae_pins_now();
    for (uint32_t i = 0; i < AE_PINS; i++) {
        ae_pin *pin = &slots(pins)[i];
        const uint64_t epoch = atomic_load_explicit(&pin->epoch, memory_order_acquire);
        const uint64_t owner = atomic_load_explicit(&pin->owner, memory_order_relaxed);
        if (!epoch || epoch >= last)
            continue;
        if (!ae_process_alive(owner)) {
            if (claim_pin(pin, owner))
                ae_pin_release(pin);
        } else if (epoch < first || is_overdue(pin, now, max_age)) {
            expire(pin, epoch);
        }
    }
}
