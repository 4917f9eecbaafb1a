/*
 * Reading memory of another process by its key: many pieces of one size, a window of them under way.
 *
 *   offsets[i] ──get──> landing memory + i * stride        host memory, or a GPU's where UCX knows it
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/task.h"
#include "rdma/ucx.h"

#ifdef AE_HAVE_UCX

enum { WINDOW = 256, SPINS = 2000, LOOK = 1024 }; /* reads under way; looks before others get the processor */

struct aether_rdma_reader {
    const ae_ucx *u;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h end;
    ucp_rkey_h key;
    uint64_t base, size; /* of the other side's memory */
    ucp_mem_h landing;
    uint8_t *land;
    uint64_t land_size;
    ucs_status_t failed; /* what the connection has come to */
    void *requests[WINDOW];
    pid_t owner;
};

static void note_failure(void *arg, ucp_ep_h end, ucs_status_t status) {
    aether_rdma_reader *r = arg;
    (void)end;
    r->failed = status;
}

static uint64_t monotonic_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Let UCX work until a request has ended, if it does in time and nobody cancels the task. */
static int wait_for_request(aether_rdma_reader *r, void *request, uint64_t until, aether_task *task,
                            aether_error *err) {
    for (uint32_t looks = 1; r->u->ucp_request_check_status(request) == UCS_INPROGRESS; looks++) {
        if (r->u->ucp_worker_progress(r->worker))
            continue;
        if (looks % SPINS == 0)
            sched_yield();
        if (looks % LOOK)
            continue;
        if (monotonic_now() > until)
            return ae_error_set(err, AETHER_E_IO, "UCX: the other side did not answer in time");
        const int rc = ae_task_check(task, "reading", err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static void close_end(aether_rdma_reader *r) {
    const ae_ucx *u = r->u;
    if (!r->end)
        return;
    /* By force: what is under way ends now, so that the landing memory is nobody's any more. */
    const ucp_request_param_t force = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    void *request = u->ucp_ep_close_nbx(r->end, &force);
    r->end = NULL;
    if (UCS_PTR_IS_PTR(request)) {
        wait_for_request(r, request, monotonic_now() + 1000000000u, NULL, NULL);
        u->ucp_request_free(request);
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        if (r->requests[i]) {
            wait_for_request(r, r->requests[i], monotonic_now() + 1000000000u, NULL, NULL);
            u->ucp_request_free(r->requests[i]);
            r->requests[i] = NULL;
        }
}

static void leave_landing(aether_rdma_reader *r) {
    if (r->landing)
        r->u->ucp_mem_unmap(r->context, r->landing);
    r->landing = NULL;
    r->land = NULL;
    r->land_size = 0;
}

void aether_rdma_reader_destroy(aether_rdma_reader *r) {
    if (!r)
        return;
    if (r->owner == getpid()) {
        if (r->key)
            r->u->ucp_rkey_destroy(r->key);
        close_end(r);
        leave_landing(r);
        if (r->worker)
            r->u->ucp_worker_destroy(r->worker);
        if (r->context)
            r->u->ucp_cleanup(r->context);
    }
    free(r);
}

static int begin_reader(aether_rdma_reader *r, const void *address, const void *key, aether_error *err) {
    const ae_ucx *u = r->u;
    r->context = ae_ucx_context(u, err);
    if (!r->context)
        return AETHER_E_UNSUPPORTED;
    const ucp_worker_params_t worker = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucs_status_t status = u->ucp_worker_create(r->context, &worker, &r->worker);
    if (status != UCS_OK)
        return ae_ucx_failed(u, status, "making a reader", err);
    ucp_ep_params_t end = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = note_failure, .arg = r},
    };
    status = u->ucp_ep_create(r->worker, &end, &r->end);
    if (status == UCS_ERR_UNREACHABLE && ae_ucx_is_named()) { /* shared memory tells of no failure */
        end.err_mode = UCP_ERR_HANDLING_MODE_NONE;
        status = u->ucp_ep_create(r->worker, &end, &r->end);
    }
    if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED)
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "UCX has no transport between the two that reads memory: %s",
                            u->ucs_status_string(status));
    if (status == UCS_OK)
        status = u->ucp_ep_rkey_unpack(r->end, key, &r->key);
    return status == UCS_OK ? AETHER_OK : ae_ucx_failed(u, status, "connecting", err);
}

int aether_rdma_reader_create(const void *address, const void *key, uint64_t base, uint64_t size,
                              aether_rdma_reader **out, aether_error *err) {
    *out = NULL;
    const ae_ucx *u = ae_ucx_load(err);
    if (!u)
        return AETHER_E_UNSUPPORTED;
    aether_rdma_reader *r = calloc(1, sizeof *r);
    if (!r)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory");
    r->u = u;
    r->base = base;
    r->size = size;
    r->owner = getpid();
    const int rc = begin_reader(r, address, key, err);
    if (rc) {
        aether_rdma_reader_destroy(r);
        return rc;
    }
    *out = r;
    return AETHER_OK;
}

