/*
 * slots/scale.h - rows of int8 with a factor: a float, then the elements.
 */
#ifndef AE_SLOTS_SCALE_H
#define AE_SLOTS_SCALE_H

#include <stdint.h>
#include <string.h>

/* Set out[i], floats at any address, to the elements of a row times its factor. */
static inline void ae_slot_scale(const uint8_t *row, uint64_t items, uint8_t *out) {
    float factor, value;
    memcpy(&factor, row, sizeof factor);
    for (uint64_t i = 0; i < items; i++) {
        value = (float)(int8_t)row[sizeof factor + i] * factor;
        memcpy(out + i * sizeof value, &value, sizeof value);
    }
}

#endif
