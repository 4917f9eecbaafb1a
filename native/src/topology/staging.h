/*
 * topology/staging.h - what a caller of fetch_many lends it: memory to read into, and its limits.
 *
 *   spans    where each position lies, sorted        as many as the positions need
 *   windows  [ reading ][ reading ][ taken apart ]   of window_bytes each
 *
 * The arrays grow on the first calls and are reused by those that follow. A topology uses of them
 * what it needs; one without fetch_many needs none.
 *
 * Caveats: one caller at a time. All zeros is a staging with default limits.
 */
#ifndef AE_TOPOLOGY_STAGING_H
#define AE_TOPOLOGY_STAGING_H

#include <stdbool.h>

#include "aether/io.h"
#include "os/scratch.h"

#define AE_STAGING_WINDOW (2u << 20) /* window_bytes, where none are given */

typedef struct aether_staging {
    ae_scratch spans;
    ae_scratch windows;
    ae_scratch below;      /* jobs that one topology hands to another */
    uint64_t window_bytes; /* data of one window; 0: AE_STAGING_WINDOW */
    uint64_t span_bytes;   /* of the spans that one reading of values sorts */
    uint64_t reads, bytes; /* totals that these calls asked for */
    bool learns;           /* the page cache learns from these calls which pages are used most */
} ae_staging;

void ae_staging_free(ae_staging *s);
/* Return the bytes held. */
uint64_t ae_staging_memory(const ae_staging *s);

/* Return the bytes of data that one window may hold. */
static inline uint64_t ae_staging_window(const ae_staging *s) {
    return s->window_bytes ? s->window_bytes : AE_STAGING_WINDOW;
}

#endif
