/* Memory of a user's for live graphs: malloc that counts, and refuses beyond a limit. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "aether/live.h"

typedef struct counter {
    uint64_t most, reserved, committed, released;
} counter;

counter counts = {.most = UINT64_MAX};

static void *reserve(void *context, uint64_t size) {
    counter *c = context;
    void *data = NULL;
    if (posix_memalign(&data, 4096, size) != 0)
        return NULL;
    c->reserved += size;
    return data;
}

static int commit(void *context, void *data, uint64_t offset, uint64_t size) {
    counter *c = context;
    (void)data;
    (void)offset;
    if (c->committed + size > c->most)
        return 1;
    c->committed += size;
    return 0;
}

static void release(void *context, void *data, uint64_t size) {
    counter *c = context;
    c->released += size;
    free(data);
}

const aether_live_memory counting_memory = {&counts, reserve, commit, release};
