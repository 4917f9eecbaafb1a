/*
 * net/xdp_queue.h - an AF_XDP socket: frames of one queue of a network interface, without the
 * system's network stack.
 *
 *   frames   [ 0 | 1 | 2 | ... ]      memory that the kernel writes packets to
 *   fill     us -> kernel             frames that may be written
 *   received kernel -> us             frames with a packet: address and length
 *
 * Each frame is in one ring, or in the kernel's or our hands; `ae_xdp_queue_give_back` puts it into
 * `fill` again. Nothing is sent, so the rings of sending exist (the kernel asks for one) and stay
 * empty. Figures of the kernel interface: Documentation/networking/af_xdp.rst of Linux.
 *
 * Caveats: one thread. Needs CAP_NET_RAW. A frame is 4096 bytes: what is longer, the kernel drops,
 * which drivers prevent by refusing the program on interfaces with a larger MTU.
 */
#ifndef AE_NET_XDP_QUEUE_H
#define AE_NET_XDP_QUEUE_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_xdp_ring {
    uint32_t *producer, *consumer; /* shared with the kernel */
    uint32_t *flags;
    void *entries;
    uint32_t mask;
    void *mapping;
    uint64_t bytes;
} ae_xdp_ring;

typedef struct ae_xdp_queue {
    int fd;
    uint8_t *frames;
    uint64_t bytes; /* of the frames */
    ae_xdp_ring fill, received;
} ae_xdp_queue;

typedef struct ae_xdp_packet {
    const uint8_t *data;
    uint32_t size;
} ae_xdp_packet;

/* Bind a socket to a queue of an interface, with room for `frames` packets (a power of two). */
int ae_xdp_queue_open(ae_xdp_queue *q, uint32_t interface, uint32_t queue, uint32_t frames,
                      aether_error *err);
/* Look at the i-th packet that came and was not given back; false if there are not as many. */
bool ae_xdp_queue_peek(const ae_xdp_queue *q, uint32_t i, ae_xdp_packet *packet);
/* Give the first n packets back; their data is the kernel's again. */
void ae_xdp_queue_give_back(ae_xdp_queue *q, uint32_t n);
void ae_xdp_queue_close(ae_xdp_queue *q);

#endif
