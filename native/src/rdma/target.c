/*
 * Memory that others read. UCX needs this side only while a reader connects, or where a transport reads by
 * asking: aether_rdma_target_serve() then does its part. A card reads without it.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "rdma/ucx.h"

#ifdef AE_HAVE_UCX

typedef struct region {
    ucp_mem_h memory;
    void *key;
    size_t key_size;
} region;

struct aether_rdma_target {
    const ae_ucx *u;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_size;
    region *regions;
    uint32_t num_regions;
    int fd;
    pid_t owner;
};

void aether_rdma_target_destroy(aether_rdma_target *t) {
    if (!t)
        return;
    const ae_ucx *u = t->u;
    if (t->owner == getpid()) { /* a child must not touch what its parent's card knows */
        for (uint32_t i = 0; i < t->num_regions; i++) {
            u->ucp_rkey_buffer_release(t->regions[i].key);
            u->ucp_mem_unmap(t->context, t->regions[i].memory);
        }
        if (t->address)
            u->ucp_worker_release_address(t->worker, t->address);
        if (t->worker)
            u->ucp_worker_destroy(t->worker);
        if (t->context)
            u->ucp_cleanup(t->context);
    }
    free(t->regions);
    free(t);
}

static int begin_target(aether_rdma_target *t, aether_error *err) {
    const ae_ucx *u = t->u;
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    t->context = ae_ucx_context(u, err);
    if (!t->context)
        return AETHER_E_UNSUPPORTED;
    ucs_status_t status = u->ucp_worker_create(t->context, &params, &t->worker);
    if (status == UCS_OK)
        status = u->ucp_worker_get_address(t->worker, &t->address, &t->address_size);
    if (status == UCS_OK)
        status = u->ucp_worker_get_efd(t->worker, &t->fd);
    return status == UCS_OK ? AETHER_OK : ae_ucx_failed(u, status, "making a place to be read from", err);
}

int aether_rdma_target_create(aether_rdma_target **out, aether_error *err) {
    *out = NULL;
    const ae_ucx *u = ae_ucx_load(err);
    if (!u)
        return AETHER_E_UNSUPPORTED;
    aether_rdma_target *t = calloc(1, sizeof *t);
    if (!t)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory");
    t->u = u;
    t->owner = getpid();
    const int rc = begin_target(t, err);
    if (rc) {
        aether_rdma_target_destroy(t);
        return rc;
    }
    *out = t;
    return AETHER_OK;
}

const void *aether_rdma_target_address(const aether_rdma_target *t, uint64_t *size) {
    *size = t->address_size;
    return t->address;
}

int aether_rdma_target_add(aether_rdma_target *t, const void *data, uint64_t size, const void **key,
                           uint64_t *key_size, aether_error *err) {
    const ae_ucx *u = t->u;
    region *more = realloc(t->regions, (t->num_regions + 1) * sizeof *more);
    if (!more)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory");
    t->regions = more;
    region *one = &more[t->num_regions];
    const ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_PROT,
        .address = (void *)(uintptr_t)data,
        .length = size,
        .prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_REMOTE_READ,
    };
    ucs_status_t status = u->ucp_mem_map(t->context, &params, &one->memory);
    if (status != UCS_OK)
        return ae_ucx_failed(u, status, "registering memory (is the limit of locked memory too low?)", err);
    status = u->ucp_rkey_pack(t->context, one->memory, &one->key, &one->key_size);
    if (status != UCS_OK) {
        u->ucp_mem_unmap(t->context, one->memory);
        return ae_ucx_failed(u, status, "making a key", err);
    }
    *key = one->key;
    *key_size = one->key_size;
    t->num_regions++;
    return AETHER_OK;
}

int aether_rdma_target_serve(aether_rdma_target *t, int32_t milliseconds, aether_error *err) {
    const ae_ucx *u = t->u;
    while (u->ucp_worker_progress(t->worker))
        ;
    const ucs_status_t status = u->ucp_worker_arm(t->worker);
    if (status == UCS_ERR_BUSY)
        return AETHER_OK; /* something has come meanwhile */
    if (status != UCS_OK)
        return ae_ucx_failed(u, status, "waiting for readers", err);
    struct pollfd one = {.fd = t->fd, .events = POLLIN};
    (void)poll(&one, 1, milliseconds);
    return AETHER_OK;
}

void aether_rdma_target_wake(aether_rdma_target *t) {
    if (t && t->owner == getpid())
        t->u->ucp_worker_signal(t->worker);
}

#else

int aether_rdma_target_create(aether_rdma_target **out, aether_error *err) {
    *out = NULL;
    return aether_rdma_problem(err);
}

void aether_rdma_target_destroy(aether_rdma_target *t) {
    (void)t;
}

const void *aether_rdma_target_address(const aether_rdma_target *t, uint64_t *size) {
    (void)t;
    *size = 0;
    return NULL;
}

int aether_rdma_target_add(aether_rdma_target *t, const void *data, uint64_t size, const void **key,
                           uint64_t *key_size, aether_error *err) {
    (void)t, (void)data, (void)size, (void)key, (void)key_size;
    return aether_rdma_problem(err);
}

int aether_rdma_target_serve(aether_rdma_target *t, int32_t milliseconds, aether_error *err) {
    (void)t, (void)milliseconds;
    return aether_rdma_problem(err);
}

void aether_rdma_target_wake(aether_rdma_target *t) {
    (void)t;
}

#endif
