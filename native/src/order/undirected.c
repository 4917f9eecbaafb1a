#include "order/undirected.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"
#include "topology/list_reader.h"
#include "topology/visit_lists.h"

#define LISTS 1024 /* located at a time */
#define AHEAD 16
#define DIGIT 16 /* bits that a pass sorts by */

/* Visit n entries of the list of a node. */
typedef int (*edge_visitor)(void *ctx, uint64_t major, const uint64_t *minors, uint64_t n, aether_error *err);

int ae_order_check_count(uint64_t n, aether_error *err) {
    if (n <= AE_ORDER_MOST)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_LIMIT, "%" PRIu64 " nodes are more than the %" PRIu64 " of an order", n,
                        AE_ORDER_MOST);
}

int ae_order_check_places(const uint64_t *places, uint64_t n, aether_error *err) {
    uint64_t before = 0;
    for (uint64_t i = 0; i <= n; i++) {
        if (places[i] < before || (i == 0 && places[0]))
            return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)i, (int64_t)places[i],
                               "the places of the lists do not ascend from 0 at %" PRIu64, i);
        before = places[i];
    }
    return AETHER_OK;
}

int ae_order_bad_entry(uint64_t position, uint32_t entry, uint64_t n, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, entry,
                       "entry %" PRIu64 " of the lists is %" PRIu32 ", not below %" PRIu64, position, entry,
                       n);
}

/* ---- edges of a topology ------------------------------------------------------------- */

typedef struct lists_visit {
    uint64_t first; /* node of list 0 */
    edge_visitor visit;
    void *ctx;
} lists_visit;

static int visit_list(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    const lists_visit *v = ctx;
    (void)at;
    return v->visit(v->ctx, v->first + list, ids, n, err);
}

static int visit_here(const aether_topology *t, const ae_list *lists, uint64_t n, const lists_visit *v,
                      aether_error *err) {
    uint64_t positions[AE_VISIT_POSITIONS], ids[AE_VISIT_POSITIONS];
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t done = 0; done < lists[i].degree;) {
            const uint64_t some = ae_visit_positions(lists[i], done, positions);
            int rc = t->ops->fetch(t, positions, some, ids, err);
            if (!rc)
                rc = v->visit(v->ctx, v->first + i, ids, some, err);
            if (rc)
                return rc;
            done += some;
        }
    }
    return AETHER_OK;
}

static int visit_edges(const aether_topology *t, edge_visitor visit, void *ctx, aether_task *task,
                       aether_error *err) {
    ae_list_reader reader = {0};
    const bool far = ae_list_reader_pays(t);
    uint64_t nodes[LISTS];
    ae_list lists[LISTS];
    int rc = AETHER_OK;
    ae_task_begin(task, t->num_edges);
    for (uint64_t first = 0; !rc && first < t->num_major; first += LISTS) {
        const uint64_t n = t->num_major - first < LISTS ? t->num_major - first : LISTS;
        uint64_t edges = 0;
        lists_visit v = {first, visit, ctx};
        for (uint64_t i = 0; i < n; i++)
            nodes[i] = first + i;
        rc = ae_task_check(task, "reading lists", err);
        if (!rc)
            rc = t->ops->locate(t, nodes, n, lists, err);
        if (!rc)
            rc = far ? ae_list_reader_lists(&reader, t, lists, n, visit_list, &v, NULL, err)
                     : visit_here(t, lists, n, &v, err);
        for (uint64_t i = 0; !rc && i < n; i++)
            edges += lists[i].degree;
        ae_task_add(task, edges);
    }
    ae_list_reader_free(&reader);
    return rc;
}

