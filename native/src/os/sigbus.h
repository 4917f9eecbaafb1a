/*
 * os/sigbus.h - keep the process alive when a page of a mapped file is gone.
 *
 * Reading a mapped page that lies past the end of a file that shrank, or that
 * the disk cannot deliver, raises SIGBUS. For mappings registered here the
 * handler puts zero pages there, remembers the loss, and the read goes on:
 *
 *   region   [start ............................. end)
 *   file      ok  ok  ok  ok | (truncated)
 *   after     ok  ok  ok  ok | 0   0   0   0   0       damaged at = first fault
 *
 * When the file shrank, everything past its new end becomes zeros at once (one
 * mapping, so that a large file cannot exhaust the kernel's table of them);
 * otherwise only the page that failed. The zeros stay until the unmapping.
 *
 * A store faults in the same way, also into a hole that a full disk has no room for. In a mapping that is
 * registered as writable the zeros are writable, and private: what is stored there goes nowhere.
 *
 *   slots    [chunk of 64] -> [chunk of 64] -> ...     never freed
 *   slot     version | start | end | fd | writable | damaged      version odd: in change
 *
 * The handler reads slots without locks. A slot in change is never the one it
 * looks for: the faulting thread's own mapping is registered and stays so.
 *
 * A SIGBUS elsewhere goes to the handler that was there before, or kills the
 * process as if this module did not exist.
 *
 * Caveats
 *   - Signal handlers belong to the whole process. Ours goes in when the first
 *     file is mapped, and again (on top, forwarding) by ae_sigbus_install() if
 *     another library has put its own there meanwhile. In between, that one
 *     gets the signal: aether_guard() is for calling before mapped memory is read.
 *     AETHERGRAPH_NO_SIGBUS_GUARD=1 keeps ours out.
 *   - A handler that is forwarded to runs inside ours: with only SIGBUS blocked,
 *     whatever its sa_mask and SA_RESETHAND say.
 *   - Once a fault was forwarded, a SIGBUS that is sent (raise, kill) ends the
 *     process: it is taken for that handler's way of ending it.
 *   - A handler that leaves by siglongjmp() is forwarded to once in each thread. Its
 *     second fault is taken for one of its own, and ends the process.
 *   - A thread that blocks SIGBUS is killed by a fault; pool threads do not.
 *   - Zeros are data to whoever reads them: check ae_sigbus_damage() after
 *     reading, before trusting. Nor does a store tell that it was lost: check after storing.
 *   - Where the kernel has no mapping left for a single page, the whole region becomes zeros, and stores
 *     into pages that are there are lost as well.
 */
#ifndef AE_OS_SIGBUS_H
#define AE_OS_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ae_sigbus_slot ae_sigbus_slot;

/* Put the handler in place, unless it is there or switched off. Cheap. */
void ae_sigbus_install(void);

/* Guard [start, start + size), a mapping of `fd` from its offset 0, read-only or `writable`.
 * `fd` stays open until the removal. NULL if memory is short. */
ae_sigbus_slot *ae_sigbus_add(const void *start, uint64_t size, int fd, bool writable);

/* End the guard. Call before the unmapping, so that the range can never be somebody else's. */
void ae_sigbus_remove(ae_sigbus_slot *slot);

/* Return the bytes from the region's start to the first page that was lost, or -1. */
int64_t ae_sigbus_damage(const ae_sigbus_slot *slot);

/* Return the fd of the registered file behind an address, or -1; *start and *size are its region. */
int ae_sigbus_find(const void *address, const void **start, uint64_t *size);

#endif
