#include "durable/replay.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"
#include "durable/ops.h"
#include "live/handle.h"

enum { CHUNK = 8192 }; /* edges whose ids are widened at a time */

typedef struct note_header {
    uint32_t kind, goes_on;
    uint64_t size;
} note_header;

/* ---- notes ---- */

static uint64_t note_bytes(uint64_t size) {
    return sizeof(note_header) + ((size + 7) & ~UINT64_C(7));
}

static int keep_note(ae_replay *r, const ae_op *op, aether_error *err) {
    const uint64_t end = r->notes_used + note_bytes(op->count);
    const int rc = ae_scratch_reserve(&r->notes, end, r->notes_used, err);
    if (rc)
        return rc;
    note_header *h = (note_header *)(void *)((uint8_t *)r->notes.data + r->notes_used);
    *h = (note_header){op->of, op->flags & AE_OP_GOES_ON, op->count};
    memcpy(h + 1, op->bytes, op->count);
    r->notes_used = end;
    return AETHER_OK;
}

/* Move the pieces of a note together, behind its first header, and return where the next one begins; 0: the
 * pieces are not of one note, or the last is missing. */
static uint64_t join_note(const ae_replay *r, uint64_t at) {
    uint8_t *notes = r->notes.data;
    note_header *h = (note_header *)(void *)(notes + at);
    uint64_t next = at + note_bytes(h->size);
    while (h->goes_on) {
        if (next == r->notes_used)
            return 0;
        const note_header more = *(note_header *)(void *)(notes + next);
        if (more.kind != h->kind)
            return 0;
        memmove((uint8_t *)(h + 1) + h->size, notes + next + sizeof more, more.size);
        h->size += more.size;
        h->goes_on = more.goes_on;
        next += note_bytes(more.size);
    }
    return next;
}

static int hand_out_notes(ae_replay *r, uint64_t lsn, aether_error *err) {
    for (uint64_t at = 0; at < r->notes_used;) {
        const note_header *h = (note_header *)(void *)((uint8_t *)r->notes.data + at);
        const uint64_t next = join_note(r, at);
        if (!next)
            return ae_error_set(err, AETHER_E_CORRUPT, "a note of kind %" PRIu32 " does not go on", h->kind);
        const int rc = r->note ? r->note(r->user, lsn, h->kind, h + 1, h->size) : AETHER_OK;
        if (rc)
            return ae_error_at(err, AETHER_E_CANCELLED, -1, rc,
                               "the replay was stopped by its caller at a note of commit %" PRIu64, lsn);
        at = next;
    }
    r->notes_used = 0;
    return AETHER_OK;
}

/* ---- operations ---- */

/* Widen two columns of at most CHUNK ids each. */
static int widen(ae_replay *r, const uint32_t *src, const uint32_t *dst, uint64_t n, const int64_t **wide,
                 aether_error *err) {
    const int rc = ae_scratch_reserve(&r->ids, 2 * CHUNK * sizeof(int64_t), 0, err);
    if (rc)
        return rc;
    int64_t *out = r->ids.data;
    for (uint64_t i = 0; i < n; i++)
        out[i] = src[i];
    for (uint64_t i = 0; i < n; i++)
        out[CHUNK + i] = dst[i];
    wide[0] = out;
    wide[1] = out + CHUNK;
    return AETHER_OK;
}

static int check_first_edge_id(const ae_replay *r, const ae_op *op, aether_error *err) {
    if (op->first_edge_id == AE_OP_NO_EDGE_ID || op->of >= aether_live_num_relations(r->g))
        return AETHER_OK;
    const uint64_t end = r->g->transaction.relations[op->of].counts.next_edge_id;
    if (op->first_edge_id == end)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_CORRUPT,
                        "its edges were inserted into relation %" PRIu32 " after %" PRIu64
                        " others, and here there were %" PRIu64,
                        op->of, op->first_edge_id, end);
}

static int replay_insert(ae_replay *r, const ae_op *op, aether_error *err) {
    int rc = check_first_edge_id(r, op, err);
    for (uint64_t done = 0; !rc && done < op->count; done += CHUNK) {
        const uint64_t n = ae_min_u64(CHUNK, op->count - done);
        const int64_t *ids[2];
        uint64_t inserted;
        rc = widen(r, op->src + done, op->dst + done, n, ids, err);
        if (rc)
            return rc;
        const aether_live_edges edges = {.src = ids[0],
                                         .dst = ids[1],
                                         .times = op->times ? op->times + done : NULL,
                                         .weights = op->weights ? op->weights + done : NULL,
                                         .count = n};
        rc = aether_live_insert(r->g, op->of, &edges, NULL, &inserted, err);
    }
    return rc;
}

static int replay_delete(ae_replay *r, const ae_op *op, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t done = 0; !rc && done < op->count; done += CHUNK) {
        const uint64_t n = ae_min_u64(CHUNK, op->count - done);
        const int64_t *ids[2];
        uint64_t deleted;
        rc = widen(r, op->src + done, op->dst + done, n, ids, err);
        if (!rc)
            rc = aether_live_delete(r->g, op->of, ids[0], ids[1],
                                    op->edge_ids ? (const int64_t *)op->edge_ids + done : NULL, n, &deleted,
                                    err);
    }
    return rc;
}

