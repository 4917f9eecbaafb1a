#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* recvmmsg */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/error.h"
#include "net/datagram.h"
#include "net/xdp_program.h"
#include "net/xdp_queue.h"

/*
 * Two ways in, one after the other in each call: the socket (128 datagrams to a recvmmsg), and the
 * AF_XDP queues of an interface, whose frames still have their Ethernet, IPv4 and UDP heads.
 */
enum { AT_ONCE = 128, SLOT = 1 << 16, FRAMES = 4096, MOST_QUEUES = 64 };
enum { IP = 14, IP_HEAD = 20, UDP = IP + IP_HEAD, UDP_HEAD = 8 };

struct aether_receiver {
    int fd; /* the caller's */
    uint32_t row_bytes;
    uint8_t *slots; /* AT_ONCE of SLOT bytes */
    struct iovec pieces[AT_ONCE];
    struct mmsghdr messages[AT_ONCE];
    ae_xdp_program program;
    ae_xdp_queue *queues;
    uint32_t num_queues;
    aether_receiver_stats stats;
};

/* Where the datagrams of one call go. */
typedef struct target {
    uint8_t *room;
    uint64_t size, used;
    aether_datagram *heads;
    uint32_t most, count;
} target;

static bool has_room(const target *t) {
    return t->count < t->most && t->size - t->used >= SLOT;
}

/* Copy the rows of a datagram; count it if it is none of ours. */
static void keep_datagram(aether_receiver *r, target *t, const uint8_t *datagram, size_t size) {
    aether_datagram *head = &t->heads[t->count];
    if (!ae_datagram_read(datagram, size, r->row_bytes, head)) {
        r->stats.refused++;
        return;
    }
    head->offset = t->used;
    memcpy(t->room + t->used, datagram + AE_DATAGRAM_HEAD, size - AE_DATAGRAM_HEAD);
    t->used += size - AE_DATAGRAM_HEAD;
    t->count++;
}

static int take_from_socket(aether_receiver *r, target *t, aether_error *err) {
    while (has_room(t)) {
        /* Each may be as large as its slot. */
        uint64_t most = (t->size - t->used) / SLOT;
        most = most < t->most - t->count ? most : t->most - t->count;
        const unsigned asked = most < AT_ONCE ? (unsigned)most : AT_ONCE;
        const int n = recvmmsg(r->fd, r->messages, asked, MSG_DONTWAIT, NULL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? AETHER_OK
                                                     : ae_error_os(err, errno, "receiving datagrams");
        for (int i = 0; i < n; i++)
            keep_datagram(r, t, r->slots + (size_t)i * SLOT, r->messages[i].msg_len);
        r->stats.by_socket += (uint64_t)n;
        if ((unsigned)n < asked)
            break;
    }
    return AETHER_OK;
}

static void take_from_queue(aether_receiver *r, ae_xdp_queue *q, target *t) {
    uint32_t taken = 0;
    ae_xdp_packet packet;
    for (; has_room(t) && ae_xdp_queue_peek(q, taken, &packet); taken++) {
        /* The program let only UDP in IPv4 without options through; the end may be padding. */
        uint16_t size;
        memcpy(&size, packet.data + UDP + 4, sizeof size);
        size = ntohs(size);
        if (size >= UDP_HEAD && (uint32_t)UDP + size <= packet.size)
            keep_datagram(r, t, packet.data + UDP + UDP_HEAD, size - UDP_HEAD);
        else
            r->stats.refused++;
    }
    r->stats.by_xdp += taken;
    ae_xdp_queue_give_back(q, taken);
}

aether_receiver *aether_receiver_open(int fd, uint32_t row_bytes, aether_error *err) {
    aether_receiver *r = calloc(1, sizeof *r);
    if (!r) {
        ae_error_set(err, AETHER_E_NO_MEMORY, "a receiver of datagrams");
        return NULL;
    }
    *r = (aether_receiver){.fd = fd, .row_bytes = row_bytes, .program = {-1, -1, -1}};
    r->slots = aether_buffer_alloc((uint64_t)AT_ONCE * SLOT, err);
    if (!r->slots) {
        free(r);
        return NULL;
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        r->pieces[i] = (struct iovec){r->slots + (size_t)i * SLOT, SLOT};
        r->messages[i].msg_hdr.msg_iov = &r->pieces[i];
        r->messages[i].msg_hdr.msg_iovlen = 1;
    }
    return r;
}

static void detach(aether_receiver *r) {
    ae_xdp_program_close(&r->program); /* first: no frame goes to a queue that is closed */
    for (uint32_t i = 0; i < r->num_queues; i++)
        ae_xdp_queue_close(&r->queues[i]);
    free(r->queues);
    r->queues = NULL;
    r->num_queues = 0;
}

static int attach(aether_receiver *r, uint32_t interface, uint32_t queues, aether_error *err) {
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    if (getsockname(r->fd, (struct sockaddr *)&address, &size))
        return ae_error_os(err, errno, "the address of the socket");
    if (address.sin_family != AF_INET)
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "AF_XDP here takes IPv4, the socket has another family");
    r->queues = calloc(queues, sizeof *r->queues);
    if (!r->queues)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "queues of AF_XDP");
    int rc = ae_xdp_program_load(&r->program, &address, queues, err);
    for (uint32_t i = 0; i < queues && !rc; i++) {
        rc = ae_xdp_queue_open(&r->queues[i], interface, i, FRAMES, err);
        if (!rc) {
            r->num_queues++;
            rc = ae_xdp_program_serve(&r->program, i, r->queues[i].fd, err);
        }
    }
    return rc ? rc : ae_xdp_program_attach(&r->program, interface, err);
}

int aether_receiver_attach(aether_receiver *r, const char *interface, uint32_t queues, aether_error *err) {
    const uint32_t index = if_nametoindex(interface);
    if (!index)
        return ae_error_set(err, AETHER_E_NOT_FOUND, "there is no network interface '%s'", interface);
    if (r->num_queues || !queues || queues > MOST_QUEUES)
        return ae_error_at(err, AETHER_E_INVALID, 0, queues, "%u queues: 1 to %d, and once", queues,
                           MOST_QUEUES);
    const int rc = attach(r, index, queues, err);
    if (rc)
        detach(r);
    return rc;
}

int aether_receiver_wait(aether_receiver *r, int32_t milliseconds, aether_error *err) {
    struct pollfd fds[1 + MOST_QUEUES];
    fds[0] = (struct pollfd){r->fd, POLLIN, 0};
    for (uint32_t i = 0; i < r->num_queues; i++)
        fds[1 + i] = (struct pollfd){r->queues[i].fd, POLLIN, 0};
    const int n = poll(fds, 1 + r->num_queues, milliseconds);
    if (n < 0 && errno != EINTR)
        return ae_error_os(err, errno, "waiting for datagrams");
    return n > 0;
}

int aether_receiver_take(aether_receiver *r, void *room, uint64_t size, aether_datagram *heads, uint32_t most,
                         uint32_t *count, aether_error *err) {
    target t = {room, size, 0, heads, most, 0};
    for (uint32_t i = 0; i < r->num_queues; i++)
        take_from_queue(r, &r->queues[i], &t);
    const int rc = take_from_socket(r, &t, err);
    *count = t.count;
    return rc;
}

void aether_receiver_stats_read(const aether_receiver *r, aether_receiver_stats *out) {
    *out = r->stats;
}

void aether_receiver_close(aether_receiver *r) {
    if (!r)
        return;
    detach(r);
    aether_buffer_free(r->slots, (uint64_t)AT_ONCE * SLOT);
    free(r);
}
