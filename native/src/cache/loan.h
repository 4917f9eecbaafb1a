/*
 * cache/loan.h - all frames that are not pinned, leased to a plan that knows coming requests.
 *
 *   ae_cache_loan_begin(cache, &loan, err)     only the borrower finds and fills the frames now
 *   ae_cache_loan_find, _use, _put ...
 *   ae_cache_loan_end(&loan)                   the cache has the frames again, with their content
 *
 * A second loan at the same time has no frames. While frames are lent, readers of the cache
 * find the hot set only, and ae_cache_put does nothing.
 *
 * Caveats
 *   - One thread at a time uses a loan.
 *   - A key is put only while no lent frame holds it.
 *   - A forked child can only end the loan, which changes nothing.
 */
#ifndef AE_CACHE_LOAN_H
#define AE_CACHE_LOAN_H

#include <stdbool.h>

#include "cache/cache.h"

#define AE_CACHE_NO_FRAME UINT32_MAX

typedef struct ae_cache_loan {
    ae_cache *cache;
    uint32_t first, end; /* frames [first, end) are lent; those before `first` are pinned */
    uint32_t num_used;   /* lent frames that held something when they were lent */
    uint32_t *order;     /* these frames, the oldest first */
    uint32_t *last;      /* when a lent frame was last used; 0: it holds nothing */
    int process;         /* that began the loan */
} ae_cache_loan;

int ae_cache_loan_begin(ae_cache *c, ae_cache_loan *out, aether_error *err);
void ae_cache_loan_end(ae_cache_loan *loan);
/* Return whether a parent process began the loan. */
bool ae_cache_loan_inherited(const ae_cache_loan *loan);

/* Return the frame that holds a key, pinned or lent, or AE_CACHE_NO_FRAME. */
uint32_t ae_cache_loan_find(const ae_cache_loan *loan, uint64_t key);
/* Return the memory of a frame. */
const void *ae_cache_loan_frame(const ae_cache_loan *loan, uint32_t frame);

/* Return whether the key of a lent frame was found often, before the loan or since. */
bool ae_cache_loan_often(const ae_cache_loan *loan, uint32_t frame);

/* Note that a frame was found at `time`, which never descends from call to call. */
void ae_cache_loan_use(ae_cache_loan *loan, uint32_t frame, uint32_t time);

/* Copy data[i] of keys[i] into frames[i]. */
void ae_cache_loan_put(ae_cache_loan *loan, const uint64_t *keys, const uint32_t *frames,
                       const void *const *data, uint64_t n, uint32_t time);

#endif
