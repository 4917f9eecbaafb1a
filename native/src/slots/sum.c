#include "slots/sum.h"

#include <string.h>

#include "core/simd.h"
#include "log/crc32c.h"

static uint32_t begin_one(uint64_t row, const uint8_t *data, uint64_t row_bytes) {
    return ae_crc32c(ae_crc32c(0, &row, sizeof row), data, row_bytes);
}

#if defined(__x86_64__)
static inline uint64_t word_at(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

AE_CORE_CRC32C static void begin_four(const uint64_t *rows, const uint8_t *const *data, uint64_t row_bytes,
                                      uint32_t *sums) {
    uint64_t a = __builtin_ia32_crc32di(~0u, rows[0]), b = __builtin_ia32_crc32di(~0u, rows[1]);
    uint64_t c = __builtin_ia32_crc32di(~0u, rows[2]), d = __builtin_ia32_crc32di(~0u, rows[3]);
    const uint64_t whole = row_bytes / 8 * 8;
    for (uint64_t i = 0; i < whole; i += 8) {
        a = __builtin_ia32_crc32di(a, word_at(data[0] + i));
        b = __builtin_ia32_crc32di(b, word_at(data[1] + i));
        c = __builtin_ia32_crc32di(c, word_at(data[2] + i));
        d = __builtin_ia32_crc32di(d, word_at(data[3] + i));
    }
    const uint64_t states[AE_SLOT_SUMS] = {a, b, c, d};
    for (uint32_t k = 0; k < AE_SLOT_SUMS; k++)
        sums[k] = ae_crc32c(~(uint32_t)states[k], data[k] + whole, row_bytes - whole);
}
#endif

void ae_slot_sums_begin(const uint64_t *rows, const uint8_t *const *data, uint32_t n, uint64_t row_bytes,
                        uint32_t *sums) {
#if defined(__x86_64__)
    if (n == AE_SLOT_SUMS && ae_core_has_crc32c()) {
        begin_four(rows, data, row_bytes, sums);
        return;
    }
#endif
    for (uint32_t k = 0; k < n; k++)
        sums[k] = begin_one(rows[k], data[k], row_bytes);
}

uint32_t ae_slot_sum_end(uint32_t sum, uint64_t version, uint32_t seq) {
    uint8_t bytes[12];
    memcpy(bytes, &version, sizeof version);
    memcpy(bytes + sizeof version, &seq, sizeof seq);
    return ae_crc32c(sum, bytes, sizeof bytes);
}