int aether_rdma_reader_land(aether_rdma_reader *r, void *memory, uint64_t size, aether_error *err) {
    leave_landing(r);
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory,
        .length = size,
    };
    const ucs_status_t status = r->u->ucp_mem_map(r->context, &params, &r->landing);
    if (status != UCS_OK) {
        r->landing = NULL;
        return ae_ucx_failed(r->u, status, "registering memory to read into", err);
    }
    r->land = memory;
    r->land_size = size;
    return AETHER_OK;
}

/* Wait for the request in a place of the window. */
static int end_one(aether_rdma_reader *r, uint32_t place, uint64_t until, aether_task *task,
                   aether_error *err) {
    void *request = r->requests[place];
    if (!request)
        return AETHER_OK;
    const int rc = wait_for_request(r, request, until, task, err);
    if (rc)
        return rc;
    const ucs_status_t status = r->u->ucp_request_check_status(request);
    r->u->ucp_request_free(request);
    r->requests[place] = NULL;
    return status == UCS_OK ? AETHER_OK : ae_ucx_failed(r->u, status, "reading", err);
}

static int check_reads(const aether_rdma_reader *r, const uint64_t *offsets, uint64_t n, uint64_t bytes,
                       uint64_t stride, aether_error *err) {
    uint64_t room;
    if (r->owner != getpid())
        return ae_error_set(err, AETHER_E_IO, "UCX: the connection is the parent's");
    if (r->failed != UCS_OK)
        return ae_ucx_failed(r->u, r->failed, "the connection ended", err);
    if (stride < bytes || __builtin_mul_overflow(n, stride, &room) || room > r->land_size)
        return ae_error_set(err, AETHER_E_INVALID, "no memory for what is to be read");
    for (uint64_t i = 0; i < n; i++)
        if (bytes > r->size || offsets[i] > r->size - bytes)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)offsets[i],
                               "what is to be read lies outside the other side's memory");
    return AETHER_OK;
}

int aether_rdma_read(aether_rdma_reader *r, const aether_rdma_pieces *pieces, aether_task *task,
                     aether_error *err) {
    const aether_rdma_pieces *p = pieces;
    int rc = ae_options_check(p, sizeof *p, "aether_rdma_pieces", err);
    if (rc)
        return rc;
    rc = check_reads(r, p->offsets, p->n, p->bytes, p->stride, err);
    const uint64_t n = p->n, until = monotonic_now() + (uint64_t)p->milliseconds * 1000000u;
    const ucp_request_param_t params = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND,
        .memh = r->landing,
    };
    for (uint64_t i = 0; !rc && i < n; i++) {
        const uint32_t place = (uint32_t)(i % WINDOW);
        rc = end_one(r, place, until, task, err);
        if (rc)
            break;
        void *request = r->u->ucp_get_nbx(r->end, r->land + i * p->stride, p->bytes, r->base + p->offsets[i],
                                          r->key, &params);
        if (UCS_PTR_IS_ERR(request))
            rc = ae_ucx_failed(r->u, UCS_PTR_STATUS(request), "reading", err);
        else
            r->requests[place] = request;
        if (!rc && i % LOOK == LOOK - 1)
            rc = ae_task_check(task, "reading", err);
    }
    /* In order: later ones end with them. After a failure the rest is not waited for: close_end() does. */
    for (uint64_t i = 0; !rc && i < ae_min_u64(n, WINDOW); i++)
        rc = end_one(r, (uint32_t)((n + i) % ae_min_u64(n, WINDOW)), until, task, err);
    if (rc)
        close_end(r);
    if (rc && r->failed == UCS_OK)
        r->failed = UCS_ERR_CANCELED;
    return rc;
}

#else

int aether_rdma_reader_create(const void *address, const void *key, uint64_t base, uint64_t size,
                              aether_rdma_reader **out, aether_error *err) {
    (void)address, (void)key, (void)base, (void)size;
    *out = NULL;
    return aether_rdma_problem(err);
}

void aether_rdma_reader_destroy(aether_rdma_reader *r) {
    (void)r;
}

int aether_rdma_reader_land(aether_rdma_reader *r, void *memory, uint64_t size, aether_error *err) {
    (void)r, (void)memory, (void)size;
    return aether_rdma_problem(err);
}

int aether_rdma_read(aether_rdma_reader *r, const aether_rdma_pieces *pieces, aether_task *task,
                     aether_error *err) {
    (void)r, (void)pieces, (void)task;
    return aether_rdma_problem(err);
}

#endif
