/*
 * os/process.h - which process this is, in 64 bits, and whether another one still lives.
 *
 *   bits 63 .. 22                                    21 .. 0
 *   when the process started, in ticks since boot    pid
 *
 * Both in one word, so that one compare-and-swap claims something for a process, with no moment
 * at which only half of it is known. A pid that was given out again belongs to another word.
 *
 * Caveats: pids are those of this pid namespace: processes in other containers look dead. Where
 * /proc cannot be read, the start is 0, and a pid that was given out again looks alive.
 */
#ifndef AE_OS_PROCESS_H
#define AE_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#define AE_PROCESS_PID_BITS 22 /* the kernel's limit of pids is 2^22 */

/* Return the word of this process; never 0. A forked child has a word of its own. */
uint64_t ae_process_self(void);
/* Return false if the process is known to have ended, though perhaps nobody has waited for it yet. */
bool ae_process_alive(uint64_t process);

static inline uint32_t ae_process_pid(uint64_t process) {
    return (uint32_t)(process & ((UINT64_C(1) << AE_PROCESS_PID_BITS) - 1));
}

#endif
