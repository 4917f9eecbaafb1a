/*
 * topology/paged/hot_pages.h - a page cache: the pages of a file that are used most stay in memory.
 *
 *   uses    [ 1 7 0 2 ... ]      how often each page was asked for, up to 255
 *   frame   [ - 3 - - ... ]      number of the frame that holds a page
 *   frames  [ page | page | page | ... ]      room for a part of the file
 *
 * At first uses are counted and no page is kept. Then a page that was read is kept if it was used
 * often enough to belong to the most used pages that there is room for; the histogram of uses gives
 * this number. If there is room for all pages, each is kept when it is first read. Pages never
 * leave, so nothing is locked: a frame is filled, then published.
 *
 * How lists are visited does not change while a graph is trained on, so the pages that
 * were used most will be; recency says little (a page is asked for once in some batches).
 *
 * Caveats: a page that is kept stays, even when it is used less. A forked child has the pages of
 * its parent and keeps further pages by itself.
 */
#ifndef AE_TOPOLOGY_PAGED_HOT_PAGES_H
#define AE_TOPOLOGY_PAGED_HOT_PAGES_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_hot_pages ae_hot_pages;

/* Make a cache for the pages [first, first + num_pages) of a file, within `bytes`. *out is NULL if
 * `bytes` is too little for any page. The system grants memory of frames as they are filled. */
int ae_hot_pages_create(uint64_t first, uint64_t num_pages, uint64_t bytes, ae_hot_pages **out,
                        aether_error *err);
void ae_hot_pages_destroy(ae_hot_pages *h);          /* NULL is fine */
uint64_t ae_hot_pages_memory(const ae_hot_pages *h); /* bytes taken so far; 0 for NULL */

/* Return whether there is room for all pages, so that their uses need not be counted. */
bool ae_hot_pages_holds_all(const ae_hot_pages *h);

/* Return the page, or NULL if it is not kept. */
const void *ae_hot_pages_find(const ae_hot_pages *h, uint64_t page);

/* Count a use of each of n pages. */
void ae_hot_pages_count(ae_hot_pages *h, const uint64_t *pages, uint64_t n);

/* Return whether ae_hot_pages_offer would keep a page. */
bool ae_hot_pages_wants(const ae_hot_pages *h, uint64_t page);

/* Offer a page that was read: it is copied and kept if it is hot. */
void ae_hot_pages_offer(ae_hot_pages *h, uint64_t page, const void *data);

#endif
