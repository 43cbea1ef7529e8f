/*
 * slow_sync: a disk that takes its time, for a program that knows nothing of it. Preloaded
 * (LD_PRELOAD). The file that TARRY_TEST_SLOW_SYNC names holds a number of 8 bytes: so many
 * microseconds every fdatasync takes longer.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const _Atomic int64_t *longer_us;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TARRY_TEST_SLOW_SYNC");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *longer_us, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        longer_us = at;
}

int fdatasync(int fd)
{
    if (longer_us)
        usleep((useconds_t)atomic_load(longer_us));
    return (int)syscall(SYS_fdatasync, fd);
}
