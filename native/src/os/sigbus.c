#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/sigbus.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_SLOTS    64
#define MAX_FORWARDS   16 /* different handlers that ours was put on top of */
#define MAX_FORWARDING 32 /* threads in such a handler at once that nesting is noticed for */

struct ae_sigbus_slot {
    atomic_uint version; /* odd: being changed */
    atomic_bool taken;
    atomic_uintptr_t start; /* 0: nothing registered */
    atomic_uintptr_t end;
    atomic_int fd;
    atomic_bool writable;
    _Atomic int64_t damage; /* offset of the first page lost, or -1 */
};

typedef struct slot_chunk {
    ae_sigbus_slot slots[CHUNK_SLOTS];
    _Atomic(struct slot_chunk *) next;
} slot_chunk;

static slot_chunk first_chunk;
static atomic_uintptr_t page_size; /* set before the handler goes in */

/* ---- the registry -------------------------------------------------------- */

static ae_sigbus_slot *take_slot(slot_chunk *chunk) {
    for (int i = 0; i < CHUNK_SLOTS; i++) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&chunk->slots[i].taken, &expected, true))
            return &chunk->slots[i];
    }
    return NULL;
}

static slot_chunk *next_slot_chunk(slot_chunk *chunk) {
    slot_chunk *next = atomic_load(&chunk->next);
    if (next)
        return next;
    slot_chunk *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    if (atomic_compare_exchange_strong(&chunk->next, &next, fresh))
        return fresh;
    free(fresh); /* another thread was first */
    return next;
}

static void write_slot(ae_sigbus_slot *slot, uintptr_t start, uintptr_t end, int fd, bool writable) {
    atomic_fetch_add(&slot->version, 1);
    atomic_store(&slot->start, start);
    atomic_store(&slot->end, end);
    atomic_store(&slot->fd, fd);
    atomic_store(&slot->writable, writable);
    atomic_store(&slot->damage, -1);
    atomic_fetch_add(&slot->version, 1);
}

ae_sigbus_slot *ae_sigbus_add(const void *start, uint64_t size, int fd, bool writable) {
    ae_sigbus_slot *slot = NULL;
    for (slot_chunk *chunk = &first_chunk; chunk && !slot; chunk = slot ? chunk : next_slot_chunk(chunk))
        slot = take_slot(chunk);
    if (slot)
        write_slot(slot, (uintptr_t)start, (uintptr_t)start + size, fd, writable);
    return slot;
}

void ae_sigbus_remove(ae_sigbus_slot *slot) {
    if (!slot)
        return;
    write_slot(slot, 0, 0, -1, false);
    atomic_store(&slot->taken, false);
}

int64_t ae_sigbus_damage(const ae_sigbus_slot *slot) {
    return atomic_load(&slot->damage);
}

typedef struct {
    ae_sigbus_slot *slot;
    uintptr_t start, end;
    int fd;
    bool writable;
} region;

/* A consistent copy of a slot. */
static bool read_region_slot(ae_sigbus_slot *slot, region *out) {
    unsigned version = atomic_load(&slot->version);
    out->slot = slot;
    out->start = atomic_load(&slot->start);
    out->end = atomic_load(&slot->end);
    out->fd = atomic_load(&slot->fd);
    out->writable = atomic_load(&slot->writable);
    return out->start && !(version & 1) && atomic_load(&slot->version) == version;
}

static bool find_region(uintptr_t address, region *out) {
    for (slot_chunk *chunk = &first_chunk; chunk; chunk = atomic_load(&chunk->next))
        for (int i = 0; i < CHUNK_SLOTS; i++)
            if (read_region_slot(&chunk->slots[i], out) && address >= out->start && address < out->end)
                return true;
    return false;
}

int ae_sigbus_find(const void *address, const void **start, uint64_t *size) {
    region found;
    if (!find_region((uintptr_t)address, &found))
        return -1;
    *start = (const void *)found.start;
    *size = found.end - found.start;
    return found.fd;
}

/* ---- repair: runs inside the handler, async-signal-safe calls only -------- */

