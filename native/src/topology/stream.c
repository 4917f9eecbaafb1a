#include "topology/stream.h"

typedef struct id_stream {
    const aether_topology *t;
    const uint64_t *positions;
    uint64_t *wide; /* where ids go; NULL: to `narrow` */
    uint32_t *narrow;
} id_stream;

static int ask_ids(void *ctx, uint64_t at, uint64_t n, aether_error *err) {
    const id_stream *s = ctx;
    (void)err;
    s->t->ops->prefetch(s->t, s->positions + at, n);
    return AETHER_OK;
}

static int fetch_ids(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    const id_stream *s = ctx;
    int rc = s->t->ops->fetch(s->t, s->positions + at, n, s->wide ? s->wide + at : ids, err);
    for (uint64_t i = 0; !rc && s->narrow && i < n; i++)
        s->narrow[at + i] = (uint32_t)ids[i];
    return rc;
}

int ae_stream_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, void *out,
                  uint32_t id_bytes, aether_task *task, aether_error *err) {
    static const ae_stream stages = {ask_ids, fetch_ids, NULL};
    const bool narrow = id_bytes == 4;
    id_stream s = {t, positions, narrow ? NULL : out, narrow ? out : NULL};
    return ae_stream_run(&stages, n, &s, task, err);
}
