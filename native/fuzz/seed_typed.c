/* seed_typed DIR: inputs for fuzz_typed to start from, of sound graphs and requests. */
#include <stdint.h>
#include <stdio.h>

enum { FILES = 64 };

/* No byte is 253 or above: those do the damage. */
static int save(const char *dir, uint64_t number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/sound-%02u", dir, (unsigned)number);
    FILE *file = fopen(path, "wb");
    uint64_t state = number;
    for (uint64_t i = 0; file && i < 200 + number * 60; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        fputc((int)((state >> 33) % 253), file);
    }
    if (!file || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    int bad = 0;
    for (uint64_t i = 0; i < FILES; i++)
        bad |= save(argv[1], i);
    return bad;
}