/* Fail unless the nodes of a topology, numbered from the first ones on, are among n. */
static int check_node_ranges(const aether_topology *t, uint64_t first_major, uint64_t first_minor, uint64_t n,
                             aether_error *err) {
    const int rc = ae_order_check_count(n, err);
    if (rc)
        return rc;
    if (first_major > n || t->num_major > n - first_major || first_minor > n ||
        t->num_minor > n - first_minor)
        return ae_error_set(err, AETHER_E_INVALID,
                            "lists of %" PRIu64 " nodes from %" PRIu64 " on, to %" PRIu64
                            " nodes from %" PRIu64 " on, are not among %" PRIu64,
                            t->num_major, first_major, t->num_minor, first_minor, n);
    return AETHER_OK;
}

/* ---- degrees ------------------------------------------------------------------------- */

typedef struct counting {
    uint64_t first_major, first_minor, balance;
    uint64_t *degrees;
} counting;

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

static int count_list_edges(void *ctx, uint64_t major, const uint64_t *minors, uint64_t n,
                            aether_error *err) {
    counting *c = ctx;
    const uint64_t a = c->first_major + major;
    uint64_t loops = 0, balance = 0;
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t b = c->first_minor + minors[i];
        if (i + AHEAD < n)
            __builtin_prefetch(c->degrees + c->first_minor + minors[i + AHEAD], 1);
        if (a == b) {
            loops++;
            continue;
        }
        balance += mix(a << 32 | b) - mix(b << 32 | a);
        c->degrees[b]++;
    }
    c->degrees[a] += n - loops;
    c->balance += balance;
    return AETHER_OK;
}

int aether_order_degrees(const aether_order_part *part, uint64_t *degrees, uint64_t *balance,
                         aether_task *task, aether_error *err) {
    int rc = ae_options_check(part, sizeof *part, "aether_order_part", err);
    if (rc)
        return rc;
    counting c = {part->first_major, part->first_minor, *balance, degrees};
    rc = check_node_ranges(part->topology, part->first_major, part->first_minor, part->n, err);
    if (!rc)
        rc = visit_edges(part->topology, count_list_edges, &c, task, err);
    *balance = c.balance;
    return rc;
}

/* ---- ranks --------------------------------------------------------------------------- */

/* Sort nodes stably by a digit of their degrees; `from` NULL stands for 0 .. n - 1. */
static void sort_by_digit(const uint64_t *degrees, uint64_t n, uint32_t shift, uint64_t *counts,
                          const uint32_t *from, uint32_t *to) {
    const uint64_t mask = (UINT64_C(1) << DIGIT) - 1;
    memset(counts, 0, (mask + 1) * sizeof *counts);
    for (uint64_t i = 0; i < n; i++)
        counts[degrees[i] >> shift & mask]++;
    for (uint64_t digit = 0, before = 0; digit <= mask; digit++) {
        const uint64_t count = counts[digit];
        counts[digit] = before;
        before += count;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t node = from ? from[i] : (uint32_t)i;
        to[counts[degrees[node] >> shift & mask]++] = node;
    }
}

int aether_order_ranks(const uint64_t *degrees, uint64_t n, uint32_t *nodes, uint32_t *ranks,
                       uint64_t *places, aether_error *err) {
    const int rc = ae_order_check_count(n, err);
    if (rc)
        return rc;
    uint64_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = degrees[i] > most ? degrees[i] : most;
    uint32_t passes = 1;
    while (passes < 64 / DIGIT && most >> DIGIT * passes)
        passes++;
    uint64_t *counts = malloc((UINT64_C(1) << DIGIT) * sizeof *counts);
    if (!counts)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "cannot allocate the counts of a sort");
    /* Each pass goes from one array to the other; the last one to `nodes`. */
    uint32_t *from = NULL, *to = passes % 2 ? nodes : ranks;
    for (uint32_t pass = 0; pass < passes; pass++) {
        sort_by_digit(degrees, n, DIGIT * pass, counts, from, to);
        from = to;
        to = to == nodes ? ranks : nodes;
    }
    free(counts);
    places[0] = 0;
    uint64_t before = 0;
    for (uint64_t i = 0; i < n; i++) { /* where each list begins: filling moves it to its end */
        ranks[nodes[i]] = (uint32_t)i;
        places[i + 1] = before;
        before += degrees[nodes[i]];
    }
    return AETHER_OK;
}

