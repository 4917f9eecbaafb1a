#include "os/scratch.h"

#include <string.h>

int ae_scratch_reserve(ae_scratch *s, uint64_t bytes, uint64_t keep, aether_error *err) {
    if (s->data && bytes <= s->bytes) /* data is never NULL after this, not even for 0 bytes */
        return AETHER_OK;
    uint64_t size = bytes > 2 * s->bytes ? bytes : 2 * s->bytes;
    size = ((size ? size : 1) + 4095) & ~UINT64_C(4095);
    void *data = aether_buffer_alloc(size, err);
    if (!data)
        return AETHER_E_NO_MEMORY;
    if (keep && s->data)
        memcpy(data, s->data, keep);
    ae_scratch_free(s);
    *s = (ae_scratch){data, size};
    return AETHER_OK;
}

void ae_scratch_free(ae_scratch *s) {
    if (s->data)
        aether_buffer_free(s->data, s->bytes);
    *s = (ae_scratch){0};
}
