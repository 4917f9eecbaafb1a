/* The rounds of the contexts of one block; see sample/context.h. */
#include <string.h>

#include "core/rng.h"
#include "core/task.h"
#include "sample/context.h"
#include "sample/draw/uniform.h"
#include "topology/stream.h"

#define CHUNK 256 /* entries that are read at a time of what is left of a list */

void ae_context_block_free(ae_context_block *b) {
    ae_scratch *all[] = {&b->places, &b->next,      &b->steps, &b->order,  &b->nodes,
                         &b->lists,  &b->positions, &b->ids,   &b->begins, &b->set};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ae_scratch_free(all[i]);
    ae_list_reader_free(&b->reader);
}

/* ---- rows of a context ---- */

static uint64_t row_hash(uint32_t type, uint64_t id) {
    return ae_rng_mix(id + ((uint64_t)type + 1) * AE_RNG_GAMMA);
}

/* Add a row unless the context of seed `at` has it or is full. */
static void add_row(const ae_contexts *w, ae_context_block *b, uint64_t seed, uint32_t at, uint32_t type,
                    uint64_t id, int32_t from, int32_t relation) {
    const aether_context_rows *out = w->out;
    const uint64_t row = (seed + at) * w->options->budget;
    const uint64_t length = (uint64_t)out->lengths[seed + at];
    uint32_t *places = (uint32_t *)b->places.data + at * w->slots;
    if (length == w->options->budget)
        return;
    uint64_t slot = row_hash(type, id) & (w->slots - 1);
    for (; places[slot]; slot = (slot + 1) & (w->slots - 1)) {
        const uint64_t known = row + places[slot] - 1;
        if (out->ids[known] == (int64_t)id && out->types[known] == (int32_t)type)
            return;
    }
    places[slot] = (uint32_t)length + 1;
    out->types[row + length] = (int32_t)type;
    out->ids[row + length] = (int64_t)id;
    out->from[row + length] = from;
    out->depths[row + length] = from < 0 ? 0 : out->depths[row + (uint64_t)from] + 1;
    out->relations[row + length] = relation;
    out->lengths[seed + at] = (int64_t)length + 1;
}

/* ---- a round ---- */

/* Note the lists of the next rows of one context: as many rows as may fill it. */
static int note_steps(const ae_contexts *w, ae_context_block *b, uint64_t seed, uint32_t at,
                      aether_error *err) {
    uint32_t *next = (uint32_t *)b->next.data + at;
    const int32_t *types = w->out->types + (seed + at) * w->options->budget;
    const uint64_t length = (uint64_t)w->out->lengths[seed + at], lacking = w->options->budget - length;
    for (uint64_t width = 0; lacking && *next < length && width < lacking; (*next)++) {
        const uint32_t type = (uint32_t)types[*next];
        const uint32_t from = w->first_followed[type], to = w->first_followed[type + 1];
        width += w->widths[type];
        const uint64_t bytes = (b->num_steps + to - from) * sizeof(ae_context_step);
        int rc = ae_scratch_reserve(&b->steps, bytes, b->num_steps * sizeof(ae_context_step), err);
        if (rc)
            return rc;
        ae_context_step *steps = b->steps.data;
        for (uint32_t i = from; i < to; i++)
            steps[b->num_steps++] = (ae_context_step){.seed = at, .place = *next, .relation = w->followed[i]};
    }
    return AETHER_OK;
}

/* Sort the steps by relation, stably, and find their lists. */
static int locate_steps(const ae_contexts *w, ae_context_block *b, uint64_t seed, aether_error *err) {
    const uint64_t n = b->num_steps;
    int rc = ae_scratch_reserve(&b->order, n * sizeof(uint32_t), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&b->nodes, n * sizeof(uint64_t), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&b->lists, n * sizeof(ae_list), 0, err);
    if (rc)
        return rc;
    const ae_context_step *steps = b->steps.data;
    uint64_t *begins = b->begins.data, *nodes = b->nodes.data;
    uint32_t *order = b->order.data;
    memset(begins, 0, ((uint64_t)w->num_relations + 1) * sizeof *begins);
    for (uint64_t i = 0; i < n; i++)
        begins[steps[i].relation + 1]++;
    for (uint32_t r = 0; r < w->num_relations; r++)
        begins[r + 1] += begins[r];
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t to = begins[steps[i].relation]++;
        order[to] = (uint32_t)i;
        nodes[to] = (uint64_t)w->out->ids[(seed + steps[i].seed) * w->options->budget + steps[i].place];
    }
    uint64_t begin = 0; /* the sort has moved each begin to the end */
    for (uint32_t r = 0; !rc && r < w->num_relations; r++) {
        const aether_topology *t = w->relations[r].topology;
        if (begins[r] > begin)
            rc = t->ops->locate(t, nodes + begin, begins[r] - begin, (ae_list *)b->lists.data + begin, err);
        begin = begins[r];
    }
    return rc;
}

