/* fdatasync() that fails while FAIL_SYNC names a file that exists: for LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *name = getenv("FAIL_SYNC");
    if (name && access(name, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return sync(fd);
}
