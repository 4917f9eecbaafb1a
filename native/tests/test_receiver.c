/* Datagrams: packed, received by a socket, damaged, and more than there is room for. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/datagram.h"
#include "test.h"

enum { ROW = 12, ROOM = 4 << 16, MOST = 64 };

typedef struct {
    int fd, to; /* bound, and connected to it */
    aether_receiver *receiver;
    aether_error err;
    uint8_t room[ROOM];
    aether_datagram heads[MOST];
    uint32_t count;
} fixture;

static fixture *open_fixture(void) {
    fixture *f = calloc(1, sizeof *f);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    f->fd = socket(AF_INET, SOCK_DGRAM, 0);
    f->to = socket(AF_INET, SOCK_DGRAM, 0);
    const int room = 4 << 20;
    setsockopt(f->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    CHECK_EQ(bind(f->fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(getsockname(f->fd, (struct sockaddr *)&address, &size), 0);
    CHECK_EQ(connect(f->to, (struct sockaddr *)&address, sizeof address), 0);
    f->receiver = aether_receiver_open(f->fd, ROW, &f->err);
    CHECK(f->receiver != NULL);
    return f;
}

static void close_fixture(fixture *f) {
    aether_receiver_close(f->receiver);
    close(f->fd);
    close(f->to);
    free(f);
}

/* The datagram `sequence` of stream 9: `rows` rows of bytes that count up. */
static size_t make(uint8_t *out, uint64_t sequence, uint32_t rows) {
    uint8_t content[AETHER_DATAGRAM_MOST];
    const uint64_t size = (uint64_t)rows * ROW;
    for (uint64_t i = 0; i < size; i++)
        content[i] = (uint8_t)(i + sequence);
    const aether_datagram head = {.sequence = sequence, .stream = 9, .rows = rows};
    aether_error err;
    CHECK_OK(aether_datagram_pack(&head, content, size, out, size + AE_DATAGRAM_HEAD, &err), err);
    return size + AE_DATAGRAM_HEAD;
}

static void send_one(fixture *f, uint64_t sequence, uint32_t rows) {
    uint8_t datagram[AETHER_DATAGRAM_MOST];
    const size_t size = make(datagram, sequence, rows);
    CHECK_EQ(send(f->to, datagram, size, 0), (ssize_t)size);
}

static uint32_t take(fixture *f, uint64_t size, uint32_t most) {
    CHECK_OK(aether_receiver_take(f->receiver, f->room, size, f->heads, most, &f->count, &f->err), f->err);
    return f->count;
}

TEST_ONE_THREAD(rows_come_in_order) {
    fixture *f = open_fixture();
    CHECK_EQ(aether_receiver_wait(f->receiver, 0, &f->err), 0);
    for (uint32_t i = 0; i < 40; i++)
        send_one(f, i, i);
    CHECK_EQ(aether_receiver_wait(f->receiver, 1000, &f->err), 1);
    CHECK_EQ(take(f, ROOM, 7), 7);
    uint32_t seen = 0;
    do {
        uint64_t offset = 0;
        for (uint32_t i = 0; i < f->count; i++, seen++) {
            const aether_datagram *head = &f->heads[i];
            CHECK_EQ(head->stream, 9);
            CHECK_EQ(head->sequence, seen);
            CHECK_EQ(head->rows, seen);
            CHECK_EQ(head->offset, offset);
            for (uint32_t k = 0; k < seen * ROW; k++)
                CHECK_EQ(f->room[offset + k], (uint8_t)(k + seen));
            offset += (uint64_t)seen * ROW;
        }
    } while (take(f, ROOM, MOST));
    CHECK_EQ(seen, 40);
    aether_receiver_stats stats;
    aether_receiver_stats_read(f->receiver, &stats);
    CHECK_EQ(stats.by_socket, 40);
    CHECK_EQ(stats.by_xdp + stats.refused, 0);
    close_fixture(f);
}

TEST_ONE_THREAD(every_flipped_bit_is_seen) {
    uint8_t datagram[AE_DATAGRAM_HEAD + 3 * ROW];
    aether_datagram head;
    const size_t size = make(datagram, 5, 3);
    CHECK(ae_datagram_read(datagram, size, ROW, &head));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(!ae_datagram_read(datagram, size, ROW, &head));
        datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t less = 0; less < size; less++)
        CHECK(!ae_datagram_read(datagram, less, ROW, &head));
    CHECK(!ae_datagram_read(datagram, size, ROW + 1, &head));
    CHECK(!ae_datagram_read(datagram, size, ROW - 1, &head));
}

TEST_ONE_THREAD(what_is_none_of_ours_is_counted) {
    fixture *f = open_fixture();
    uint8_t noise[100] = "AEU1 is what it begins with";
    for (size_t size = 0; size < sizeof noise; size += 9)
        CHECK_EQ(send(f->to, noise, size, 0), (ssize_t)size);
    send_one(f, 0, 2);
    uint32_t seen = 0;
    for (unsigned i = 0; i < 20; i++)
        seen += take(f, ROOM, MOST);
    CHECK_EQ(seen, 1);
    aether_receiver_stats stats;
    aether_receiver_stats_read(f->receiver, &stats);
    CHECK_EQ(stats.refused, 12);
    CHECK_EQ(stats.by_socket, 13);
    close_fixture(f);
}

TEST_ONE_THREAD(largest_and_no_room) {
    fixture *f = open_fixture();
    const uint32_t most = (AETHER_DATAGRAM_MOST - AE_DATAGRAM_HEAD) / ROW;
    for (uint64_t i = 0; i < 3; i++)
        send_one(f, i, most);
    CHECK_EQ(take(f, (1 << 16) - 1, MOST), 0);
    CHECK_EQ(take(f, ROOM, 0), 0);
    CHECK_EQ(take(f, 1 << 16, MOST), 1);
    CHECK_EQ(take(f, ROOM, MOST), 2);
    CHECK_EQ(f->heads[1].sequence, 2);
    uint8_t large[AETHER_DATAGRAM_MOST + 1];
    CHECK_EQ(aether_datagram_pack(&f->heads[0], f->room, AETHER_DATAGRAM_MOST - AE_DATAGRAM_HEAD + 1, large,
                                  sizeof large, &f->err),
             AETHER_E_LIMIT);
    CHECK_EQ(aether_datagram_pack(&f->heads[0], f->room, 10, large, 33, &f->err), AETHER_E_INVALID);
    close_fixture(f);
}

TEST_ONE_THREAD(interfaces_that_are_not_there) {
    fixture *f = open_fixture();
    CHECK_EQ(aether_receiver_attach(f->receiver, "no-such-one", 1, &f->err), AETHER_E_NOT_FOUND);
    CHECK_EQ(aether_receiver_attach(f->receiver, "lo", 0, &f->err), AETHER_E_INVALID);
    send_one(f, 0, 1); /* it goes on with its socket */
    CHECK_EQ(take(f, ROOM, MOST), 1);
    close_fixture(f);
}

TEST_MAIN()