static uint64_t entries_of(const ae_contexts *w, uint32_t relation, uint64_t degree) {
    const int64_t fanout = w->options->fanouts[relation];
    const uint64_t most = fanout < 0 ? w->options->budget : (uint64_t)fanout;
    return degree < most ? degree : most;
}

static void shuffle(uint64_t *positions, uint64_t n, uint64_t stream) {
    for (uint64_t i = n; i-- > 1;) {
        const uint64_t j = ae_rng_bounded(ae_rng_draw(stream, n + i), i + 1), position = positions[i];
        positions[i] = positions[j];
        positions[j] = position;
    }
}

static int draw(const ae_contexts *w, ae_context_block *b, const ae_context_step *s, uint64_t seed,
                uint64_t node, ae_list list, uint64_t *out, aether_error *err) {
    const uint64_t n = s->count;
    const bool whole = w->options->fanouts[s->relation] < 0;
    if (!whole && w->options->flags & AETHER_SAMPLE_LATEST) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = list.start + list.degree - 1 - i;
        return AETHER_OK;
    }
    for (uint64_t i = 0; i < n; i++)
        out[i] = list.start + i;
    if (whole)
        return AETHER_OK;
    const uint64_t at = seed + s->seed;
    const uint64_t number = (uint64_t)w->seeds->ids[at] * w->num_types + w->seeds->types[at];
    const uint64_t base = ae_rng_base(w->options->key, AE_CONTEXT_HOP, s->relation);
    const uint64_t stream = ae_rng_stream(base, node, number);
    int rc = n < list.degree ? ae_uniform_draw(list, n, false, stream, &b->set, out, err) : AETHER_OK;
    if (!rc)
        shuffle(out, n, stream);
    return rc;
}

/* Cut the lists of one relation, numbers `at` to `end`, to what their seeds may see. */
static int restrict_lists(const ae_contexts *w, ae_context_block *b, uint32_t relation, uint64_t seed,
                          uint64_t at, uint64_t end, aether_error *err) {
    const ae_times times = ae_times_of(&w->relations[relation]);
    const ae_context_step *steps = b->steps.data;
    const uint32_t *order = b->order.data;
    int64_t until[AE_TIMES_MANY];
    if (!w->seeds->until || !ae_times_given(&times))
        return AETHER_OK;
    int rc = AETHER_OK;
    while (!rc && at < end) {
        const uint64_t n = end - at < AE_TIMES_MANY ? end - at : AE_TIMES_MANY;
        for (uint64_t i = 0; i < n; i++)
            until[i] = w->seeds->until[seed + steps[order[at + i]].seed];
        rc = ae_times_restrict_many(&times, w->relations[relation].topology, NULL, until,
                                    (ae_list *)b->lists.data + at, n, err);
        at += n;
    }
    return rc;
}

/* Draw the entries of all lists, relation after relation. */
static int draw_steps(const ae_contexts *w, ae_context_block *b, uint64_t seed, aether_error *err) {
    ae_context_step *steps = b->steps.data;
    ae_list *lists = b->lists.data;
    const uint64_t *nodes = b->nodes.data, *ends = b->begins.data;
    const uint32_t *order = b->order.data;
    uint64_t *position_ends = (uint64_t *)b->begins.data + w->num_relations + 1;
    uint64_t at = 0;
    b->num_positions = 0;
    for (uint32_t r = 0; r < w->num_relations; r++) {
        int rc = restrict_lists(w, b, r, seed, at, ends[r], err);
        if (rc)
            return rc;
        for (; at < ends[r]; at++) {
            ae_context_step *s = &steps[order[at]];
            s->count = (uint32_t)entries_of(w, r, lists[at].degree);
            s->rest = w->options->fanouts[r] < 0 ? lists[at].degree - s->count : 0;
            s->first = b->num_positions;
            rc = ae_scratch_reserve(&b->positions, (b->num_positions + s->count) * sizeof(uint64_t),
                                    b->num_positions * sizeof(uint64_t), err);
            if (!rc && s->count)
                rc = draw(w, b, s, seed, nodes[at], lists[at], (uint64_t *)b->positions.data + s->first, err);
            if (rc)
                return rc;
            b->num_positions += s->count;
        }
        position_ends[r] = b->num_positions;
    }
    return AETHER_OK;
}

static int fetch_some(ae_context_block *b, const aether_topology *t, const uint64_t *positions, uint64_t n,
                      uint64_t *ids, aether_task *task, aether_error *err) {
    return ae_list_reader_pays(t) ? ae_list_reader_fetch(&b->reader, t, positions, n, ids, task, err)
                                  : ae_stream_ids(t, positions, n, ids, sizeof *ids, task, err);
}

