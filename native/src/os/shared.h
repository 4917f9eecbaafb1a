/*
 * os/shared.h - memory that processes share: a memfd, mapped whole, or its first part.
 *
 *   creator   memfd --mmap, writable--> data[size]      then sealed
 *   others    fd    --mmap------------> data[size]      read-only, unless shared for writing
 *
 * The memory is sparse: pages that nobody has written take no room. Its size is fixed: seals keep
 * every process from changing it, so a mapping never faults for lack of file.
 *
 *   or        memory of hooks that a user gives (aether_live_memory), which other processes do not have
 *
 * Caveats: kernels before 5.1 cannot keep others from mapping it for writing. Writing a page for
 * the first time takes memory from the system, and a process that exceeds its limits there is
 * killed; ae_shared_commit() asks beforehand.
 */
#ifndef AE_OS_SHARED_H
#define AE_OS_SHARED_H

#include <stdbool.h>

#include "aether/live.h"

typedef struct ae_shared {
    uint8_t *data; /* NULL: nothing is mapped */
    uint64_t size;
    uint64_t mapped; /* bytes of it */
    int fd;
    const aether_live_memory *given; /* whose memory it is; NULL: a memfd's */
} ae_shared;

/* What tests make fail; all zeros: nothing. */
typedef struct ae_shared_hooks {
    /* Return 0, or the errno with which the system refuses memory. */
    int (*commit)(uint64_t offset, uint64_t size);
    /* Do as if there were a huge page, or return the errno with which the system has none. */
    int (*collapse)(uint64_t offset);
} ae_shared_hooks;

#define AE_SHARED_WHOLE UINT64_MAX

/* Create `size` bytes of zeros and map the first `mapped` for writing, multiples of 4096. `name` is for
 * /proc/<pid>/maps. */
int ae_shared_create(const char *name, uint64_t size, uint64_t mapped, ae_shared *out, aether_error *err);
/* Reserve memory by hooks, which are borrowed. Sealing and huge pages are then none of our business. */
int ae_shared_reserve(const aether_live_memory *given, uint64_t size, ae_shared *out, aether_error *err);
/* Fix the size; unless `all_write`, others can only read from now on. */
int ae_shared_seal(const ae_shared *s, bool all_write, aether_error *err);
/* Map the first bytes of the sealed memory behind a descriptor, which is duplicated. `what` is for messages.
 */
int ae_shared_attach(int fd, uint64_t mapped, bool writable, const char *what, ae_shared *out,
                     aether_error *err);
/* Map more than is mapped, elsewhere, for writing if that is; also where a seal forbids it otherwise. What
 * was mapped before stays. */
int ae_shared_extend(const ae_shared *s, uint64_t mapped, uint8_t **out, aether_error *err);
void ae_shared_unmap(uint8_t *data, uint64_t mapped);
/* Unmap and close; a zeroed struct is fine. */
void ae_shared_close(ae_shared *s);

#define AE_SHARED_HUGE ((uint64_t)2 << 20) /* bytes of a huge page */

/* Ask for huge pages, where the system grants them for shared memory. */
void ae_shared_want_huge(const ae_shared *s);
/* Put AE_SHARED_HUGE bytes from `offset`, a multiple of it, into one huge page now, whether pages were taken
 * there before or not; their content stays. Takes some 300 us, or milliseconds if the system has to make
 * room. Returns false, and changes nothing, where it cannot: kernels before 6.1, fragmented memory, limits.
 */
bool ae_shared_collapse(const ae_shared *s, uint64_t offset);
/* Take the memory of whole pages [offset, offset + size) from the system now. AETHER_E_NO_MEMORY:
 * it has none. */
int ae_shared_commit(const ae_shared *s, uint64_t offset, uint64_t size, aether_error *err);

/* Return the first byte from `offset` on of a memfd's that lies on a page which was ever written, and the end
 * of such pages; UINT64_MAX: there is none. Reading other pages would take memory for them. */
uint64_t ae_shared_written(const ae_shared *s, uint64_t offset, uint64_t *end);

/* Keep whole pages [offset, offset + size) in RAM once they are written. AETHER_E_IO: the system's limit is
 * too low. */
int ae_shared_lock(const ae_shared *s, uint64_t offset, uint64_t size, aether_error *err);

/* Set the hooks, for tests; NULL: none. */
void ae_shared_set_hooks(const ae_shared_hooks *hooks);

#endif
