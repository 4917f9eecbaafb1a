#include "durable/record.h"

#include "core/minmax.h"
#include "durable/ops.h"

void ae_record_init(ae_record *r, ae_log *log, uint64_t most) {
    *r = (ae_record){.log = log, .used = AE_OP_HEADER_BYTES, .most = most};
}

void ae_record_free(ae_record *r) {
    ae_scratch_free(&r->buffer);
}

void ae_record_begin(ae_record *r) {
    r->used = AE_OP_HEADER_BYTES;
    r->first = 0;
    r->ops = 0;
}

/* ---- frames ---- */

static int write_part(ae_record *r, aether_error *err) {
    uint64_t lsn;
    ae_op_put_part(r->buffer.data, r->first ? r->first : ae_log_next(r->log), false);
    const int rc = ae_log_append(r->log, r->buffer.data, r->used, r->ops + 1, &lsn, err);
    if (rc)
        return rc;
    r->first = r->first ? r->first : lsn;
    r->used = AE_OP_HEADER_BYTES;
    r->ops = 0;
    return AETHER_OK;
}

int ae_record_commit(ae_record *r, uint64_t *lsn, aether_error *err) {
    uint8_t *payload = r->buffer.data;
    *lsn = 0;
    if (r->first) {
        ae_op_put_part(payload, r->first, true);
        return ae_log_put(r->log, payload, r->used, r->ops + 1, lsn, err);
    }
    if (!r->ops)
        return AETHER_OK;
    return ae_log_put(r->log, payload + AE_OP_HEADER_BYTES, r->used - AE_OP_HEADER_BYTES, r->ops, lsn, err);
}

/* ---- operations ---- */

static uint64_t room(const ae_record *r) {
    return r->most - r->used;
}

/* Make room for an op of so many bytes, which the frame has, and return where it goes; NULL: no memory. */
static void *reserve_op(ae_record *r, uint64_t bytes, aether_error *err) {
    if (ae_scratch_reserve(&r->buffer, r->used + bytes, r->used, err))
        return NULL;
    void *at = (uint8_t *)r->buffer.data + r->used;
    r->used += bytes;
    r->ops++;
    return at;
}

static const int64_t *behind(const int64_t *column, uint64_t n) {
    return column ? column + n : NULL;
}

int ae_record_edges(ae_record *r, uint32_t relation, uint64_t first_edge_id, const aether_live_edges *edges,
                    aether_error *err) {
    const uint32_t flags = (edges->times ? AE_OP_TIMES : 0) | (edges->weights ? AE_OP_WEIGHTS : 0);
    for (uint64_t done = 0; done < edges->count;) {
        const uint64_t n = ae_min_u64(ae_op_edges_fit(room(r), flags), edges->count - done);
        if (!n) {
            const int rc = write_part(r, err);
            if (rc)
                return rc;
            continue;
        }
        void *at = reserve_op(r, ae_op_edges_bytes(n, flags), err);
        if (!at)
            return AETHER_E_NO_MEMORY;
        ae_op_put_edges(at, relation, flags, done ? AE_OP_NO_EDGE_ID : first_edge_id, edges->src + done,
                        edges->dst + done, behind(edges->times, done),
                        edges->weights ? edges->weights + done : NULL, n);
        done += n;
    }
    return AETHER_OK;
}

int ae_record_delete(ae_record *r, uint32_t relation, const int64_t *src, const int64_t *dst,
                     const int64_t *edge_ids, uint64_t n, aether_error *err) {
    const uint32_t flags = edge_ids ? AE_OP_EDGE_IDS : 0;
    for (uint64_t done = 0; done < n;) {
        const uint64_t some = ae_min_u64(ae_op_delete_fit(room(r), flags), n - done);
        if (!some) {
            const int rc = write_part(r, err);
            if (rc)
                return rc;
            continue;
        }
        void *at = reserve_op(r, ae_op_delete_bytes(some, flags), err);
        if (!at)
            return AETHER_E_NO_MEMORY;
        ae_op_put_delete(at, relation, flags, src + done, dst + done, behind(edge_ids, done), some);
        done += some;
    }
    return AETHER_OK;
}

int ae_record_nodes(ae_record *r, uint32_t relation, uint64_t num_src, uint64_t num_dst, aether_error *err) {
    if (room(r) < ae_op_nodes_bytes()) {
        const int rc = write_part(r, err);
        if (rc)
            return rc;
    }
    void *at = reserve_op(r, ae_op_nodes_bytes(), err);
    if (!at)
        return AETHER_E_NO_MEMORY;
    ae_op_put_nodes(at, relation, num_src, num_dst);
    return AETHER_OK;
}

/* A note of no bytes is one op, too. */
int ae_record_note(ae_record *r, uint32_t kind, const void *bytes, uint64_t size, aether_error *err) {
    for (uint64_t done = 0;;) {
        const uint64_t n = ae_min_u64(ae_op_note_fit(room(r)), size - done);
        if (room(r) < AE_OP_HEADER_BYTES || (!n && size)) {
            const int rc = write_part(r, err);
            if (rc)
                return rc;
            continue;
        }
        void *at = reserve_op(r, ae_op_note_bytes(n), err);
        if (!at)
            return AETHER_E_NO_MEMORY;
        ae_op_put_note(at, kind, done + n < size, n ? (const uint8_t *)bytes + done : NULL, n);
        done += n;
        if (done == size)
            return AETHER_OK;
    }
}
