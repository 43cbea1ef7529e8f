/* fault_calls: one call to the disk, or one allocation, of the whole program fails, or all from one
 * on; with FAULT_CALLS_MMAP also each mmap. A test that includes it is linked so that its allocations come here (tests/CMakeLists.txt). */
#ifndef TARRY_TESTS_FAULT_CALLS_H
#define TARRY_TESTS_FAULT_CALLS_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* These stand before the system's own. */
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

static void *real(const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);

    if (!at)
        abort();
    return at;
}

#define STANDS_BEFORE(NAME, RESULT, TAKES, GIVES)                                                  \
    RESULT faulty_##NAME TAKES __asm__(#NAME);                                                     \
    RESULT faulty_##NAME TAKES                                                                     \
    {                                                                                              \
        static RESULT(*next) TAKES;                                                                \
        if (!next)                                                                                 \
            *(void **)&next = real(#NAME);                                                         \
        return fails() ? -1 : next GIVES;                                                          \
    }

STANDS_BEFORE(pread, ssize_t, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
STANDS_BEFORE(pread64, ssize_t, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
STANDS_BEFORE(pwrite, ssize_t, (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(pwrite64, ssize_t, (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(fdatasync, int, (int fd), (fd))
STANDS_BEFORE(fsync, int, (int fd), (fd))
STANDS_BEFORE(rename, int, (const char *from, const char *to), (from, to))
STANDS_BEFORE(renameat, int, (int from_at, const char *from, int to_at, const char *to),
              (from_at, from, to_at, to))
STANDS_BEFORE(fstat, int, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(fstat64, int, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(open, int, (const char *path, int flags, mode_t mode), (path, flags, mode))
STANDS_BEFORE(open64, int, (const char *path, int flags, mode_t mode), (path, flags, mode))

STANDS_BEFORE(openat, int, (int at, const char *path, int flags, mode_t mode),
              (at, path, flags, mode))
STANDS_BEFORE(openat64, int, (int at, const char *path, int flags, mode_t mode),
              (at, path, flags, mode))

/* Where tables get their pages: for a test that asks for it. */
#ifdef FAULT_CALLS_MMAP
#include <sys/mman.h>

#define FAULTY_MMAP(NAME)                                                                          \
    void *faulty_##NAME(void *at, size_t bytes, int may, int flags, int fd,                        \
                        off_t from) __asm__(#NAME);                                                \
    void *faulty_##NAME(void *at, size_t bytes, int may, int flags, int fd, off_t from)            \
    {                                                                                              \
        static void *(*next)(void *, size_t, int, int, int, off_t);                                \
        if (!next)                                                                                 \
            *(void **)&next = real(#NAME);                                                         \
        return fails() ? MAP_FAILED : next(at, bytes, may, flags, fd, from);                       \
    }

FAULTY_MMAP(mmap)
FAULTY_MMAP(mmap64)
#endif

/* Allocates without a wrapped call. */
char *faulty_strdup(const char *text) __asm__("strdup");
char *faulty_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* The linker puts these before the house's calls (tests/CMakeLists.txt). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    return fails() ? NULL : __real_realloc(at, bytes);
}

#endif