static int apply(ae_replay *r, const ae_op *op, aether_error *err) {
    switch (op->kind) {
    case AE_OP_EDGES:
        return replay_insert(r, op, err);
    case AE_OP_DELETE:
        return replay_delete(r, op, err);
    case AE_OP_NODES:
        return aether_live_add_nodes(r->g, op->of, op->num_src, op->num_dst, err);
    case AE_OP_NOTE:
        return keep_note(r, op, err);
    default:
        return ae_error_set(err, AETHER_E_CORRUPT, "a part begins inside of it");
    }
}

/* ---- transactions ---- */

static void undo(ae_replay *r) {
    if (r->open && r->g->transaction.open) /* a change that failed has undone it already */
        aether_live_abort(r->g, NULL);
    r->open = false;
    r->notes_used = 0;
}

static int begin_replayed(ae_replay *r, uint64_t first, aether_error *err) {
    const int rc = aether_live_begin(r->g, err);
    r->open = !rc;
    r->first = first;
    return rc;
}

/* See which transaction the frame belongs to, and have it open. *at is moved behind a PART. */
static int enter_frame(ae_replay *r, const ae_log_commit *frame, uint64_t *at, bool *last,
                       aether_error *err) {
    ae_op op;
    *last = true;
    if (frame->size && *(const uint8_t *)frame->payload == AE_OP_PART) {
        const int rc = ae_op_decode(frame->payload, frame->size, at, &op, err);
        if (rc)
            return rc;
        *last = op.flags & AE_OP_LAST;
        if (r->open && op.count == r->first)
            return AETHER_OK;
        if (op.count && op.count < r->from)
            return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)r->from,
                               "commit %" PRIu64 " is in the midst of a transaction that begins with %" PRIu64
                               ": replay from there",
                               r->from, op.count);
        if (op.count != frame->lsn)
            return ae_error_set(err, AETHER_E_CORRUPT,
                                "it goes on with the transaction of commit %" PRIu64 ", which is not open",
                                op.count);
    }
    undo(r);
    return begin_replayed(r, frame->lsn, err);
}

/* Return whether a code is of what a replay needs besides the log: memory, and the base's file. */
static bool is_of_others(int rc) {
    return rc == AETHER_E_NO_MEMORY || rc == AETHER_E_CANCELLED || rc == AETHER_E_IO ||
           rc == AETHER_E_FILE_CHANGED || rc == AETHER_E_TRUNCATED;
}

/* Say which commit it is that does not fit. What is no fault of its bytes stays as it is. */
static int misfit(const ae_log_commit *frame, int rc, aether_error *err) {
    if (is_of_others(rc))
        return rc;
    const aether_error cause = *err;
    return ae_error_at(err, rc == AETHER_E_VERSION ? rc : AETHER_E_CORRUPT, -1, (int64_t)frame->lsn,
                       "commit %" PRIu64 " of the log does not fit this graph: %s", frame->lsn,
                       cause.message);
}

static int apply_all(ae_replay *r, const ae_log_commit *frame, uint64_t at, aether_error *err) {
    int rc = AETHER_OK;
    while (!rc && at < frame->size) {
        ae_op op;
        rc = ae_op_decode(frame->payload, frame->size, &at, &op, err);
        if (!rc)
            rc = apply(r, &op, err);
    }
    return rc;
}

void ae_replay_begin(ae_replay *r, aether_live *g, uint64_t from, aether_note_fn note, void *user,
                     aether_task *task) {
    *r = (ae_replay){.g = g, .note = note, .user = user, .task = task, .from = from, .lsn = from - 1};
    g->transaction.lsn = from - 1;
    ae_control_put_lsn(&g->graph.control, aether_live_last_commit(g), from - 1);
    ae_task_begin(task, 0);
}

int ae_replay_frame(void *replay, const ae_log_commit *frame, aether_error *err) {
    ae_replay *r = replay;
    aether_error own;
    uint64_t at = 0;
    bool last;
    int rc = ae_task_check(r->task, "the replay of a log", err);
    if (rc)
        return rc;
    err = err ? err : &own; /* what is wrong with a commit is told by the code, too */
    rc = enter_frame(r, frame, &at, &last, err);
    if (rc == AETHER_E_INVALID || rc == AETHER_E_LIMIT) /* LIMIT: 2^48 commits */
        return rc;
    if (!rc)
        rc = apply_all(r, frame, at, err);
    if (!rc && last)
        rc = hand_out_notes(r, frame->lsn, err);
    if (rc)
        return misfit(frame, rc, err);
    if (last) {
        r->g->transaction.lsn = frame->lsn;
        rc = aether_live_commit(r->g, err);
        r->open = false;
        r->lsn = frame->lsn;
    }
    ae_task_add(r->task, 1);
    return rc;
}

void ae_replay_end(ae_replay *r) {
    undo(r);
    ae_scratch_free(&r->notes);
    ae_scratch_free(&r->ids);
}
