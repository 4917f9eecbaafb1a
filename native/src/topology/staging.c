#include "topology/staging.h"

#include <stdlib.h>

#include "core/error.h"

void ae_staging_free(ae_staging *s) {
    ae_scratch_free(&s->spans);
    ae_scratch_free(&s->windows);
    ae_scratch_free(&s->below);
}

uint64_t ae_staging_memory(const ae_staging *s) {
    return s->spans.bytes + s->windows.bytes + s->below.bytes;
}

int aether_staging_create(uint64_t window_bytes, uint64_t span_bytes, aether_staging **out,
                          aether_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for reading values of a file");
    (*out)->window_bytes = window_bytes;
    (*out)->span_bytes = span_bytes;
    return AETHER_OK;
}

void aether_staging_destroy(aether_staging *s) {
    if (s)
        ae_staging_free(s);
    free(s);
}

void aether_staging_learn(aether_staging *s, int learns) {
    s->learns = learns != 0;
}

void aether_staging_count(const aether_staging *s, uint64_t *reads, uint64_t *bytes, uint64_t *memory) {
    *reads = s->reads;
    *bytes = s->bytes;
    *memory = sizeof *s + ae_staging_memory(s);
}
