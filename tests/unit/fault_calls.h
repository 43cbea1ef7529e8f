/* fault_calls: one call to the disk, or one allocation, of the whole program fails, or all from one
 * on; with FAULT_CALLS_MMAP also each mmap. A test that includes it is linked so that its allocations come here (tests/CMakeLists.txt). */
#ifndef TARRY_TESTS_FAULT_CALLS_H
#define TARRY_TESTS_FAULT_CALLS_H

#include "unit/stand_before.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

static int64_t calls_left = -1; /* below 0: no call fails */
static bool fail_for_ever;      /* and all that follow */
static int64_t failed;

static bool fails(void)
{
    if (calls_left < 0)
        return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    if (!fail_for_ever)
        calls_left = -1;
    failed++;
    errno = EIO;
    return true;
}

#define FAILS_BEFORE(NAME, TAKES, GIVES) STANDS_BEFORE(NAME, int, -1, fails(), TAKES, GIVES)
#define FAILS_TO_MOVE(NAME, TAKES, GIVES) STANDS_BEFORE(NAME, ssize_t, -1, fails(), TAKES, GIVES)

FAILS_TO_MOVE(pread, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
FAILS_TO_MOVE(pread64, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
FAILS_TO_MOVE(pwrite, (int fd, const void *from, size_t len, off_t at), (fd, from, len, at))
FAILS_TO_MOVE(pwrite64, (int fd, const void *from, size_t len, off_t at), (fd, from, len, at))
FAILS_BEFORE(fdatasync, (int fd), (fd))
FAILS_BEFORE(fsync, (int fd), (fd))
FAILS_BEFORE(rename, (const char *from, const char *to), (from, to))
FAILS_BEFORE(renameat, (int from_at, const char *from, int to_at, const char *to),
             (from_at, from, to_at, to))
FAILS_BEFORE(fstat, (int fd, struct stat *out), (fd, out))
FAILS_BEFORE(fstat64, (int fd, struct stat *out), (fd, out))
FAILS_BEFORE(open, (const char *path, int flags, mode_t mode), (path, flags, mode))
FAILS_BEFORE(open64, (const char *path, int flags, mode_t mode), (path, flags, mode))

FAILS_BEFORE(openat, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode))
FAILS_BEFORE(openat64, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode))

/* Where tables get their pages: for a test that asks for it. */
#ifdef FAULT_CALLS_MMAP
#include <sys/mman.h>

#define FAILS_TO_MAP(NAME)                                                                         \
    STANDS_BEFORE(NAME, void *, MAP_FAILED, fails(),                                               \
                  (void *at, size_t bytes, int may, int flags, int fd, off_t from),                \
                  (at, bytes, may, flags, fd, from))

FAILS_TO_MAP(mmap)
FAILS_TO_MAP(mmap64)
#endif

/* Allocates without a wrapped call. */
char *faulty_strdup(const char *text) __asm__("strdup");
char *faulty_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

STANDS_BEFORE_MEMORY(fails())

#endif
