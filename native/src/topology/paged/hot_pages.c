#include "topology/paged/hot_pages.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "topology/paged/spans.h"

#define PAGE       ((uint64_t)1 << AE_PAGE_BITS)
#define MOST_USES  255
#define LEARN      2    /* uses for each page of the file before any is kept */
#define RECONSIDER 4096 /* uses between two looks at the histogram */
#define NOWHERE    0    /* frames are numbered from 1 */

struct ae_hot_pages {
    uint64_t first, num_pages, num_frames;
    _Atomic uint8_t *uses;
    _Atomic uint32_t *frame;
    uint8_t *frames;
    atomic_uint_fast64_t taken; /* frames handed out; may run past num_frames */
    atomic_uint_fast64_t total; /* uses counted so far */
    atomic_uint_fast64_t considered;
    atomic_uint least;                        /* a page with at least so many uses is hot */
    atomic_uint_fast64_t with[MOST_USES + 1]; /* pages by number of uses */
};

static uint64_t per_page(void) {
    return sizeof(uint8_t) + sizeof(uint32_t);
}

int ae_hot_pages_create(uint64_t first, uint64_t num_pages, uint64_t bytes, ae_hot_pages **out,
                        aether_error *err) {
    const uint64_t fixed = sizeof(ae_hot_pages) + num_pages * per_page();
    *out = NULL;
    if (num_pages == 0 || bytes < fixed + PAGE)
        return AETHER_OK;
    ae_hot_pages *h = calloc(1, sizeof *h);
    if (!h)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for pages of a graph");
    uint64_t frames = (bytes - fixed) / PAGE;
    frames = frames < num_pages ? frames : num_pages;
    h->first = first;
    h->num_pages = num_pages;
    h->num_frames = frames < UINT32_MAX - 1 ? frames : UINT32_MAX - 1;
    h->uses = aether_buffer_alloc(num_pages * sizeof *h->uses, err);
    h->frame = h->uses ? aether_buffer_alloc(num_pages * sizeof *h->frame, err) : NULL;
    h->frames = h->frame ? aether_buffer_alloc(h->num_frames * PAGE, err) : NULL;
    if (!h->frames) {
        ae_hot_pages_destroy(h);
        return AETHER_E_NO_MEMORY;
    }
    atomic_init(&h->with[0], num_pages);
    atomic_init(&h->least, h->num_frames == num_pages ? 1 : MOST_USES + 1);
    *out = h;
    return AETHER_OK;
}

void ae_hot_pages_destroy(ae_hot_pages *h) {
    if (!h)
        return;
    if (h->uses)
        aether_buffer_free((void *)h->uses, h->num_pages * sizeof *h->uses);
    if (h->frame)
        aether_buffer_free((void *)h->frame, h->num_pages * sizeof *h->frame);
    if (h->frames)
        aether_buffer_free(h->frames, h->num_frames * PAGE);
    free(h);
}

static uint64_t frames_in_use(const ae_hot_pages *h) {
    uint64_t taken = atomic_load_explicit(&h->taken, memory_order_relaxed);
    return taken < h->num_frames ? taken : h->num_frames;
}

uint64_t ae_hot_pages_memory(const ae_hot_pages *h) {
    return h ? sizeof *h + h->num_pages * per_page() + frames_in_use(h) * PAGE : 0;
}

bool ae_hot_pages_holds_all(const ae_hot_pages *h) {
    return h->num_frames == h->num_pages;
}

const void *ae_hot_pages_find(const ae_hot_pages *h, uint64_t page) {
    uint32_t at = atomic_load_explicit(&h->frame[page - h->first], memory_order_acquire);
    return at == NOWHERE ? NULL : h->frames + (at - 1) * PAGE;
}

/* Find the fewest uses that make a page hot: all pages with as many uses or more fit the frames. */
static void reconsider(ae_hot_pages *h) {
    uint64_t pages = 0;
    uint32_t uses = MOST_USES;
    for (; uses > 0; uses--) {
        uint64_t more = atomic_load_explicit(&h->with[uses], memory_order_relaxed);
        if (pages + more > h->num_frames)
            break;
        pages += more;
    }
    atomic_store_explicit(&h->least, uses + 1, memory_order_relaxed);
}

void ae_hot_pages_count(ae_hot_pages *h, const uint64_t *pages, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        _Atomic uint8_t *uses = &h->uses[pages[i] - h->first];
        uint8_t before = atomic_load_explicit(uses, memory_order_relaxed);
        if (before == MOST_USES ||
            !atomic_compare_exchange_strong_explicit(uses, &before, (uint8_t)(before + 1),
                                                     memory_order_relaxed, memory_order_relaxed))
            continue; /* a use that another thread counted at the same time may be lost */
        atomic_fetch_sub_explicit(&h->with[before], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->with[before + 1], 1, memory_order_relaxed);
    }
    uint64_t total = atomic_fetch_add_explicit(&h->total, n, memory_order_relaxed) + n;
    uint64_t last = atomic_load_explicit(&h->considered, memory_order_relaxed);
    if (ae_hot_pages_holds_all(h) || total < LEARN * h->num_pages || total - last < RECONSIDER)
        return;
    atomic_store_explicit(&h->considered, total, memory_order_relaxed);
    reconsider(h);
}

static bool is_hot(const ae_hot_pages *h, uint64_t index) {
    return atomic_load_explicit(&h->uses[index], memory_order_relaxed) >=
           atomic_load_explicit(&h->least, memory_order_relaxed);
}

bool ae_hot_pages_wants(const ae_hot_pages *h, uint64_t page) {
    const uint64_t index = page - h->first;
    return is_hot(h, index) && atomic_load_explicit(&h->frame[index], memory_order_relaxed) == NOWHERE &&
           frames_in_use(h) < h->num_frames;
}

void ae_hot_pages_offer(ae_hot_pages *h, uint64_t page, const void *data) {
    const uint64_t index = page - h->first;
    uint32_t nowhere = NOWHERE;
    if (!ae_hot_pages_wants(h, page))
        return;
    uint64_t at = atomic_fetch_add_explicit(&h->taken, 1, memory_order_relaxed);
    if (at >= h->num_frames)
        return;
    memcpy(h->frames + at * PAGE, data, PAGE);
    /* Two threads may offer a page at once: one frame is wasted then, no more. */
    atomic_compare_exchange_strong_explicit(&h->frame[index], &nowhere, (uint32_t)at + 1,
                                            memory_order_release, memory_order_relaxed);
}
