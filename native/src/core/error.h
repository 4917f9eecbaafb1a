/*
 * core/error.h - filling a caller-owned aether_error.
 *
 * errors.def is the one table: codes, names and texts. Every setter returns
 * the code, so that failing reads `return ae_error_set(err, ...)`.
 *
 * Caveats: `err` may be NULL; messages are cut at sizeof message.
 */
#ifndef AE_CORE_ERROR_H
#define AE_CORE_ERROR_H

#include "aether.h"

#if defined(__GNUC__)
#define AE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define AE_PRINTF(fmt, args)
#endif

/* Fill `err` with a code and a formatted message; return the code. */
int ae_error_set(aether_error *err, int code, const char *fmt, ...) AE_PRINTF(3, 4);

/* Fill `err`, also with the offending `value` and its `position` (index or byte offset). */
int ae_error_at(aether_error *err, int code, int64_t position, int64_t value, const char *fmt, ...)
    AE_PRINTF(5, 6);

/* Fill `err` after a failed OS call: the text of `os_errno` is appended. ENOENT becomes
 * AETHER_E_NOT_FOUND, ENOMEM AETHER_E_NO_MEMORY, ENOSPC and EDQUOT AETHER_E_DISK_FULL, any other
 * AETHER_E_IO. */
int ae_error_os(aether_error *err, int os_errno, const char *fmt, ...) AE_PRINTF(3, 4);

/* Return the system's text for `os_errno`, in `buffer` or in memory that stays. */
const char *ae_error_reason(int os_errno, char *buffer, size_t size);

void ae_error_clear(aether_error *err);

#endif
