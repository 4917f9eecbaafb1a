/*
 * topology/paged/windows.h - streaming the pages that sorted spans need.
 *
 *   spans     s0 s1 s2 s3 | s4 s5 ...                    sorted by page
 *   pages     3   7 8  9  | 40 ...                       each once
 *   runs     [3] [7 8 9 ] | [40 ...]                     one read each; a short gap is read too
 *   window   [3|7 8 9    ]  requests -> one ae_io_batch
 *
 * A window takes spans until its memory is full. Several windows are in flight while one that
 * has been read is taken apart: the entries of its spans go to their jobs.
 *
 * Caveats: one thread's queue does the reading, so a call must not be made from
 * inside another one.
 */
#ifndef AE_TOPOLOGY_PAGED_WINDOWS_H
#define AE_TOPOLOGY_PAGED_WINDOWS_H

#include "topology/paged/paged.h"

/* Longest gap between two pages, in bytes, that is read with them: fewer, longer reads. */
#define AE_MERGE_GAP (16u << 10)

#define AE_WINDOWS      4u
#define AE_WINDOW_LEAST (256u << 10) /* bytes of data of one window */

/* Read the pages of all spans (sorted by unit), and copy the entries of each span to its job. */
int ae_windows_stream(const ae_paged *p, const ae_fetch *jobs, const ae_span *spans, uint64_t num_spans,
                      ae_staging *staging, aether_task *task, aether_error *err);

#endif
