/* Single questions to the last commit: a pin and the view of one relation, and no snapshot. */
#include <inttypes.h>

#include "core/error.h"
#include "live/handle.h"
#include "live/view.h"

#define LONG 65536 /* entries of a list that is read whole without anybody who could end it */

typedef struct glance {
    ae_pin *pin;
    ae_moment now;
    ae_counts counts;
    ae_view views[2]; /* by layout - 1 */
    const ae_view *csc, *csr;
} glance;

static int pin_counts(const ae_graph *g, uint32_t relation, glance *out, aether_error *err) {
    const ae_control *c = &g->control;
    uint64_t commit;
    int rc = ae_pin_take(&g->pins, c->committed, c->fences, &out->pin, &commit, err);
    if (rc)
        return rc;
    for (uint32_t tries = 1; !ae_control_counts(c, relation, commit, &out->counts); tries++) {
        if (tries == AE_CONTROL_TRIES) {
            ae_pin_release(out->pin);
            return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)commit,
                               "the numbers of commit %" PRIu64 " were gone before they could be read",
                               commit);
        }
        commit = ae_pin_renew(out->pin, c->committed, c->fences);
    }
    out->now = (ae_moment){.pin = out->pin, .commit = commit, .stamp = ae_stamp_of(commit)};
    return AETHER_OK;
}

static int begin_glance(const ae_graph *g, uint32_t relation, glance *out, aether_error *err) {
    int rc = ae_graph_check_bases(g, err);
    if (!rc)
        rc = ae_graph_check_relation(g, relation, err);
    if (!rc)
        rc = pin_counts(g, relation, out, err);
    if (rc)
        return rc;
    const ae_view *views[2] = {NULL, NULL};
    for (uint32_t layout = AETHER_LIVE_CSC; layout <= AETHER_LIVE_CSR; layout++) {
        const ae_lists *lists = ae_graph_lists(g, relation, layout);
        if (!lists)
            continue;
        ae_view_init(&out->views[layout - 1], lists, &out->now);
        ae_view_show(&out->views[layout - 1], layout, &out->counts);
        views[layout - 1] = &out->views[layout - 1];
    }
    out->csc = views[AETHER_LIVE_CSC - 1];
    out->csr = views[AETHER_LIVE_CSR - 1];
    return AETHER_OK;
}

static int64_t degree_in(const ae_view *v, int64_t node, aether_error *err) {
    ae_list list = {0};
    if (!v)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "the live graph does not store that layout");
    int rc = ae_live_check_ids("node", &node, 1, v->base.num_major, err);
    if (!rc)
        rc = v->base.ops->locate(&v->base, &(uint64_t){(uint64_t)node}, 1, &list, err);
    return rc ? rc : (int64_t)list.degree;
}

int64_t aether_live_degree(const aether_live *g, uint32_t relation, uint32_t layout, int64_t node,
                           aether_error *err) {
    glance look = {0};
    const int rc = begin_glance(&g->graph, relation, &look, err);
    if (rc)
        return rc;
    const int64_t degree = degree_in(layout == AETHER_LIVE_CSC   ? look.csc
                                     : layout == AETHER_LIVE_CSR ? look.csr
                                                                 : NULL,
                                     node, err);
    ae_pin_release(look.pin);
    return degree;
}

/* Return the entries that would be read one after the other. */
static int64_t count_read(const glance *look, int64_t src, int64_t dst, aether_error *err) {
    const int64_t in = look->csc ? degree_in(look->csc, dst, err) : INT64_MAX;
    const int64_t out = look->csr && in >= 0 ? degree_in(look->csr, src, err) : INT64_MAX;
    const int64_t shorter = in < out ? in : out;
    const ae_view *v = look->csc ? look->csc : look->csr;
    return shorter > 0 && v && v->table->order == AETHER_ORDER_ID ? 0 : shorter;
}

int aether_live_has_edge(const aether_live *g, uint32_t relation, int64_t src, int64_t dst,
                         aether_error *err) {
    glance look = {0};
    bool found = false;
    int rc = begin_glance(&g->graph, relation, &look, err);
    if (rc)
        return rc;
    rc = ae_live_check_ids("src", &src, 1, look.counts.num_src, err);
    if (!rc)
        rc = ae_live_check_ids("dst", &dst, 1, look.counts.num_dst, err);
    const int64_t read = rc ? rc : count_read(&look, src, dst, err);
    if (!rc && read < 0)
        rc = (int)read;
    else if (!rc && read > LONG)
        rc = ae_error_at(err, AETHER_E_LIMIT, -1, read,
                         "a list of %" PRId64
                         " entries by time would be read whole: take a snapshot, and ask it "
                         "by aether_snapshot_has_edges(), which can be ended",
                         read);
    if (!rc)
        rc = ae_view_has_edge(look.csc, look.csr, (uint32_t)src, (uint32_t)dst, &found, NULL, err);
    ae_pin_release(look.pin);
    return rc ? rc : found;
}
