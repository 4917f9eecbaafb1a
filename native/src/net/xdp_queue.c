#include "net/xdp_queue.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"

enum { FRAME = 4096, BUSY_MS = 1000 };

static int map_ring(ae_xdp_ring *ring, int fd, const struct xdp_ring_offset *at, uint32_t entries,
                    size_t entry_bytes, off_t place, aether_error *err) {
    ring->bytes = at->desc + entries * entry_bytes;
    void *mapping = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, place);
    if (mapping == MAP_FAILED)
        return ae_error_os(err, errno, "mapping a ring of AF_XDP");
    ring->mapping = mapping;
    uint8_t *base = mapping;
    ring->producer = (uint32_t *)(base + at->producer);
    ring->consumer = (uint32_t *)(base + at->consumer);
    ring->flags = (uint32_t *)(base + at->flags);
    ring->entries = base + at->desc;
    ring->mask = entries - 1;
    return AETHER_OK;
}

static int set_rings(ae_xdp_queue *q, uint32_t frames, aether_error *err) {
    const struct xdp_umem_reg memory = {
        .addr = (uint64_t)(uintptr_t)q->frames, .len = q->bytes, .chunk_size = FRAME};
    const uint32_t least = 64; /* of the ring of completed sending, which must be there */
    if (setsockopt(q->fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory))
        return ae_error_os(err, errno, "lending %llu bytes to AF_XDP", (unsigned long long)q->bytes);
    if (setsockopt(q->fd, SOL_XDP, XDP_UMEM_FILL_RING, &frames, sizeof frames) ||
        setsockopt(q->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &least, sizeof least) ||
        setsockopt(q->fd, SOL_XDP, XDP_RX_RING, &frames, sizeof frames))
        return ae_error_os(err, errno, "rings of %u entries for AF_XDP", frames);
    struct xdp_mmap_offsets at;
    socklen_t size = sizeof at;
    if (getsockopt(q->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &size))
        return ae_error_os(err, errno, "where the rings of AF_XDP lie");
    if (size != sizeof at)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "AF_XDP of this kernel is older than Linux 5.4's");
    int rc =
        map_ring(&q->fill, q->fd, &at.fr, frames, sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_FILL_RING, err);
    if (!rc)
        rc = map_ring(&q->received, q->fd, &at.rx, frames, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING, err);
    return rc;
}

/* Put a frame into the ring of those that may be written; `place` counts from its producer. */
static void offer(ae_xdp_queue *q, uint32_t place, uint64_t address) {
    ((uint64_t *)q->fill.entries)[place & q->fill.mask] = address;
}

static int bind_queue(const ae_xdp_queue *q, uint32_t interface, uint32_t queue, aether_error *err) {
    const struct sockaddr_xdp to = {.sxdp_family = AF_XDP,
                                    .sxdp_flags = XDP_USE_NEED_WAKEUP,
                                    .sxdp_ifindex = interface,
                                    .sxdp_queue_id = queue};
    /* The kernel lets go of a queue a while after its last socket is closed. */
    for (unsigned waited = 0; bind(q->fd, (const struct sockaddr *)&to, sizeof to); waited++) {
        if (errno != EBUSY || waited == BUSY_MS / 10)
            return ae_error_os(err, errno, "binding AF_XDP to queue %u", queue);
        usleep(10 * 1000);
    }
    return AETHER_OK;
}

int ae_xdp_queue_open(ae_xdp_queue *q, uint32_t interface, uint32_t queue, uint32_t frames,
                      aether_error *err) {
    *q = (ae_xdp_queue){.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), .bytes = (uint64_t)frames * FRAME};
    if (q->fd < 0)
        return ae_error_os(err, errno, "a socket of AF_XDP");
    q->frames = aether_buffer_alloc(q->bytes, err);
    int rc = q->frames ? set_rings(q, frames, err) : AETHER_E_NO_MEMORY;
    if (!rc) {
        for (uint32_t i = 0; i < frames; i++)
            offer(q, i, (uint64_t)i * FRAME);
        __atomic_store_n(q->fill.producer, frames, __ATOMIC_RELEASE);
        rc = bind_queue(q, interface, queue, err);
    }
    if (rc)
        ae_xdp_queue_close(q);
    return rc;
}

bool ae_xdp_queue_peek(const ae_xdp_queue *q, uint32_t i, ae_xdp_packet *packet) {
    const uint32_t first = *q->received.consumer; /* only we write it */
    if (__atomic_load_n(q->received.producer, __ATOMIC_ACQUIRE) - first <= i)
        return false;
    const struct xdp_desc *entry =
        (const struct xdp_desc *)q->received.entries + ((first + i) & q->received.mask);
    *packet = (ae_xdp_packet){q->frames + entry->addr, entry->len};
    return true;
}

void ae_xdp_queue_give_back(ae_xdp_queue *q, uint32_t n) {
    const uint32_t first = *q->received.consumer, next = *q->fill.producer;
    for (uint32_t i = 0; i < n; i++) {
        const struct xdp_desc *entry =
            (const struct xdp_desc *)q->received.entries + ((first + i) & q->received.mask);
        offer(q, next + i, entry->addr & ~(uint64_t)(FRAME - 1)); /* the packet begins within its frame */
    }
    __atomic_store_n(q->received.consumer, first + n, __ATOMIC_RELEASE);
    __atomic_store_n(q->fill.producer, next + n, __ATOMIC_RELEASE);
    if (n && __atomic_load_n(q->fill.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP)
        (void)recvfrom(q->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL); /* only to wake the driver */
}

void ae_xdp_queue_close(ae_xdp_queue *q) {
    if (q->fill.mapping)
        munmap(q->fill.mapping, q->fill.bytes);
    if (q->received.mapping)
        munmap(q->received.mapping, q->received.bytes);
    if (q->fd >= 0)
        close(q->fd);
    if (q->frames)
        aether_buffer_free(q->frames, q->bytes);
    *q = (ae_xdp_queue){.fd = -1};
}
