/*
 * Records of some lists -> where each list ends, and the record at each place.
 *
 *   records   3,b  0,a  3,c  1,d        (major, the rest), majors from low = 0 on
 *   ends      1 2 2 4                   lists 0..3
 *   order     1 3 0 2                   record at each place
 *
 * A stable counting sort by major. Then, list by list: sort by row, drop records
 * whose minor came before, sort by time; each where it is asked for, each stable.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "build/records.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/task.h"

#define FEW 24u /* records that are sorted by insertion */

typedef struct {
    uint64_t key;
    uint32_t record;
} keyed_record;

typedef struct {
    const char *records;
    uint64_t n, low, num_lists;
    uint32_t record_bytes, id_bytes;
    uint64_t *ends;
    uint32_t *order;
    keyed_record *pairs, *spare; /* of the longest list */
    uint64_t room;
} ordering;

/* ---- by major -------------------------------------------------------------------- */

static inline __attribute__((always_inline)) int count_list_records(ordering *o, uint32_t id_bytes,
                                                                    uint64_t bytes, uint64_t *bad) {
    for (uint64_t i = 0; i < o->n; i++) {
        uint64_t list = ae_record_id(o->records + i * bytes, id_bytes) - o->low;
        if (list >= o->num_lists) {
            *bad = i;
            return AETHER_E_RANGE;
        }
        o->ends[list]++;
    }
    return AETHER_OK;
}

static inline __attribute__((always_inline)) void place_records(ordering *o, uint32_t id_bytes,
                                                                uint64_t bytes) {
    for (uint64_t i = 0; i < o->n; i++)
        o->order[o->ends[ae_record_id(o->records + i * bytes, id_bytes) - o->low]++] = (uint32_t)i;
}

static int sort_by_major(ordering *o, aether_error *err) {
    uint64_t bad = 0, place = 0, bytes = o->record_bytes;
    memset(o->ends, 0, o->num_lists * sizeof *o->ends);
    int rc = o->id_bytes == 4 && bytes == 8 ? count_list_records(o, 4, 8, &bad)
             : o->id_bytes == 4             ? count_list_records(o, 4, bytes, &bad)
                                            : count_list_records(o, 8, bytes, &bad);
    if (rc) {
        uint64_t id = ae_record_id(o->records + bad * bytes, o->id_bytes);
        return ae_error_at(err, rc, (int64_t)bad, (int64_t)id,
                           "record %" PRIu64 " is of list %" PRIu64 ", not of one in %" PRIu64 "..%" PRIu64,
                           bad, id, o->low, o->low + o->num_lists);
    }
    for (uint64_t k = 0; k < o->num_lists; k++) {
        uint64_t rows = o->ends[k];
        o->ends[k] = place;
        place += rows;
        o->room = ae_max_u64(o->room, rows);
    }
    if (o->id_bytes == 4 && bytes == 8)
        place_records(o, 4, 8);
    else if (o->id_bytes == 4)
        place_records(o, 4, bytes);
    else
        place_records(o, 8, bytes);
    return AETHER_OK;
}

/* ---- one list, stably by key ------------------------------------------------------ */

static void insertion_sort(keyed_record *pairs, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        keyed_record one = pairs[i];
        uint64_t k = i;
        for (; k > 0 && pairs[k - 1].key > one.key; k--)
            pairs[k] = pairs[k - 1];
        pairs[k] = one;
    }
}

static void merge(const keyed_record *from, keyed_record *to, uint64_t begin, uint64_t middle, uint64_t end) {
    uint64_t a = begin, b = middle;
    for (uint64_t k = begin; k < end; k++)
        to[k] = a < middle && (b == end || from[a].key <= from[b].key) ? from[a++] : from[b++];
}

/* Return the array with the sorted pairs: `pairs` or `spare`. */
static keyed_record *merge_sort(keyed_record *pairs, keyed_record *spare, uint64_t n) {
    for (uint64_t begin = 0; begin < n; begin += FEW)
        insertion_sort(pairs + begin, ae_min_u64(FEW, n - begin));
    for (uint64_t width = FEW; width < n; width *= 2) {
        for (uint64_t begin = 0; begin < n; begin += 2 * width)
            merge(pairs, spare, begin, ae_min_u64(begin + width, n), ae_min_u64(begin + 2 * width, n));
        keyed_record *sorted = spare;
        spare = pairs;
        pairs = sorted;
    }
    return pairs;
}

