/*
 * cache/loan.h - the frames that are not pinned, lent to one who knows what will be asked for.
 *
 *   ae_cache_loan_begin(cache, &loan, err)     the borrower alone finds and fills them from now on
 *   ae_cache_loan_find, _use, _put ...
 *   ae_cache_loan_end(&loan)                   the cache has them again, with what they hold
 *
 * Who comes while they are lent gets a loan of no frames. Meanwhile readers of the cache
 * find the hot set, and putting does nothing.
 *
 * Caveats
 *   - One thread at a time uses a loan.
 *   - A key is put only while no lent frame holds it.
 *   - A forked child has the loan in name only: it can end it, which changes nothing.
 */
#ifndef AE_CACHE_LOAN_H
#define AE_CACHE_LOAN_H

#include "cache/cache.h"

#include <stdbool.h>

#define AE_CACHE_NO_FRAME UINT32_MAX

typedef struct ae_cache_loan {
    ae_cache *cache;
    uint32_t first, end; /* frames [first, end) are lent; those before `first` are pinned */
    uint32_t num_used;   /* of them held something when they were lent */
    uint32_t *order;     /* which, the oldest first */
    uint32_t *last;      /* when a lent frame was last used; 0: it holds nothing */
    int process;
} ae_cache_loan;

int ae_cache_loan_begin(ae_cache *c, ae_cache_loan *out, aether_error *err);
void ae_cache_loan_end(ae_cache_loan *loan);
bool ae_cache_loan_inherited(const ae_cache_loan *loan);

/* The frame that holds a key, pinned or lent, or AE_CACHE_NO_FRAME. */
uint32_t ae_cache_loan_find(const ae_cache_loan *loan, uint64_t key);
const void *ae_cache_loan_frame(const ae_cache_loan *loan, uint32_t frame);

/* Whether what a lent frame holds was found often, before or since. */
bool ae_cache_loan_often(const ae_cache_loan *loan, uint32_t frame);

/* A frame was found at `time`, which is at least 0 and does not descend. */
void ae_cache_loan_use(ae_cache_loan *loan, uint32_t frame, uint32_t time);

/* Copy data[i] of keys[i] into frames[i]. */
void ae_cache_loan_put(ae_cache_loan *loan, const uint64_t *keys, const uint32_t *frames,
                       const void *const *data, uint64_t n, uint32_t time);

#endif
