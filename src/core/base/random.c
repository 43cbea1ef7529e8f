#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/types.h>

void random_bytes(void *into, size_t len)
{
    char *at = into;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        /* Predictable tokens would be worse than no server. */
        if (got < 0 && errno != EINTR)
            abort();
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

uint64_t random_u64(void)
{
    uint64_t value;

    random_bytes(&value, sizeof value);
    return value;
}

uint64_t random_next(struct random *random)
{
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    if (bound == 0)
        return 0;
    /* Reject draws below 2^64 mod `bound`: then each remainder is equally likely, so that each remainder has the same number of
     * draws. */
    uint64_t least = (0 - bound) % bound;
    uint64_t drawn;
    do {
        drawn = random_next(random);
    } while (drawn < least);
    return drawn % bound;
}
