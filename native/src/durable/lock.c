#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "durable/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

#define NAME "wal.lock"

/* ---- the locks of this process ---- */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* held while the process forks, too */
static ae_lock *held;

static void lock_held_logs(void) {
    pthread_mutex_lock(&guard);
}

static void unlock_held_logs(void) {
    pthread_mutex_unlock(&guard);
}

static void forget_all(void) {
    for (; held; held = held->next) {
        close(held->fd);
        held->fd = -1;
    }
    pthread_mutex_unlock(&guard);
}

__attribute__((constructor)) static void watch_log_lock_forks(void) {
    pthread_atfork(lock_held_logs, unlock_held_logs, forget_all);
}

/* ---- taking ---- */

static int refuse_open_log(int fd, const char *directory, aether_error *err) {
    char text[24] = {0};
    const long pid = pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
    return ae_error_at(err, AETHER_E_INVALID, 0, pid,
                       "the log in '%s' is open in process %ld: one graph at a time writes to it", directory,
                       pid);
}

static int write_pid(int fd) {
    char text[24];
    const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length ? -1 : 0;
}

/* Open the file and lock it; *fd is -1 if there is none to lock. */
static int lock_file(const char *path, const char *directory, bool writes, int *fd, aether_error *err) {
    int rc = AETHER_OK;
    const int wary = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW; /* it may be anything */
    *fd = open(path, O_RDWR | O_CREAT | wary, 0600);                 /* who can open it may lock it */
    if (*fd < 0 && !writes && (errno == EROFS || errno == EACCES)) {
        *fd = open(path, O_RDONLY | wary);
        if (*fd < 0 && (errno == ENOENT || errno == EACCES)) /* EACCES: another user's */
            return AETHER_OK;
    }
    if (*fd < 0)
        return ae_error_os(err, errno, "cannot open '%s'", path);
    struct stat st;
    if (fstat(*fd, &st) == 0 && st.st_mode & 077 && fchmod(*fd, 0600) != 0)
        (void)0; /* of an older build, and another user's */
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? refuse_open_log(*fd, directory, err)
                                  : ae_error_os(err, errno, "cannot lock '%s'", path);
    else if (write_pid(*fd) != 0) /* a full disk: the lock is what counts */
        (void)0;
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

int ae_lock_take(const char *directory, bool writes, ae_lock *lock, aether_error *err) {
    char path[4096];
    *lock = (ae_lock){.fd = -1};
    if (snprintf(path, sizeof path, "%s/" NAME, directory) >= (int)sizeof path)
        return ae_error_set(err, AETHER_E_INVALID, "the path of a log's directory is too long: '%.100s...'",
                            directory);
    pthread_mutex_lock(&guard);
    const int rc = lock_file(path, directory, writes, &lock->fd, err);
    if (!rc && lock->fd >= 0) {
        lock->next = held;
        held = lock;
    }
    pthread_mutex_unlock(&guard);
    return rc;
}

void ae_lock_release(ae_lock *lock) {
    pthread_mutex_lock(&guard);
    for (ae_lock **at = &held; *at; at = &(*at)->next)
        if (*at == lock) {
            *at = lock->next;
            flock(lock->fd, LOCK_UN);
            close(lock->fd);
            lock->fd = -1;
            break;
        }
    pthread_mutex_unlock(&guard);
}
