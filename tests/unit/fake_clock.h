/* fake_clock: the clock of servers that are started with support/fake_time.c, moved by a test. */
#ifndef TARRY_TESTS_FAKE_CLOCK_H
#define TARRY_TESTS_FAKE_CLOCK_H

#include "unit/cases.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Programs started from now on have a clock that is ahead by what is stored in its second number,
 * in microseconds. */
static inline _Atomic int64_t *fake_clock_open(char path[32])
{
    strcpy(path, "/tmp/tarry-clock-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 16), 0);
    void *at = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    setenv("TARRY_TEST_FAKE_TIME", path, 1);
    return at;
}

static inline void fake_clock_close(_Atomic int64_t *clock, const char *path)
{
    unsetenv("TARRY_TEST_FAKE_TIME");
    munmap((void *)clock, 16);
    unlink(path);
}

#endif
