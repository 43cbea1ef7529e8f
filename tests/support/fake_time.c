/*
 * fake_time: the wall clock of a program that is not aware of it. Preloaded (LD_PRELOAD).
 *
 * The file that TARRY_TEST_FAKE_TIME names holds one to five numbers of 8 bytes. The first:
 * microseconds since 1970; while it is 0 the clock runs. The second: by how many microseconds it is
 * then ahead of the real one. The third and fourth: by how many parts in a million it runs too
 * fast, since when (microseconds of CLOCK_MONOTONIC). The fifth: for how many microseconds the machine
 * was asleep, by which CLOCK_BOOTTIME is ahead as well. Clocks of elapsed
 * time are otherwise unchanged.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct fake {
    _Atomic int64_t fixed_us, ahead_us, fast_ppm, since_us,
        asleep_us; /* a file of 8 bytes reads as 0 behind its end */
};

static const struct fake *shared;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TARRY_TEST_FAKE_TIME");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        shared = at;
}

/* Returns the fake time; 0: the real one applies. */
static int64_t fake_us(void)
{
    return shared ? atomic_load(&shared->fixed_us) : 0;
}

static int64_t ahead_us(void)
{
    int64_t fast_ppm = atomic_load(&shared->fast_ppm);
    struct timespec now;
    if (!fast_ppm || syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0)
        return atomic_load(&shared->ahead_us);
    int64_t passed_us =
        (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - atomic_load(&shared->since_us);
    return atomic_load(&shared->ahead_us) + passed_us * fast_ppm / 1000000;
}

static void move_time(struct timespec *time, int64_t by_us)
{
    int64_t us = (int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000 + by_us;
    time->tv_nsec = us % 1000000 * 1000 + time->tv_nsec % 1000;
    time->tv_sec = us / 1000000;
}

/* The real one, and what is added to it. */
static int running_clock(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && shared && (is_wall || clock == CLOCK_BOOTTIME))
        move_time(now, atomic_load(&shared->asleep_us) + (is_wall ? ahead_us() : 0));
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int64_t us = fake_us();
    struct timespec real;
    (void)zone;
    if (!us) {
        running_clock(CLOCK_REALTIME, &real);
        us = (int64_t)real.tv_sec * 1000000 + real.tv_nsec / 1000;
    }
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t us = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? fake_us() : 0;
    if (!us)
        return running_clock(clock, now);
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000;
    return 0;
}

time_t time(time_t *into)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}
