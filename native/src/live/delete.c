#include "live/delete.h"

#include <stdlib.h>

#include "core/error.h"
#include "live/remove.h"

/* Lists of up to so many entries are changed once for each pair: sorting pairs would take longer. */
#define SHORT_LIST 128

/* Edges that are to go from the list of a node. */
typedef struct asked_edge {
    uint32_t node, id; /* `id` is at the other end */
    int64_t edge;      /* -1: every edge to the id */
    bool found;
} asked_edge;

/* A list, what is asked of it, and its entries that are to go. */
typedef struct doom {
    const ae_writer *w;
    asked_edge *of; /* ascending by id and edge */
    uint64_t n;
    bool by_edge;
    uint32_t *indexes; /* ascending */
    uint32_t num_indexes, room;
    aether_error *err;
} doom;

static int by_list(const void *a, const void *b) {
    const asked_edge *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->edge > y->edge) - (x->edge < y->edge);
}

/* ---- what is to go from a list ---- */

static int add_index(doom *d, uint32_t index) {
    if (d->num_indexes == d->room) {
        const uint32_t room = 2 * d->room + 64;
        uint32_t *grown = realloc(d->indexes, room * sizeof *grown);
        if (!grown)
            return ae_error_set(d->err, AETHER_E_NO_MEMORY, "no memory for deleting edges");
        d->indexes = grown;
        d->room = room;
    }
    d->indexes[d->num_indexes++] = index;
    return AETHER_OK;
}

/* Return the first of what is asked that asks for the entry, or NULL. Without branches that would be wrong
 * half of the time: every entry of a long list comes by. */
static asked_edge *find_asked(const doom *d, uint32_t id, int64_t edge) {
    asked_edge *low = d->of;
    for (uint64_t left = d->n; left > 1;) {
        const uint64_t half = left / 2;
        const asked_edge *a = &low[half - 1];
        low += half & -(uint64_t)((a->id < id) | ((a->id == id) & (a->edge < edge)));
        left -= half;
    }
    return low->id == id && low->edge == edge ? low : NULL;
}

static int find_doomed(void *ctx, const uint8_t *groups, uint32_t first, uint32_t n) {
    doom *d = ctx;
    const ae_layout *l = ae_blocks_layout(d->w);
    const uint32_t least = d->of[0].id, span = d->of[d->n - 1].id - least;
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < n; i++) {
        const uint8_t *group = groups + (uint64_t)(i / AE_GROUP) * l->group;
        const uint32_t id = ae_group_id(group, i % AE_GROUP);
        if (id - least > span)
            continue;
        asked_edge *a =
            find_asked(d, id, d->by_edge ? (int64_t)ae_group_edge_id(l, group, i % AE_GROUP) : -1);
        if (!a)
            continue;
        a->found = true;
        rc = add_index(d, first + i);
    }
    return rc;
}

/* In sorted lists the places of the ids are known, and come in order. */
static int look_up_doomed(doom *d, uint64_t head) {
    int rc = AETHER_OK;
    for (uint64_t i = 0; !rc && i < d->n; i++) {
        asked_edge *a = &d->of[i];
        ae_spot spot;
        uint64_t edge = 0;
        if (i > 0 && by_list(a - 1, a) == 0)
            continue;
        rc = ae_find_id(d->w, head, a->id, &spot, d->err);
        if (!rc && spot.found && d->by_edge)
            rc = ae_find_edge_id(d->w, head, spot, &edge, d->err);
        if (rc || !spot.found || (d->by_edge && edge != (uint64_t)a->edge))
            continue;
        a->found = true;
        rc = add_index(d, ae_find_index(d->w, head, &spot));
    }
    return rc;
}

