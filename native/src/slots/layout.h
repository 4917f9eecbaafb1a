/*
 * slots/layout.h - the bytes of a table of live rows, in a file or in memory that processes share.
 *
 *   0       description: magic, sizes, dtype, shape, generation          2044 bytes, never changed
 *   2044    u32 crc32c of the description
 *   2048    32 shards of 64 bytes: u64 owner, u64 row                    locks of writers
 *   4096    slot of row 0
 *   4096 + stride    slot of row 1 ...
 *
 *   slot    0 u32 seq        odd: in work; 0: never written; even: so often
 *           4 u32 sum        crc32c of row (u64), data, version (u64), seq (u32)
 *           8 u64 version    of the data: a time, or a count
 *          16 data           row_bytes, then zeros up to a multiple of 64
 *
 * Writer (it has the lock of the row's shard)        Reader (no lock)
 *   seq = odd            release: the lock comes       seq, acquire        odd: again
 *   release fence        before                        data, version       relaxed, by 8 bytes
 *   data, version, sum   relaxed, by 8 bytes           acquire fence
 *   seq = even           release                       seq, relaxed        another: again
 *
 * This is the seqlock of Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012.
 * A reader that does not run on a processor of this machine (RDMA, a GPU) has no fences: it checks the sum.
 *
 * Caveats
 *   - The row in its sum is there so that a slot that was read from a wrong place is not taken for another.
 *   - A seq comes again after 2^31 writes to the row; a reader that sleeps that long inside one row would
 *     take a torn one.
 */
#ifndef AE_SLOTS_LAYOUT_H
#define AE_SLOTS_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define AE_TABLE_MAGIC      "AETHERT" /* 8 bytes with its NUL */
#define AE_TABLE_BYTE_ORDER 0x01020304u
#define AE_TABLE_VERSION    1u
#define AE_TABLE_HEADER     4096u
#define AE_TABLE_CHECKED    2044u /* bytes of the header under its checksum */
#define AE_TABLE_SHARDS     32u
#define AE_TABLE_NEAR       64u /* rows that follow each other and share a lock */
#define AE_SLOT_HEAD        16u
#define AE_SLOT_ALIGN       64u

/* Who writes, and which row; kept by the process's word (os/process.h). */
typedef struct ae_shard {
    _Atomic uint64_t owner; /* 0: nobody */
    _Atomic uint64_t row;   /* the one that the owner, or the last one, has in work */
    uint64_t reserved[6];
} ae_shard;

typedef struct ae_table_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version; /* of the format */
    uint64_t num_rows;
    uint64_t row_bytes;
    uint64_t stride;
    uint64_t tick; /* nanoseconds that a version counts; 0: versions are no times */
    uint32_t dtype;
    uint32_t flags;
    uint32_t num_dims;
    uint32_t reserved;
    uint64_t shape[8]; /* of a row; unused ones are 0 */
    uint8_t generation[16];
    uint8_t zeros[AE_TABLE_CHECKED - 144];
    uint32_t checksum;
    ae_shard shards[AE_TABLE_SHARDS];
} ae_table_header;

_Static_assert(sizeof(ae_table_header) == AE_TABLE_HEADER, "the slots begin on a page");
_Static_assert(offsetof(ae_table_header, checksum) == AE_TABLE_CHECKED, "all before it is checked");

typedef struct ae_slot {
    _Atomic uint32_t seq;
    _Atomic uint32_t sum;
    _Atomic uint64_t version;
    _Atomic uint64_t data[];
} ae_slot;

_Static_assert(sizeof(ae_slot) == AE_SLOT_HEAD, "the head of a slot has no gaps");

/* A fence of acquire or release order. ThreadSanitizer knows none, and needs none: all accesses are atomic.
 */
#ifdef AE_SANITIZED
#define AE_SLOT_FENCE(order) ((void)0)
#else
#define AE_SLOT_FENCE(order) atomic_thread_fence(order)
#endif

/* What data is moved by: 16 bytes where one instruction does that, else 8. Slots, and so data, are aligned to
 * it. Volatile, since C has no atomic objects of 16 bytes: each is one load or store, and no part of 8 bytes
 * is ever split. */
#if defined(__SSE2__) && !defined(AE_SANITIZED)
#define AE_SLOT_WIDE 16u
typedef uint64_t ae_wide __attribute__((vector_size(16), may_alias));
static inline ae_wide ae_wide_load(const void *at) {
    return *(const volatile ae_wide *)at;
}
static inline void ae_wide_store(void *at, ae_wide value) {
    *(volatile ae_wide *)at = value;
}
#else
#define AE_SLOT_WIDE 8u
typedef uint64_t ae_wide;
static inline ae_wide ae_wide_load(const void *at) {
    return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_relaxed);
}
static inline void ae_wide_store(void *at, ae_wide value) {
    atomic_store_explicit((_Atomic uint64_t *)at, value, memory_order_relaxed);
}
#endif

static inline uint64_t ae_slot_stride(uint64_t row_bytes) {
    return (AE_SLOT_HEAD + row_bytes + AE_SLOT_ALIGN - 1) / AE_SLOT_ALIGN * AE_SLOT_ALIGN;
}

static inline uint32_t ae_shard_of(uint64_t row) {
    return (uint32_t)(row / AE_TABLE_NEAR % AE_TABLE_SHARDS);
}

#endif
