/* Single questions to the last commit: a pin and the views of one relation, and no snapshot. */
#include "core/error.h"
#include "live/handle.h"
#include "live/view.h"

#define LONG   65536 /* entries of a list that is read whole without anybody who could end it */
#define COPIED 256   /* ids that are copied at a time */

typedef struct glance {
    ae_pin *pin;
    ae_moment now;
    ae_counts counts;
    ae_view views[AETHER_LIVE_CSR + 1];
    const ae_view *shown[AETHER_LIVE_CSR + 1]; /* by layout; NULL: not stored */
} glance;

static int pin_counts(const ae_graph *g, uint32_t relation, glance *out, aether_error *err) {
    const ae_control *c = &g->control;
    uint64_t commit;
    int rc = ae_pin_take(&g->pins, c->committed, c->fences, &out->pin, &commit, err);
    if (rc)
        return rc;
    for (uint32_t tries = 1; !rc && !ae_control_counts(c, relation, commit, &out->counts); tries++)
        rc = ae_snapshot_pin_later(c, out->pin, tries, &commit, err);
    if (rc)
        ae_pin_release(out->pin);
    else
        out->now = (ae_moment){.pin = out->pin, .commit = commit, .stamp = ae_stamp_of(commit)};
    return rc;
}

static int begin_glance(const aether_live *g, uint32_t relation, glance *out, aether_error *err) {
    int rc = ae_graph_check_shared(&g->graph, g->owner, err);
    if (!rc)
        rc = ae_graph_check_bases(&g->graph, err);
    if (!rc)
        rc = ae_graph_check_relation(&g->graph, relation, err);
    if (!rc)
        rc = pin_counts(&g->graph, relation, out, err);
    for (uint32_t layout = AETHER_LIVE_CSC; !rc && layout <= AETHER_LIVE_CSR; layout++) {
        const ae_lists *lists = ae_graph_lists(&g->graph, relation, layout);
        if (!lists)
            continue;
        ae_view_init(&out->views[layout], lists, &out->now);
        rc = ae_view_show(&out->views[layout], layout, &out->counts, err);
        out->shown[layout] = &out->views[layout];
        if (rc)
            ae_pin_release(out->pin);
    }
    return rc;
}

/* Find the list of a node, and copy its ids to out[capacity] if there is room for all of them. */
static int64_t read_list(const ae_view *v, int64_t node, int64_t *out, uint64_t capacity, aether_error *err) {
    uint64_t positions[COPIED];
    ae_list list = {0};
    if (!v)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "the live graph does not store that layout");
    int rc = ae_live_check_ids("node", &node, 1, v->base.num_major, err);
    if (!rc)
        rc = v->base.ops->locate(&v->base, &(uint64_t){(uint64_t)node}, 1, &list, err);
    for (uint64_t done = 0; !rc && list.degree <= capacity && done < list.degree;) {
        const uint64_t n = list.degree - done < COPIED ? list.degree - done : COPIED;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + done + i;
        rc = v->base.ops->fetch(&v->base, positions, n, (uint64_t *)out + done, err);
        done += n;
    }
    return rc ? rc : (int64_t)list.degree;
}

int64_t aether_live_neighbors(const aether_live *g, uint32_t relation, uint32_t layout, int64_t node,
                              int64_t *out, uint64_t capacity, aether_error *err) {
    glance look = {0};
    const int rc = begin_glance(g, relation, &look, err);
    if (rc)
        return rc;
    const ae_view *v = layout <= AETHER_LIVE_CSR ? look.shown[layout] : NULL;
    const int64_t degree = read_list(v, node, out, capacity, err);
    ae_pin_release(look.pin);
    return degree;
}

int64_t aether_live_degree(const aether_live *g, uint32_t relation, uint32_t layout, int64_t node,
                           aether_error *err) {
    return aether_live_neighbors(g, relation, layout, node, NULL, 0, err);
}

int aether_live_has_edge(const aether_live *g, uint32_t relation, int64_t src, int64_t dst,
                         aether_error *err) {
    glance look = {0};
    bool found = false;
    int rc = begin_glance(g, relation, &look, err);
    if (rc)
        return rc;
    rc = ae_live_check_ids("src", &src, 1, look.counts.num_src, err);
    if (!rc)
        rc = ae_live_check_ids("dst", &dst, 1, look.counts.num_dst, err);
    if (!rc)
        rc = ae_view_has_edge(look.shown[AETHER_LIVE_CSC], look.shown[AETHER_LIVE_CSR], (uint32_t)src,
                              (uint32_t)dst, LONG, &found, NULL, err);
    ae_pin_release(look.pin);
    return rc ? rc : found;
}