static int fetch_all(const ae_contexts *w, ae_context_block *b, aether_error *err) {
    int rc = ae_scratch_reserve(&b->ids, b->num_positions * sizeof(uint64_t), 0, err);
    const uint64_t *positions = b->positions.data;
    const uint64_t *ends = (uint64_t *)b->begins.data + w->num_relations + 1;
    uint64_t begin = 0;
    for (uint32_t r = 0; !rc && r < w->num_relations; r++) {
        if (ends[r] > begin)
            rc = fetch_some(b, w->relations[r].topology, positions + begin, ends[r] - begin,
                            (uint64_t *)b->ids.data + begin, w->options->task, err);
        begin = ends[r];
    }
    return rc;
}

static void add_entries(const ae_contexts *w, ae_context_block *b, const ae_context_step *s, uint64_t seed,
                        const uint64_t *ids, uint64_t n) {
    for (uint64_t k = 0; k < n; k++)
        add_row(w, b, seed, s->seed, w->relations[s->relation].to, ids[k], (int32_t)s->place,
                (int32_t)s->relation);
}

/* Go on behind the entries drawn from a list that is wanted whole: as many entries as the budget
 * fill a context, unless some of them are the same row. */
static int add_rest(const ae_contexts *w, ae_context_block *b, const ae_context_step *s, uint64_t seed,
                    aether_error *err) {
    const aether_topology *t = w->relations[s->relation].topology;
    const int64_t *length = &w->out->lengths[seed + s->seed];
    uint64_t positions[CHUNK], ids[CHUNK];
    uint64_t at = ((uint64_t *)b->positions.data)[s->first] + s->count;
    const uint64_t end = at + s->rest;
    int rc = AETHER_OK;
    while (!rc && at < end && (uint64_t)*length < w->options->budget) {
        const uint64_t n = end - at < CHUNK ? end - at : CHUNK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = at + i;
        rc = ae_task_check(w->options->task, "sampling", err);
        if (!rc)
            rc = fetch_some(b, t, positions, n, ids, w->options->task, err);
        if (!rc)
            add_entries(w, b, s, seed, ids, n);
        at += n;
    }
    return rc;
}

static int add_rows(const ae_contexts *w, ae_context_block *b, uint64_t seed, aether_error *err) {
    const ae_context_step *steps = b->steps.data;
    const uint64_t *ids = b->ids.data;
    int rc = AETHER_OK;
    for (uint64_t i = 0; !rc && i < b->num_steps; i++) {
        add_entries(w, b, &steps[i], seed, ids + steps[i].first, steps[i].count);
        if (steps[i].rest)
            rc = add_rest(w, b, &steps[i], seed, err);
    }
    return rc;
}

/* ---- a block ---- */

static int start_block(const ae_contexts *w, ae_context_block *b, uint64_t seed, uint64_t count,
                       aether_error *err) {
    const uint64_t cells = count * w->options->budget, at = seed * w->options->budget;
    const uint64_t table = count * w->slots * sizeof(uint32_t);
    int rc = ae_scratch_reserve(&b->places, table, 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&b->next, count * sizeof(uint32_t), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&b->begins, ((uint64_t)w->num_relations + 1) * 2 * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    memset(b->places.data, 0, table);
    memset(b->next.data, 0, count * sizeof(uint32_t));
    memset(w->out->types + at, 0xff, cells * sizeof(int32_t));
    memset(w->out->ids + at, 0xff, cells * sizeof(int64_t));
    memset(w->out->from + at, 0xff, cells * sizeof(int32_t));
    memset(w->out->depths + at, 0xff, cells * sizeof(int32_t));
    memset(w->out->relations + at, 0xff, cells * sizeof(int32_t));
    for (uint32_t i = 0; i < count; i++) {
        w->out->lengths[seed + i] = 0;
        add_row(w, b, seed, i, w->seeds->types[seed + i], (uint64_t)w->seeds->ids[seed + i], -1, -1);
    }
    return AETHER_OK;
}

int ae_context_block_run(const ae_contexts *w, ae_context_block *b, uint64_t seed, uint64_t count,
                         aether_error *err) {
    int rc = start_block(w, b, seed, count, err);
    while (!rc) {
        b->num_steps = 0;
        rc = ae_task_check(w->options->task, "sampling", err);
        for (uint32_t i = 0; !rc && i < count; i++)
            rc = note_steps(w, b, seed, i, err);
        if (rc || !b->num_steps)
            break;
        rc = locate_steps(w, b, seed, err);
        if (!rc)
            rc = draw_steps(w, b, seed, err);
        if (!rc)
            rc = fetch_all(w, b, err);
        if (!rc)
            rc = add_rows(w, b, seed, err);
    }
    return rc;
}
