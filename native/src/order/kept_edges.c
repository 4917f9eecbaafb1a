/* Edges of communities that wait: allocated one by one, or appended to a file. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "order/rabbit.h"
#include "os/write.h"

static uint64_t kept_bytes(uint64_t n) {
    return sizeof(ae_kept) + n * sizeof(ae_merged_edge);
}

static int put_in_file(ae_kept_edges *k, uint32_t node, const ae_merged_edge *edges, uint64_t n,
                       aether_error *err) {
    const uint64_t place = atomic_fetch_add(&k->file_end, kept_bytes(n));
    uint64_t at = place;
    int failed = ae_os_write_all(k->file, &n, sizeof n, &at);
    if (!failed)
        failed = ae_os_write_all(k->file, edges, n * sizeof *edges, &at);
    if (failed)
        return ae_error_os(err, failed, "cannot write %" PRIu64 " edges to the scratch file", n);
    atomic_store_explicit(&k->places[node], place << 1 | 1, memory_order_relaxed);
    return AETHER_OK;
}

int ae_kept_edges_put(ae_kept_edges *k, uint32_t node, const ae_merged_edge *edges, uint64_t n,
                      aether_error *err) {
    const uint64_t bytes = kept_bytes(n);
    if (k->file >= 0 && atomic_load_explicit(&k->bytes, memory_order_relaxed) + bytes > k->memory)
        return put_in_file(k, node, edges, n, err);
    ae_kept *kept = malloc(bytes);
    if (!kept)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "cannot allocate %" PRIu64 " bytes for edges", bytes);
    kept->n = n;
    memcpy(kept->edges, edges, n * sizeof *edges);
    atomic_fetch_add_explicit(&k->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&k->places[node], (uint64_t)(uintptr_t)kept, memory_order_relaxed);
    return AETHER_OK;
}

static int read_scratch(int32_t file, void *out, uint64_t size, uint64_t offset, aether_error *err) {
    for (uint64_t done = 0; done < size;) {
        const ssize_t got = pread(file, (uint8_t *)out + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ae_error_os(err, errno, "cannot read the scratch file");
        if (got == 0)
            return ae_error_set(err, AETHER_E_TRUNCATED, "the scratch file ends at byte %" PRIu64,
                                offset + done);
        done += (uint64_t)got;
    }
    return AETHER_OK;
}

const ae_kept *ae_kept_edges_get(ae_kept_edges *k, uint32_t node, uint64_t num_nodes, ae_scratch *buffer,
                                 aether_error *err) {
    const uint64_t place = atomic_load_explicit(&k->places[node], memory_order_relaxed);
    if (!(place & 1))
        return (const ae_kept *)(uintptr_t)place;
    uint64_t n;
    int rc = read_scratch(k->file, &n, sizeof n, place >> 1, err);
    if (!rc && n > num_nodes)
        rc = ae_error_set(err, AETHER_E_CORRUPT, "the scratch file was changed");
    if (!rc)
        rc = ae_scratch_reserve(buffer, kept_bytes(n), 0, err);
    if (rc)
        return NULL;
    ae_kept *kept = buffer->data;
    kept->n = n;
    rc = read_scratch(k->file, kept->edges, n * sizeof *kept->edges, (place >> 1) + sizeof n, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        if (kept->edges[i].node >= num_nodes)
            rc = ae_error_set(err, AETHER_E_CORRUPT, "the scratch file was changed");
    return rc ? NULL : kept;
}

void ae_kept_edges_drop(ae_kept_edges *k, uint32_t node) {
    const uint64_t place = atomic_load_explicit(&k->places[node], memory_order_relaxed);
    atomic_store_explicit(&k->places[node], 0, memory_order_relaxed);
    if (place == 0 || place & 1)
        return;
    ae_kept *kept = (ae_kept *)(uintptr_t)place;
    atomic_fetch_sub_explicit(&k->bytes, kept_bytes(kept->n), memory_order_relaxed);
    free(kept);
}
