/*
 * store/hot_pages.h - pages of a file that stay in memory because they are used most.
 *
 *   uses    [ 1 7 0 2 ... ]      how often each page was asked for, up to 255
 *   frame   [ - 3 - - ... ]      where a page is kept
 *   frames  [ page | page | page | ... ]      room for a part of the file
 *
 * While the pages are learnt nothing is kept. Then a page that comes is kept if it was
 * used as often as the most used ones, as many as there is room for; the histogram of
 * uses tells how often that is. If all pages have room, all are kept at once. Pages never
 * go, so nothing is locked: a frame is filled, then published.
 *
 * How lists are visited does not change while a graph is trained on, so the pages that
 * were used most will be; recency says little (a page is asked for once in some batches).
 *
 * Caveats: what is learnt is learnt for good. A forked child has the pages of its parent
 * and keeps others by itself.
 */
#ifndef AE_STORE_HOT_PAGES_H
#define AE_STORE_HOT_PAGES_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_hot_pages ae_hot_pages;

/* For the pages [first, first + num_pages) of a file, within `bytes`. *out is NULL if that is
 * too little for any. Memory of frames is taken as they are filled. */
int ae_hot_pages_create(uint64_t first, uint64_t num_pages, uint64_t bytes, ae_hot_pages **out,
                        aether_error *err);
void ae_hot_pages_destroy(ae_hot_pages *h); /* NULL is fine */
uint64_t ae_hot_pages_memory(const ae_hot_pages *h);

/* Whether there is room for all of them, so that none has to be learnt about. */
bool ae_hot_pages_holds_all(const ae_hot_pages *h);

/* The page, if it is kept. */
const void *ae_hot_pages_find(const ae_hot_pages *h, uint64_t page);

/* Count a use of each of n pages. */
void ae_hot_pages_count(ae_hot_pages *h, const uint64_t *pages, uint64_t n);

/* Whether a page, were it offered, would be kept. */
bool ae_hot_pages_wants(const ae_hot_pages *h, uint64_t page);

/* A page that was read: kept if it is hot. */
void ae_hot_pages_offer(ae_hot_pages *h, uint64_t page, const void *data);

#endif
