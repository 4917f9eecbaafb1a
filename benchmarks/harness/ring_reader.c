/*
 * ring_reader.c - neighbour sampling from disk in the manner of RingSampler: a baseline.
 *
 *   ring_reader PATH OFFSETS_AT IDS_AT NODES SEEDS SEEDS_AT BATCHES BATCH SIZE READ_AHEAD \
 *               DEPTH THREADS SECONDS FANOUT...
 *
 * Written from the published description of RingSampler, not from its code:
 *   - the offsets of all lists are in memory, 8 bytes per node;
 *   - each thread samples batches of its own, with a ring of its own;
 *   - a hop draws positions without replacement, then reads every drawn neighbour by
 *     itself, up to DEPTH reads under way. Two neighbours on one page are two reads;
 *   - nodes are made unique within a hop, and only then: a node of an earlier hop is
 *     expanded again. What the last hop finds is not made unique.
 * SIZE 4096 reads the page of each neighbour past the page cache (O_DIRECT); SIZE 4
 * reads the 4 bytes through the page cache, as RingSampler does. READ_AHEAD 0 tells the
 * kernel that these reads are random; 1 leaves it to its own guesses.
 *
 * PATH has uint64 offsets [NODES + 1] at OFFSETS_AT and uint32 ids at IDS_AT, SEEDS has
 * int64 seeds [BATCHES, BATCH] at SEEDS_AT. After SECONDS the threads stop where they
 * are: edges read by then count, batches only when complete. Prints "ready", then what
 * was done as one line of JSON.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_FANOUT 256
#define MAX_HOPS   8

static struct {
    int fd;
    uint64_t ids_at;
    const uint64_t *offsets;
    const int64_t *seeds;
    uint64_t num_batches, batch;
    uint32_t size, depth;
    int fanouts[MAX_HOPS], num_hops;
    double deadline;
    _Atomic uint64_t next_batch, done_batches, edges, reads;
} job;

typedef struct {
    struct io_uring ring;
    char *buffers;       /* depth x size */
    uint64_t *slot_edge; /* which edge a slot reads */
    uint32_t *free_slots;
    uint64_t *positions; /* of a hop, in `ids` */
    uint32_t *ids;       /* what they hold */
    uint64_t room;
    uint32_t *frontier;
    uint64_t frontier_room;
    uint64_t random;
} worker;

static void fail(const char *what, int error) {
    fprintf(stderr, "ring_reader: %s: %s\n", what, strerror(error));
    exit(1);
}

static void *take(void *old, uint64_t bytes) {
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        fail("memory", ENOMEM);
    return p;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t draw(worker *w, uint64_t limit) {
    uint64_t x = w->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return (uint64_t)(((unsigned __int128)x * limit) >> 64);
}

/* Floyd's algorithm: `count` different numbers below `degree`, plus `base`. */
static void choose(worker *w, uint64_t base, uint64_t degree, int count, uint64_t *out) {
    for (int i = 0; i < count; i++) {
        uint64_t last = degree - (uint64_t)count + (uint64_t)i;
        uint64_t one = base + draw(w, last + 1);
        for (int j = 0; j < i; j++)
            if (out[j] == one) {
                one = base + last;
                break;
            }
        out[i] = one;
    }
}

static uint64_t plan(worker *w, uint64_t num_nodes, int fanout) {
    uint64_t need = num_nodes * (uint64_t)fanout, count = 0;
    if (need > w->room) {
        w->room = need;
        w->positions = take(w->positions, need * sizeof *w->positions);
        w->ids = take(w->ids, need * sizeof *w->ids);
    }
    for (uint64_t i = 0; i < num_nodes; i++) {
        uint64_t begin = job.offsets[w->frontier[i]];
        uint64_t degree = job.offsets[w->frontier[i] + 1] - begin;
        if (degree <= (uint64_t)fanout)
            for (uint64_t k = 0; k < degree; k++)
                w->positions[count++] = begin + k;
        else {
            choose(w, begin, degree, fanout, w->positions + count);
            count += (uint64_t)fanout;
        }
    }
    return count;
}

static void begin_read(worker *w, uint32_t slot, uint64_t edge) {
    uint64_t at = job.ids_at + w->positions[edge] * sizeof(uint32_t);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);
    io_uring_prep_read(sqe, 0, w->buffers + (size_t)slot * job.size, job.size,
                       at & ~(uint64_t)(job.size - 1));
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, slot);
    w->slot_edge[slot] = edge;
}

