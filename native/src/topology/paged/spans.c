#include "topology/paged/spans.h"

#include <stdbool.h>

#include "core/error.h"
#include "core/task.h"

#define READING "reading lists"

#define SMALL 32 /* spans that are sorted by insertion */
#define RADIX 256
#define LOOK  4096 /* spans between two looks at the task */

/* ---- making them ---- */

/* The span that begins at entry `at`. */
static ae_span next_span(const ae_fetch *job, uint64_t index, uint64_t at, ae_place place) {
    uint64_t low = ae_place_unit(place, job->positions[at]), high = low, i = at + 1;
    const uint64_t most = place.narrow ? 1 : AE_SPAN_UNITS;
    const uint64_t end = job->count - at < AE_SPAN_MAX ? job->count : at + AE_SPAN_MAX;
    for (; i < end; i++) {
        uint64_t unit = ae_place_unit(place, job->positions[i]);
        uint64_t first = unit < low ? unit : low, last = unit > high ? unit : high;
        if (last - first >= most)
            break;
        low = first;
        high = last;
    }
    return (ae_span){.unit = low, .job = index, .count = i - at, .at = at};
}

static uint64_t count_spans(const ae_fetch *job, ae_place place, aether_task *task) {
    uint64_t count = 0;
    for (uint64_t at = 0; at < job->count && (count % LOOK || !ae_task_cancelled(task)); count++)
        at += next_span(job, 0, at, place).count;
    return count;
}

uint64_t ae_spans_within(const ae_fetch *job, ae_place place, uint64_t most) {
    uint64_t at = 0;
    for (uint64_t made = 0; made < most && at < job->count; made++)
        at += next_span(job, 0, at, place).count;
    return at;
}

/* ---- sorting ----
 * In place, by the highest byte that differs, then within equal bytes (American flag
 * sort: McIlroy, Bostic and McIlroy, "Engineering Radix Sort", 1993): a second array
 * of spans would cost more memory than anything else here. */

static void sort_small(ae_span *s, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        ae_span moved = s[i];
        uint64_t j = i;
        for (; j > 0 && s[j - 1].unit > moved.unit; j--)
            s[j] = s[j - 1];
        s[j] = moved;
    }
}

static void swap_into_place(ae_span *s, const uint64_t *end, uint64_t *next, uint32_t shift) {
    for (uint32_t b = 0; b < RADIX; b++)
        while (next[b] < end[b]) {
            ae_span moved = s[next[b]];
            uint32_t home = (uint32_t)(moved.unit >> shift) & (RADIX - 1);
            while (home != b) {
                ae_span other = s[next[home]];
                s[next[home]++] = moved;
                moved = other;
                home = (uint32_t)(moved.unit >> shift) & (RADIX - 1);
            }
            s[next[b]++] = moved;
        }
}

/* The units are equal above `shift` + 8 bits; recursion is as deep as a unit has bytes.
 * Cancelled, it leaves them in some order. */
static void sort_spans(ae_span *s, uint64_t n, uint32_t shift,
                       aether_task *task) { // NOLINT(misc-no-recursion)
    uint64_t next[RADIX], end[RADIX] = {0}, at = 0;
    if (n <= SMALL) {
        sort_small(s, n);
        return;
    }
    if (n >= LOOK && ae_task_cancelled(task))
        return;
    for (uint64_t i = 0; i < n; i++)
        end[(s[i].unit >> shift) & (RADIX - 1)]++;
    for (uint32_t b = 0; b < RADIX; b++) {
        next[b] = at;
        at += end[b];
        end[b] = at;
    }
    swap_into_place(s, end, next, shift);
    for (uint32_t b = 0; shift && b < RADIX; b++) {
        uint64_t begin = b ? end[b - 1] : 0;
        sort_spans(s + begin, end[b] - begin, shift - 8, task);
    }
}

int ae_spans_make(const ae_fetch *jobs, uint32_t n, ae_place place, ae_scratch *out, uint64_t *count,
                  aether_task *task, aether_error *err) {
    uint64_t total = 0, made = 0, all = 0;
    if (n >= AE_SPAN_JOBS)
        return ae_error_set(err, AETHER_E_LIMIT, "%u samples are more than %u at once", n, AE_SPAN_JOBS - 1);
    for (uint32_t j = 0; j < n; j++)
        total += count_spans(&jobs[j], place, task);
    int rc = ae_task_check(task, READING, err);
    if (!rc)
        rc = ae_scratch_reserve(out, total * sizeof(ae_span), 0, err);
    if (rc)
        return rc;
    ae_span *spans = out->data;
    for (uint32_t j = 0; j < n; j++)
        for (uint64_t at = 0; at < jobs[j].count; at += spans[made++].count) {
            if (made % LOOK == 0 && (rc = ae_task_check(task, READING, err)) != AETHER_OK)
                return rc;
            spans[made] = next_span(&jobs[j], j, at, place);
            all |= spans[made].unit;
        }
    uint32_t shift = 0;
    while (shift < 56 && all >> shift >= RADIX)
        shift += 8;
    sort_spans(spans, total, shift, task);
    *count = total;
    return ae_task_check(task, READING, err);
}
