/*
 * floor.c - what one random cache line costs on this machine, one thread.
 *
 *   floor PAGES REPEATS BYTES...        PAGES: huge | small
 *
 * Prints one JSON object per (repeat, working set):
 *   read       independent loads: the out-of-order engine overlaps them
 *   update     independent read-modify-writes (an id map's accesses)
 *   dependent  each address needs the value loaded before
 *   write      whole lines one after the other: how a result is written
 * in nanoseconds per line, and last the bytes that really lie in huge pages.
 *
 * The lines are drawn anew for every repeat and read from an array, as a
 * sampler reads its positions, so generating them is not timed.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE_WORDS 8
#define ACCESSES   (1u << 20)

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static void draw_lines(uint32_t *lines, uint64_t num_lines, uint64_t stream) {
    for (uint64_t i = 0; i < ACCESSES; i++)
        lines[i] = (uint32_t)(((mix(stream + i * UINT64_C(0x9E3779B97F4A7C15)) >> 32) * num_lines) >> 32);
}

static uint64_t read_lines(const uint64_t *data, const uint32_t *lines) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < ACCESSES; i++)
        sum += data[(uint64_t)lines[i] * LINE_WORDS];
    return sum;
}

static void update_lines(uint64_t *data, const uint32_t *lines, uint64_t add) {
    for (uint64_t i = 0; i < ACCESSES; i++)
        data[(uint64_t)lines[i] * LINE_WORDS] += add;
}

static void write_lines(uint64_t *data, uint64_t num_lines, uint64_t value) {
    for (uint64_t i = 0, line = 0; i < ACCESSES; i++, line = line + 1 == num_lines ? 0 : line + 1)
        for (int j = 0; j < LINE_WORDS; j++)
            data[line * LINE_WORDS + j] = value;
}

/* Every word is 0, which the processor cannot know before it has loaded it. */
static uint64_t chase_lines(const uint64_t *data, const uint32_t *lines) {
    uint64_t value = 0;
    for (uint64_t i = 0; i < ACCESSES; i++)
        value = data[(lines[i] + value) * LINE_WORDS];
    return value;
}

static void measure(uint64_t *data, uint32_t *lines, uint64_t bytes, uint64_t stream,
                    volatile uint64_t *zero) {
    uint64_t num_lines = bytes / (LINE_WORDS * sizeof *data);
    draw_lines(lines, num_lines, stream);
    if (num_lines <= ACCESSES) /* what fits a cache is warm */
        *zero += read_lines(data, lines);
    double start = now_ns();
    *zero += read_lines(data, lines);
    double read = now_ns() - start;
    draw_lines(lines, num_lines, mix(stream + 1));
    start = now_ns();
    update_lines(data, lines, *zero);
    double update = now_ns() - start;
    draw_lines(lines, num_lines, mix(stream + 2));
    start = now_ns();
    *zero += chase_lines(data, lines);
    double dependent = now_ns() - start;
    start = now_ns();
    write_lines(data, num_lines, *zero);
    double write = now_ns() - start;
    printf("{\"bytes\": %" PRIu64
           ", \"read\": %.3f, \"update\": %.3f, \"dependent\": %.3f, \"write\": %.3f}\n",
           bytes, read / ACCESSES, update / ACCESSES, dependent / ACCESSES, write / ACCESSES);
}

static uint64_t huge_bytes(void) {
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char text[256];
    uint64_t kib = 0;
    while (f && fgets(text, sizeof text, f))
        if (sscanf(text, "AnonHugePages: %" SCNu64, &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return fprintf(stderr, "usage: floor huge|small REPEATS BYTES...\n"), 2;
    int advice = strcmp(argv[1], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    uint64_t repeats = strtoull(argv[2], NULL, 10), largest = 0;
    for (int i = 3; i < argc; i++)
        if (strtoull(argv[i], NULL, 10) > largest)
            largest = strtoull(argv[i], NULL, 10);
    uint64_t *data = mmap(NULL, largest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t *lines = malloc(ACCESSES * sizeof *lines);
    if (data == MAP_FAILED || !lines)
        return fprintf(stderr, "floor: no memory\n"), 1;
    madvise(data, largest, advice);
    memset(data, 0, largest);
    volatile uint64_t zero = 0;
    for (uint64_t r = 0; r < repeats; r++)
        for (int i = 3; i < argc; i++)
            measure(data, lines, strtoull(argv[i], NULL, 10), mix(r * 64 + (uint64_t)i), &zero);
    printf("{\"huge_bytes\": %" PRIu64 ", \"allocated\": %" PRIu64 "}\n", huge_bytes(), largest);
    return 0;
}
