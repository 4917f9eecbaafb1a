#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const aether_error_entry error_table[] = {
#define AE_ERROR(name, text) {AETHER_E_##name, #name, text},
#include "core/errors.def"
#undef AE_ERROR
};

#define ERROR_COUNT (sizeof error_table / sizeof error_table[0])

const aether_error_entry *aether_error_table(uint32_t i) {
    return i < ERROR_COUNT ? &error_table[i] : NULL;
}

/* Return the length of `text` without a UTF-8 sequence cut short at its end. */
static size_t whole_utf8(const char *text, size_t length) {
    size_t tail = 0; /* continuation bytes at the end */
    while (tail < length && tail < 4 && ((unsigned char)text[length - 1 - tail] & 0xC0) == 0x80)
        tail++;
    if (tail == length)
        return length;
    unsigned char lead = (unsigned char)text[length - 1 - tail];
    size_t wanted = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    return tail < wanted ? length - 1 - tail : length;
}

static void format_message(aether_error *err, const char *fmt, va_list args) {
    int length = vsnprintf(err->message, sizeof err->message, fmt, args);
    if (length < 0)
        err->message[0] = '\0';
    else if ((size_t)length >= sizeof err->message)
        err->message[whole_utf8(err->message, sizeof err->message - 1)] = '\0';
}

static void fill_error(aether_error *err, int code, int os_errno, int64_t position, int64_t value) {
    err->code = code;
    err->os_errno = os_errno;
    err->position = position;
    err->value = value;
}

int ae_error_set(aether_error *err, int code, const char *fmt, ...) {
    if (!err)
        return code;
    fill_error(err, code, 0, -1, 0);
    va_list args;
    va_start(args, fmt);
    format_message(err, fmt, args);
    va_end(args);
    return code;
}

int ae_error_at(aether_error *err, int code, int64_t position, int64_t value, const char *fmt, ...) {
    if (!err)
        return code;
    fill_error(err, code, 0, position, value);
    va_list args;
    va_start(args, fmt);
    format_message(err, fmt, args);
    va_end(args);
    return code;
}

static int code_of_errno(int os_errno) {
    switch (os_errno) {
    case ENOENT:
        return AETHER_E_NOT_FOUND;
    case ENOMEM:
        return AETHER_E_NO_MEMORY;
    case ENOSPC:
    case EDQUOT:
        return AETHER_E_DISK_FULL;
    default:
        return AETHER_E_IO;
    }
}

const char *ae_error_reason(int os_errno, char *buffer, size_t size) {
    buffer[0] = '\0';
#if defined(__GLIBC__)
    return strerror_r(os_errno, buffer, size);
#else /* that of POSIX, as in musl */
    return strerror_r(os_errno, buffer, size) == 0 ? buffer : "unknown error";
#endif
}

/* The reason matters more than a long path: it replaces the end of the message. */
static void append_reason(char *message, size_t size, int os_errno) {
    char buffer[96];
    char reason[104];
    snprintf(reason, sizeof reason, ": %s",
             os_errno == ELOOP ? "it is a symbolic link: put the file itself there"
                               : ae_error_reason(os_errno, buffer, sizeof buffer));
    size_t room = size - 1 - strlen(reason);
    size_t length = strlen(message);
    if (length > room)
        length = whole_utf8(message, room);
    memcpy(message + length, reason, strlen(reason) + 1);
}

int ae_error_os(aether_error *err, int os_errno, const char *fmt, ...) {
    int code = code_of_errno(os_errno);
    if (!err)
        return code;
    fill_error(err, code, os_errno, -1, 0);
    va_list args;
    va_start(args, fmt);
    format_message(err, fmt, args);
    va_end(args);
    append_reason(err->message, sizeof err->message, os_errno);
    return code;
}

void ae_error_clear(aether_error *err) {
    if (!err)
        return;
    fill_error(err, AETHER_OK, 0, -1, 0);
    err->message[0] = '\0';
}
