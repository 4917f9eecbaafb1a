#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/read.h"

#include "core/error.h"
#include "core/task.h"
#include "io/file.h"
#include "io/queue.h"
#include "io/range.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a thread's queues -------------------------------------------------------------- */

typedef struct queues {
    ae_io_queue *of[AETHER_IO_PREAD + 1]; /* by tier */
} queues;

static pthread_key_t key;
static bool has_key;

static void release(void *p) {
    queues *mine = p;
    for (uint32_t tier = 0; tier <= AETHER_IO_PREAD; tier++)
        ae_io_queue_destroy(mine->of[tier]);
    free(mine);
}

__attribute__((constructor)) static void make_key(void) {
    has_key = pthread_key_create(&key, release) == 0;
}

static queues *own_queues(void) {
    queues *mine = has_key ? pthread_getspecific(key) : NULL;
    if (mine || !has_key)
        return mine;
    mine = calloc(1, sizeof *mine);
    if (mine && pthread_setspecific(key, mine) != 0) {
        free(mine);
        mine = NULL;
    }
    return mine;
}

static int queue_of(uint32_t tier, ae_io_queue **out, aether_error *err) {
    queues *mine = own_queues();
    if (!mine)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory preparing reads");
    ae_io_queue **q = &mine->of[tier];
    if (*q && (ae_io_queue_inherited(*q) || ae_io_queue_broken(*q))) {
        ae_io_queue_destroy(*q);
        *q = NULL;
    }
    int code = *q ? AETHER_OK : ae_io_queue_create(tier, q, err);
    *out = *q;
    return code;
}

/* ---- reading ------------------------------------------------------------------------- */

static int read_batch(ae_io_queue *q, ae_io_batch *batch, aether_error *err) {
    int code = ae_io_submit(q, batch, err);
    if (code)
        return code;
    ae_io_reap(q, true);
    if (batch->code && err)
        *err = batch->error;
    return batch->code;
}

int ae_io_try(aether_io *io, aether_error *err) {
    ae_io_queue *q;
    int code = queue_of(io->tier, &q, err);
    if (code)
        return code;
    uint8_t *data = ae_io_alloc(AE_IO_PAGE, err);
    if (!data)
        return AETHER_E_NO_MEMORY;
    aether_io_request request = {0, io->size < AE_IO_PAGE ? io->size : AE_IO_PAGE, data};
    ae_io_batch batch = {.io = io, .requests = &request, .num_requests = 1};
    code = read_batch(q, &batch, NULL);
    if (code)
        code =
            ae_error_set(err, AETHER_E_UNSUPPORTED, "io_uring does not work here: %s", batch.error.message);
    free(data);
    return code;
}

/* A thread that cannot get a ring reads by pread, unless io_uring was asked for. */
int ae_io_own_queue(const aether_io *io, ae_io_queue **out, aether_error *err) {
    int code = queue_of(io->tier, out, err);
    if (code && !io->forced && io->tier != AETHER_IO_PREAD)
        code = queue_of(AETHER_IO_PREAD, out, err);
    return code;
}

int aether_io_read(aether_io *io, const aether_io_request *requests, uint64_t n, aether_task *task,
                   aether_error *err) {
    ae_io_queue *q;
    uint64_t total = 0;
    int code = ae_io_own_queue(io, &q, err);
    if (code)
        return code;
    for (uint64_t i = 0; task && i < n; i++)
        total += requests[i].length;
    ae_task_begin(task, total);
    ae_io_batch batch = {.io = io, .requests = requests, .num_requests = n, .task = task};
    return read_batch(q, &batch, err);
}

/* ---- probing -------------------------------------------------------------------------- */

int aether_io_probe(uint32_t tier, aether_error *err) {
    if (tier != AETHER_IO_URING && tier != AETHER_IO_PREAD)
        return ae_error_at(err, AETHER_E_INVALID, 0, tier, "there is no input tier %" PRIu32, tier);
    aether_io *io;
    int code = aether_io_open("/proc/self/exe", &(aether_io_options){.tier = tier}, &io, err);
    aether_io_close(code ? NULL : io);
    return code;
}
