#include "sample/draw/reservoir.h"

#include <math.h>
#include <stdlib.h>

/* Replace the largest key, at the top of the heap, and restore the heap. */
static void replace_top(ae_candidate *heap, uint64_t n, ae_candidate c) {
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= n)
            break;
        child += child + 1 < n && heap[child + 1].key > heap[child].key;
        if (heap[child].key <= c.key)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = c;
}

static void push_candidate(ae_candidate *heap, uint64_t n, ae_candidate c) {
    uint64_t i = n;
    for (; i > 0 && heap[(i - 1) / 2].key < c.key; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

void ae_reservoir_put(ae_reservoir *r, double weight, double u, uint64_t item) {
    ae_candidate c = {-log(u) / weight, item};
    if (r->count < r->capacity)
        push_candidate(r->heap, r->count++, c);
    else if (c.key < r->heap[0].key)
        replace_top(r->heap, r->capacity, c);
}

static int by_item(const void *a, const void *b) {
    uint64_t x = ((const ae_candidate *)a)->item, y = ((const ae_candidate *)b)->item;
    return x < y ? -1 : x > y;
}

static int by_key(const void *a, const void *b) {
    double x = ((const ae_candidate *)a)->key, y = ((const ae_candidate *)b)->key;
    return x < y ? -1 : x > y ? 1 : by_item(a, b);
}

void ae_reservoir_sort_by_item(ae_reservoir *r) {
    qsort(r->heap, r->count, sizeof *r->heap, by_item);
}

void ae_reservoir_sort_by_key(ae_reservoir *r) {
    qsort(r->heap, r->count, sizeof *r->heap, by_key);
}