/* The plain system call: sanitizers wrap mmap() in code that is not safe here. */
static bool map_zeros(uintptr_t from, uintptr_t to, bool writable) {
    long mapped = syscall(SYS_mmap, from, to - from, PROT_READ | (writable ? PROT_WRITE : 0),
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
    return mapped == (long)from;
}

static uintptr_t page_up(uintptr_t address) {
    return (address + page_size - 1) & ~(page_size - 1);
}

/* Return where the lost part of the region begins if the file shrank; otherwise `page` alone is
 * lost, because the disk failed. */
static uintptr_t lost_from(const region *r, uintptr_t page, uintptr_t *to) {
    struct stat st;
    *to = page + page_size;
    if (fstat(r->fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size >= r->end - r->start)
        return page;
    uintptr_t file_end = page_up(r->start + (uintptr_t)st.st_size);
    if (page < file_end)
        return page;
    *to = page_up(r->end);
    return file_end;
}

/* The loss is recorded before zeros can be read, and before a store can go into them. Single pages may run
 * into the kernel's limit on mappings: then the whole region goes. */
static bool repair(uintptr_t address) {
    region r;
    if (!find_region(address, &r))
        return false;
    uintptr_t to, from = lost_from(&r, address & ~(page_size - 1), &to);
    int64_t none = -1;
    atomic_compare_exchange_strong(&r.slot->damage, &none, (int64_t)(from - r.start));
    return map_zeros(from, to, r.writable) || map_zeros(r.start, page_up(r.end), r.writable);
}

/* ---- the handler ----------------------------------------------------------- */

static struct sigaction forwards[MAX_FORWARDS];       /* handlers found in place */
static atomic_uint num_forwards;                      /* entries claimed */
static _Atomic(const struct sigaction *) forward;     /* the latest; NULL: none */
static atomic_bool fault_forwarded;                   /* a fault went to `forward` */
static atomic_int forwarding_threads[MAX_FORWARDING]; /* threads inside `forward` now; 0: free */

static void die_of(int signal_number) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal_number, &standard, NULL);
    raise(signal_number); /* delivered when the handler returns */
}

static void call_handler(const struct sigaction *to, int number, siginfo_t *info, void *context) {
    if (to->sa_flags & SA_SIGINFO)
        to->sa_sigaction(number, info, context);
    else
        to->sa_handler(number);
}

/* The entry that this thread took, or NULL if it is inside `forward` already. */
static atomic_int *enter_forward(void) {
    static atomic_int overflow;
    int self = (int)syscall(SYS_gettid);
    for (int i = 0; i < MAX_FORWARDING; i++)
        if (atomic_load(&forwarding_threads[i]) == self)
            return NULL;
    for (int i = 0; i < MAX_FORWARDING; i++) {
        int nobody = 0;
        if (atomic_compare_exchange_strong(&forwarding_threads[i], &nobody, self))
            return &forwarding_threads[i];
    }
    return &overflow;
}

static bool is_callable(const struct sigaction *to) {
    if (to->sa_flags & SA_SIGINFO)
        return to->sa_sigaction != NULL;
    return to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN;
}

/* Handlers commonly print, put back what they replaced and raise() again. If
 * that was us, the signal comes here a second time, nested in the call or sent
 * after a fault: both end it. */
static void forward_signal(int number, siginfo_t *info, void *context) {
    const struct sigaction *to = atomic_load(&forward);
    bool is_fault = info->si_code > 0;
    if (!is_fault && to && !(to->sa_flags & SA_SIGINFO) && to->sa_handler == SIG_IGN)
        return;
    bool again = !is_fault && atomic_load(&fault_forwarded);
    atomic_int *entry = to && is_callable(to) && !again ? enter_forward() : NULL;
    if (!entry) {
        die_of(number);
        return;
    }
    if (is_fault)
        atomic_store(&fault_forwarded, true);
    call_handler(to, number, info, context);
    atomic_store(entry, 0);
}

static void on_sigbus(int number, siginfo_t *info, void *context) {
    int saved = errno;
    bool page_lost = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
    if (!page_lost || !repair((uintptr_t)info->si_addr))
        forward_signal(number, info, context);
    errno = saved;
}

/* ---- installation ------------------------------------------------------------ */

static bool switched_off(void) {
    static atomic_int state; /* 0: not asked yet, 1: on, 2: off */
    int known = atomic_load(&state);
    if (known == 0) {
        const char *text = getenv("AETHERGRAPH_NO_SIGBUS_GUARD");
        known = text && *text && strcmp(text, "0") != 0 ? 2 : 1;
        atomic_store(&state, known);
    }
    return known == 2;
}

static bool is_our_handler(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_sigbus;
}

static bool same_handler(const struct sigaction *a, const struct sigaction *b) {
    return a && a->sa_flags == b->sa_flags && a->sa_handler == b->sa_handler;
}

/* Remember `found` as the handler to forward to. Entries are written before they
 * are published and never change: a handler may read them at any time. */
static bool remember(const struct sigaction *found) {
    if (same_handler(atomic_load(&forward), found))
        return true;
    unsigned i = atomic_fetch_add(&num_forwards, 1);
    if (i >= MAX_FORWARDS) {
        atomic_store(&num_forwards, MAX_FORWARDS);
        return false; /* another library replaces handlers all the time: leave its handler in place */
    }
    forwards[i] = *found;
    atomic_store(&forward, &forwards[i]);
    return true;
}

void ae_sigbus_install(void) {
    struct sigaction found;
    if (switched_off() || sigaction(SIGBUS, NULL, &found) != 0 || is_our_handler(&found))
        return;
    atomic_store(&page_size, (uintptr_t)sysconf(_SC_PAGESIZE));
    if (!remember(&found))
        return;
    struct sigaction ours = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, NULL);
}
