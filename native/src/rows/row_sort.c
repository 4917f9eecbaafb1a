/* Radix sort of items with their places, by as many bits as item numbers have. */
#include <string.h>

#include "rows/row_file.h"

#define FEW        64u
#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)

static bool is_sorted(const uint64_t *wanted, uint64_t n) {
    for (uint64_t i = 1; i < n; i++)
        if (wanted[i - 1] > wanted[i])
            return false;
    return true;
}

static void insert_each(uint64_t *wanted, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        uint64_t value = wanted[i], at = i;
        for (; at && wanted[at - 1] > value; at--)
            wanted[at] = wanted[at - 1];
        wanted[at] = value;
    }
}

static void sort_digit(const uint64_t *from, uint64_t *to, uint64_t n, unsigned shift) {
    uint32_t starts[DIGITS] = {0};
    for (uint64_t i = 0; i < n; i++)
        starts[(from[i] >> shift) % DIGITS]++;
    uint32_t start = 0;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t count = starts[digit];
        starts[digit] = start;
        start += count;
    }
    for (uint64_t i = 0; i < n; i++)
        to[starts[(from[i] >> shift) % DIGITS]++] = from[i];
}

void ae_row_sort(uint64_t *wanted, uint64_t *other, uint64_t n, unsigned place_bits, uint64_t num_items) {
    if (n < 2 || is_sorted(wanted, n))
        return;
    if (n <= FEW) {
        insert_each(wanted, n);
        return;
    }
    uint64_t *from = wanted, *to = other;
    /* Places ascend already, so only the bits of the items are sorted. */
    for (unsigned shift = place_bits; shift < 64 && (num_items - 1) >> (shift - place_bits);
         shift += DIGIT_BITS) {
        sort_digit(from, to, n, shift);
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != wanted)
        memcpy(wanted, from, n * sizeof *wanted);
}