static void end_read(worker *w, const struct io_uring_cqe *cqe) {
    uint32_t slot = (uint32_t)cqe->user_data;
    uint64_t edge = w->slot_edge[slot];
    uint32_t within = (uint32_t)(job.ids_at + w->positions[edge] * sizeof(uint32_t)) & (job.size - 1);
    if (cqe->res < 0)
        fail("read", -cqe->res);
    if ((uint32_t)cqe->res < within + sizeof(uint32_t))
        fail("read past the end of the file", EIO);
    memcpy(&w->ids[edge], w->buffers + (size_t)slot * job.size + within, sizeof(uint32_t));
}

/* Read all `count` positions; false if the time was over before. */
static bool fetch(worker *w, uint64_t count) {
    uint64_t begun = 0, ended = 0;
    uint32_t num_free = job.depth;
    bool in_time = true;
    for (uint32_t i = 0; i < job.depth; i++)
        w->free_slots[i] = i;
    while (ended < begun || (in_time && begun < count)) {
        while (in_time && begun < count && num_free > 0)
            begin_read(w, w->free_slots[--num_free], begun++);
        uint32_t in_flight = (uint32_t)(begun - ended);
        uint32_t wait_for = in_flight < job.depth ? in_flight : job.depth / 4;
        int code = io_uring_submit_and_wait(&w->ring, wait_for);
        if (code < 0 && code != -EINTR && code != -EAGAIN)
            fail("io_uring_enter", -code);
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&w->ring, head, cqe) {
            end_read(w, cqe);
            w->free_slots[num_free++] = (uint32_t)cqe->user_data;
            seen++;
        }
        io_uring_cq_advance(&w->ring, seen);
        ended += seen;
        in_time = now() < job.deadline;
    }
    atomic_fetch_add(&job.edges, ended);
    atomic_fetch_add(&job.reads, ended);
    return ended == count;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* `ids` made unique become the frontier. */