/* ---- lists --------------------------------------------------------------------------- */

typedef struct filling {
    uint64_t first_major, first_minor, capacity;
    const uint32_t *ranks;
    uint64_t *places;
    uint32_t *neighbors;
    bool both;
} filling;

static int put_neighbor(const filling *f, uint32_t list, uint32_t entry, aether_error *err) {
    const uint64_t place = f->places[list + UINT64_C(1)]++;
    if (place >= f->capacity)
        return ae_error_set(err, AETHER_E_CORRUPT, "the lists have more edges than before");
    f->neighbors[place] = entry;
    return AETHER_OK;
}

static int fill_edges(void *ctx, uint64_t major, const uint64_t *minors, uint64_t n, aether_error *err) {
    const filling *f = ctx;
    const uint64_t a = f->first_major + major;
    const uint32_t rank = f->ranks[a];
    int rc = AETHER_OK;
    for (uint64_t i = 0; !rc && i < n; i++) {
        const uint64_t b = f->first_minor + minors[i];
        if (i + AHEAD < n)
            __builtin_prefetch(f->ranks + f->first_minor + minors[i + AHEAD]);
        if (a == b)
            continue;
        const uint32_t other = f->ranks[b];
        rc = put_neighbor(f, rank, other, err);
        if (!rc && f->both)
            rc = put_neighbor(f, other, rank, err);
    }
    return rc;
}

int aether_order_fill(const aether_order_part *part, uint32_t both, const uint32_t *ranks,
                      const aether_order_lists *lists, aether_task *task, aether_error *err) {
    int rc = ae_options_check(part, sizeof *part, "aether_order_part", err);
    if (!rc)
        rc = ae_options_check(lists, sizeof *lists, "aether_order_lists", err);
    if (rc)
        return rc;
    filling f = {part->first_major, part->first_minor, lists->capacity, ranks,
                 lists->places,     lists->neighbors,  both != 0};
    rc = check_node_ranges(part->topology, part->first_major, part->first_minor, part->n, err);
    return rc ? rc : visit_edges(part->topology, fill_edges, &f, task, err);
}

/* ---- sorted lists -------------------------------------------------------------------- */

#define SORT_CHUNK 4096
#define FEW        24 /* entries that are sorted by insertion */

typedef struct sorting {
    const uint64_t *places;
    uint32_t *neighbors;
    uint64_t n;
    aether_task *task;
} sorting;

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_neighbors(uint32_t *list, uint64_t n) {
    if (n > FEW) {
        qsort(list, n, sizeof *list, compare);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        const uint32_t one = list[i];
        uint64_t j = i;
        for (; j && list[j - 1] > one; j--)
            list[j] = list[j - 1];
        list[j] = one;
    }
}

static void sort_list_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    const sorting *s = ctx;
    const uint64_t begin = chunk * SORT_CHUNK;
    const uint64_t end = s->n - begin < SORT_CHUNK ? s->n : begin + SORT_CHUNK;
    (void)worker;
    if (ae_task_cancelled(s->task))
        return;
    for (uint64_t i = begin; i < end; i++)
        sort_neighbors(s->neighbors + s->places[i], s->places[i + 1] - s->places[i]);
    ae_task_add(s->task, s->places[end] - s->places[begin]);
}

int aether_order_sort(const uint64_t *places, uint32_t *neighbors, uint64_t n, aether_task *task,
                      aether_error *err) {
    const int rc = ae_order_check_places(places, n, err);
    if (rc)
        return rc;
    sorting s = {places, neighbors, n, task};
    ae_task_begin(task, places[n]);
    ae_pool_run(sort_list_chunk, &s, (n + SORT_CHUNK - 1) / SORT_CHUNK, 0);
    return ae_task_check(task, "sorting lists", err);
}