static bool is_asked_for(void *ctx, uint32_t id) {
    const doom *d = ctx;
    uint64_t low = 0, high = d->n;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (d->of[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->n && d->of[low].id == id;
}

/* Return whether the base's list of a node has any of the ids that are asked for. */
static int look_in_base(doom *d, uint32_t node, bool *found) {
    *found = false;
    if (!ae_blocks_sorted(d->w))
        return ae_find_any_in_base(d->w, node, is_asked_for, d, found, d->err);
    int rc = AETHER_OK;
    for (uint64_t i = 0; !rc && !*found && i < d->n; i++) {
        uint64_t position;
        rc = ae_find_in_base(d->w, node, d->of[i].id, &position, d->err);
        *found = !rc && position != UINT64_MAX;
    }
    return rc;
}

/* ---- deleting ---- */

/* Delete what is asked of the list of a node; d->num_indexes says how many entries that were. */
static int delete_in(ae_writer *w, uint32_t node, doom *d) {
    uint64_t head = ae_writer_head(w, node);
    ae_edit e;
    int rc = AETHER_OK;
    d->num_indexes = 0;
    if (head == AE_HEAD_BASE) { /* it is adopted only if it changes */
        bool found;
        rc = look_in_base(d, node, &found);
        if (rc || !found)
            return rc;
        rc = ae_edit_open(w, node, 0, &e, d->err);
        if (rc)
            return rc;
        head = e.head;
    }
    rc = ae_blocks_sorted(w) ? look_up_doomed(d, head) : ae_find_each(w, head, find_doomed, d, d->err);
    if (rc || !d->num_indexes)
        return rc;
    rc = ae_edit_open(w, node, ae_find_blocks(w, head), &e, d->err);
    return rc ? rc : ae_remove(&e, d->indexes, d->num_indexes, d->err);
}

/* Delete what is asked of the lists of one layout; *gone says how many entries that were. */
static int delete_in_all(ae_writer *w, asked_edge *of, uint64_t n, doom *d, uint64_t *gone) {
    int rc = AETHER_OK;
    *gone = 0;
    if (n > 1)
        qsort(of, n, sizeof *of, by_list);
    d->w = w;
    for (uint64_t i = 0, end; !rc && i < n; i = end) {
        for (end = i + 1; end < n && of[end].node == of[i].node;)
            end++;
        d->of = of + i;
        d->n = end - i;
        rc = delete_in(w, of[i].node, d);
        *gone += d->num_indexes;
    }
    return rc;
}

/* Ask the lists at the other ends for what was found. Return how much that is. */
static uint64_t turn_found(asked_edge *of, uint64_t n) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++)
        if (of[i].found)
            of[found++] = (asked_edge){.node = of[i].id, .id = of[i].node, .edge = of[i].edge};
    return found;
}

/* Delete what is asked of the lists of `first` from both layouts; nothing is asked of those that are not
 * there. */
static int delete_from(ae_changing *c, ae_writer *first, asked_edge *of, uint64_t n, doom *d) {
    ae_writer *second = first == c->csc ? c->csr : c->csc;
    uint64_t gone, same;
    if (!first || !n)
        return AETHER_OK;
    const int rc = delete_in_all(first, of, n, d, &gone);
    c->counts.num_edges -= gone;
    return rc || !second ? rc : delete_in_all(second, of, turn_found(of, n), d, &same);
}

/* Pairs whose lists are long: of those of csc lists first, from the front of `of` on, the others from its
 * end. */
typedef struct waiting {
    asked_edge *of;
    uint64_t front, back;
} waiting;

/* Ask the shorter list of a pair, at once or, where one of its lists is long, later with all pairs of it. */
static int ask_pair(ae_changing *c, uint32_t src, uint32_t dst, int64_t edge, waiting *later, doom *d) {
    uint64_t in = 0, out = 0;
    int rc = c->csc ? ae_find_length(c->csc, dst, &in, d->err) : AETHER_OK;
    if (!rc && c->csr)
        rc = ae_find_length(c->csr, src, &out, d->err);
    if (rc)
        return rc;
    const bool by_dst = c->csc && (!c->csr || in <= out);
    asked_edge a = {.node = by_dst ? dst : src, .id = by_dst ? src : dst, .edge = edge};
    if (in <= SHORT_LIST && out <= SHORT_LIST)
        return delete_from(c, by_dst ? c->csc : c->csr, &a, 1, d);
    later->of[by_dst ? later->front++ : --later->back] = a;
    return AETHER_OK;
}

int ae_delete(ae_changing *c, const int64_t *src, const int64_t *dst, const int64_t *edge_ids, uint64_t n,
              aether_error *err) {
    doom d = {.by_edge = edge_ids, .err = err};
    waiting later = {.of = malloc((n ? n : 1) * sizeof *later.of), .back = n};
    int rc = AETHER_OK;
    if (!later.of)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for deleting edges");
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = ask_pair(c, (uint32_t)src[i], (uint32_t)dst[i], edge_ids ? edge_ids[i] : -1, &later, &d);
    /* One after the other: a pair that is among both finds nothing the second time. */
    if (!rc)
        rc = delete_from(c, c->csc, later.of, later.front, &d);
    if (!rc)
        rc = delete_from(c, c->csr, later.of + later.back, n - later.back, &d);
    free(d.indexes);
    free(later.of);
    return rc;
}