static uint64_t make_frontier(worker *w, uint32_t *ids, uint64_t count) {
    uint64_t kept = 0;
    qsort(ids, count, sizeof *ids, compare);
    if (count > w->frontier_room) {
        w->frontier_room = count;
        w->frontier = take(w->frontier, count * sizeof *w->frontier);
    }
    for (uint64_t i = 0; i < count; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            w->frontier[kept++] = ids[i];
    return kept;
}

static bool sample(worker *w, uint64_t number) {
    uint32_t *seeds = take(NULL, job.batch * sizeof *seeds);
    for (uint64_t i = 0; i < job.batch; i++)
        seeds[i] = (uint32_t)job.seeds[number * job.batch + i];
    uint64_t num_nodes = make_frontier(w, seeds, job.batch);
    free(seeds);
    w->random = number << 32;
    for (int hop = 0; hop < job.num_hops; hop++) {
        uint64_t count = plan(w, num_nodes, job.fanouts[hop]);
        if (!fetch(w, count))
            return false;
        if (hop + 1 < job.num_hops)
            num_nodes = make_frontier(w, w->ids, count);
    }
    return true;
}

static void *run(void *argument) {
    worker w = {0};
    (void)argument;
    unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    int code = io_uring_queue_init_params(job.depth, &w.ring, &(struct io_uring_params){.flags = flags});
    if (code < 0)
        code = io_uring_queue_init(job.depth, &w.ring, 0);
    if (code < 0)
        fail("io_uring", -code);
    code = io_uring_register_files(&w.ring, &job.fd, 1);
    if (code < 0)
        fail("io_uring_register_files", -code);
    if (posix_memalign((void **)&w.buffers, 4096, (size_t)job.depth * job.size) != 0)
        fail("memory", ENOMEM);
    w.slot_edge = take(NULL, job.depth * sizeof *w.slot_edge);
    w.free_slots = take(NULL, job.depth * sizeof *w.free_slots);
    for (;;) {
        uint64_t number = atomic_fetch_add(&job.next_batch, 1);
        if (number >= job.num_batches || now() >= job.deadline || !sample(&w, number))
            break;
        atomic_fetch_add(&job.done_batches, 1);
    }
    io_uring_queue_exit(&w.ring);
    free(w.buffers);
    free(w.slot_edge);
    free(w.free_slots);
    free(w.positions);
    free(w.ids);
    free(w.frontier);
    return NULL;
}

/* `bytes` of a file in memory, and not in the page cache. */
static void *load(const char *path, uint64_t at, uint64_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path, errno);
    char *data = take(NULL, bytes);
    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = bytes - done < (1u << 22) ? bytes - done : 1u << 22;
        ssize_t got = pread(fd, data + done, piece, (off_t)(at + done));
        if (got <= 0)
            fail(path, got < 0 ? errno : EIO);
        posix_fadvise(fd, (off_t)(at + done), got, POSIX_FADV_DONTNEED);
        done += (uint64_t)got;
    }
    close(fd);
    return data;
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Bytes that this process made the kernel read from devices. */
static uint64_t device_bytes(void) {
    char line[128];
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/io", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "read_bytes: %" SCNu64, &bytes) == 1)
            break;
    if (file)
        fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc < 15 || argc - 14 > MAX_HOPS) {
        fprintf(stderr, "see the head of ring_reader.c for the arguments\n");
        return 2;
    }
    uint64_t number[13] = {0};
    for (int i = 2; i < 13; i++)
        number[i] = strtoull(argv[i], NULL, 10);
    uint64_t num_nodes = number[4];
    job.ids_at = number[3];
    job.num_batches = number[7];
    job.batch = number[8];
    job.size = (uint32_t)number[9];
    job.depth = (uint32_t)number[11];
    uint64_t num_threads = number[12];
    for (int i = 14; i < argc; i++) {
        job.fanouts[job.num_hops] = atoi(argv[i]);
        if (job.fanouts[job.num_hops] < 1 || job.fanouts[job.num_hops++] > MAX_FANOUT)
            fail("fanout", EINVAL);
    }
    if ((job.size != 4 && job.size != 4096) || job.depth < 4 || num_threads < 1 || num_threads > 64)
        fail("size, depth or threads", EINVAL);
    job.fd = open(argv[1], O_RDONLY | O_CLOEXEC | (job.size == 4 ? 0 : O_DIRECT));
    if (job.fd < 0)
        fail(argv[1], errno);
    if (job.size == 4 && !number[10])
        posix_fadvise(job.fd, 0, 0, POSIX_FADV_RANDOM);
    job.offsets = load(argv[1], number[2], (num_nodes + 1) * sizeof(uint64_t));
    job.seeds = load(argv[5], number[6], job.num_batches * job.batch * sizeof(int64_t));
    printf("ready\n");
    fflush(stdout);

    double start = now(), cpu = cpu_seconds();
    uint64_t device = device_bytes();
    job.deadline = start + strtod(argv[13], NULL);
    pthread_t threads[64];
    for (uint64_t i = 0; i < num_threads; i++) {
        int code = pthread_create(&threads[i], NULL, run, NULL);
        if (code)
            fail("thread", code);
    }
    for (uint64_t i = 0; i < num_threads; i++)
        pthread_join(threads[i], NULL);
    printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"batches\": %" PRIu64, now() - start,
           cpu_seconds() - cpu, job.done_batches);
    printf(", \"edges\": %" PRIu64 ", \"reads\": %" PRIu64 ", \"device_bytes\": %" PRIu64 "}\n", job.edges,
           job.reads, device_bytes() - device);
    free((void *)job.offsets);
    free((void *)job.seeds);
    close(job.fd);
    return 0;
}
