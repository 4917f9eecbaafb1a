#include "topology/list_reader.h"

#include <string.h>

#include "topology/stream.h"

void ae_list_reader_free(ae_list_reader *r) {
    ae_staging_free(&r->staging);
    ae_scratch_free(&r->positions);
    ae_scratch_free(&r->ids);
}

uint64_t ae_list_reader_memory(const ae_list_reader *r) {
    return ae_staging_memory(&r->staging) + r->positions.bytes + r->ids.bytes;
}

/* Narrow ids are read into the upper half of the wide ones and widened from the front. */
int ae_list_reader_fetch(ae_list_reader *r, const aether_topology *t, const uint64_t *positions, uint64_t n,
                         uint64_t *ids, aether_task *task, aether_error *err) {
    const bool narrow = t->id_bytes == 4;
    uint32_t *upper = (uint32_t *)(void *)ids + n;
    const ae_fetch job = {positions, n, narrow ? (void *)upper : (void *)ids};
    if (n == 0)
        return AETHER_OK;
    r->staging.learns = true;
    r->staging.window_bytes = AE_LIST_READER_WINDOW;
    int rc = t->ops->fetch_many(t, &job, 1, &r->staging, task, err);
    for (uint64_t i = 0; !rc && narrow && i < n; i++) {
        uint32_t id;
        memcpy(&id, upper + i, sizeof id);
        ids[i] = id;
    }
    return rc;
}

/* ---- whole lists ---- */

/* Progress through consecutive lists: entry `done` of list `at` is next. */
typedef struct part {
    uint64_t at, done;
} part;

/* Take at most `room` entries of the current list. */
static uint64_t take_of_list(const ae_list *lists, part *p, uint64_t room, ae_list *out) {
    const ae_list list = lists[p->at];
    const uint64_t left = list.degree - p->done, n = left < room ? left : room;
    *out = (ae_list){list.start + p->done, n};
    p->done += n;
    if (p->done == list.degree)
        *p = (part){p->at + 1, 0};
    return n;
}

static uint64_t fill_positions(const ae_list *lists, uint64_t n, part *p, uint64_t room,
                               uint64_t *positions) {
    uint64_t count = 0;
    while (p->at < n && count < room) {
        ae_list some;
        take_of_list(lists, p, room - count, &some);
        for (uint64_t i = 0; i < some.degree; i++)
            positions[count++] = some.start + i;
    }
    return count;
}

static int visit_fetched(const ae_list *lists, part *p, uint64_t *ids, uint64_t count, ae_list_visitor visit,
                         void *ctx, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t used = 0; !rc && used < count;) {
        const uint64_t list = p->at;
        ae_list some;
        take_of_list(lists, p, count - used, &some);
        if (some.degree)
            rc = visit(ctx, list, some.start, ids + used, some.degree, err);
        used += some.degree;
    }
    return rc;
}

/* Lists in memory go through the stages of a stream (topology/stream.h). */
typedef struct list_stream {
    const aether_topology *t;
    const ae_list *lists;
    uint64_t n;
    part asked, used;
    uint64_t (*positions)[AE_STREAM_CHUNK]; /* of the chunk that is asked for, and of the one before */
    ae_list_visitor visit;
    void *ctx;
} list_stream;

static int ask_lists(void *ctx, uint64_t at, uint64_t n, aether_error *err) {
    list_stream *s = ctx;
    uint64_t *positions = s->positions[at / AE_STREAM_CHUNK % 2];
    (void)err;
    fill_positions(s->lists, s->n, &s->asked, n, positions);
    s->t->ops->prefetch(s->t, positions, n);
    return AETHER_OK;
}

static int fetch_lists(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    const list_stream *s = ctx;
    return s->t->ops->fetch(s->t, s->positions[at / AE_STREAM_CHUNK % 2], n, ids, err);
}

static int use_lists(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    list_stream *s = ctx;
    (void)at;
    return visit_fetched(s->lists, &s->used, ids, n, s->visit, s->ctx, err);
}

static int stream_lists(const aether_topology *t, const ae_list *lists, uint64_t n, ae_list_visitor visit,
                        void *ctx, aether_task *task, aether_error *err) {
    static const ae_stream stages = {ask_lists, fetch_lists, use_lists};
    uint64_t total = 0, positions[2][AE_STREAM_CHUNK];
    list_stream s = {.t = t, .lists = lists, .n = n, .positions = positions, .visit = visit, .ctx = ctx};
    for (uint64_t i = 0; i < n; i++)
        total += lists[i].degree;
    return ae_stream_run(&stages, total, &s, task, err);
}

int ae_list_reader_lists(ae_list_reader *r, const aether_topology *t, const ae_list *lists, uint64_t n,
                         ae_list_visitor visit, void *ctx, aether_task *task, aether_error *err) {
    uint64_t total = 0;
    if (!ae_list_reader_pays(t))
        return stream_lists(t, lists, n, visit, ctx, task, err);
    for (uint64_t i = 0; i < n && total < AE_LIST_READER_MOST; i++)
        total += lists[i].degree < AE_LIST_READER_MOST ? lists[i].degree : AE_LIST_READER_MOST;
    const uint64_t room = total < AE_LIST_READER_MOST ? total : AE_LIST_READER_MOST;
    int rc = ae_scratch_reserve(&r->positions, room * sizeof(uint64_t), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&r->ids, room * sizeof(uint64_t), 0, err);
    part filled = {0, 0}, used = {0, 0};
    while (!rc && room && filled.at < n) {
        uint64_t count = fill_positions(lists, n, &filled, room, r->positions.data);
        rc = ae_list_reader_fetch(r, t, r->positions.data, count, r->ids.data, task, err);
        if (!rc)
            rc = visit_fetched(lists, &used, r->ids.data, count, visit, ctx, err);
    }
    return rc;
}