static void sort_record_list(ordering *o, uint32_t *order, uint64_t n, aether_field field) {
    int sorted = 1;
    for (uint64_t i = 0; i < n; i++) {
        const char *record = o->records + (uint64_t)order[i] * o->record_bytes;
        o->pairs[i] = (keyed_record){ae_record_key(record, field), order[i]};
        sorted &= i == 0 || o->pairs[i - 1].key <= o->pairs[i].key;
    }
    if (sorted)
        return;
    const keyed_record *found = merge_sort(o->pairs, o->spare, n);
    for (uint64_t i = 0; i < n; i++)
        order[i] = found[i].record;
}

/* ---- duplicates -------------------------------------------------------------------- */

/* Keep the first record of each minor id, in order; return how many. */
static uint64_t drop_repeated(ordering *o, uint32_t *order, uint64_t n, uint32_t *to) {
    for (uint64_t i = 0; i < n; i++) {
        const char *record = o->records + (uint64_t)order[i] * o->record_bytes;
        o->pairs[i] = (keyed_record){ae_record_id(record + o->id_bytes, o->id_bytes), (uint32_t)i};
    }
    const keyed_record *found = merge_sort(o->pairs, o->spare, n);
    const uint32_t dropped = UINT32_MAX; /* no record: there are fewer */
    for (uint64_t i = 1; i < n; i++)
        if (found[i].key == found[i - 1].key)
            order[found[i].record] = dropped;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < n; i++)
        if (order[i] != dropped)
            to[kept++] = order[i];
    return kept;
}

static void finish_lists(ordering *o, const aether_field *row, const aether_field *time, int unique) {
    uint64_t begin = 0, kept = 0;
    for (uint64_t k = 0; k < o->num_lists; k++) {
        uint32_t *list = o->order + begin, *to = o->order + kept;
        uint64_t n = o->ends[k] - begin;
        begin = o->ends[k];
        if (row && n > 1)
            sort_record_list(o, list, n, *row);
        if (unique)
            n = drop_repeated(o, list, n, to);
        if (time && n > 1)
            sort_record_list(o, to, n, *time);
        kept += n;
        o->ends[k] = kept;
    }
}

/* ---- the whole ---------------------------------------------------------------------- */

static int check_ordering(const ordering *o, const aether_field *row, const aether_field *time,
                          aether_error *err) {
    if (o->id_bytes != 4 && o->id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->id_bytes, "id_bytes is %u, must be 4 or 8",
                           o->id_bytes);
    if (o->record_bytes < 2 * o->id_bytes)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->record_bytes, "a record of %u bytes holds no edge",
                           o->record_bytes);
    if (o->n >= UINT32_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "%" PRIu64 " records are too many to order at once", o->n);
    int rc = row ? ae_record_check_field(*row, o->record_bytes, err) : AETHER_OK;
    return rc || !time ? rc : ae_record_check_field(*time, o->record_bytes, err);
}

int aether_records_order(const aether_records *records, const aether_record_order *how, uint64_t *ends,
                         uint32_t *order, aether_error *err) {
    int rc = ae_options_check(records, sizeof *records, "aether_records", err);
    if (!rc)
        rc = ae_options_check(how, sizeof *how, "aether_record_order", err);
    if (rc)
        return rc;
    const aether_field *row = how->row, *time = how->time;
    ordering o = {.records = records->data,
                  .n = records->n,
                  .low = how->low,
                  .num_lists = how->num_lists,
                  .record_bytes = records->record_bytes,
                  .id_bytes = records->id_bytes,
                  .ends = ends,
                  .order = order};
    rc = check_ordering(&o, row, time, err);
    rc = rc ? rc : sort_by_major(&o, err);
    if (rc || !(row || time || how->unique))
        return rc;
    o.pairs = malloc(ae_max_u64(o.room, 1) * sizeof *o.pairs);
    o.spare = malloc(ae_max_u64(o.room, 1) * sizeof *o.spare);
    if (o.pairs && o.spare)
        finish_lists(&o, row, time, how->unique != 0);
    else
        rc = ae_error_set(err, AETHER_E_NO_MEMORY, "no memory to sort a list of %" PRIu64 " edges", o.room);
    free(o.pairs);
    free(o.spare);
    return rc;
}
