/* durability: the names of the durability classes, as used in options and replies. */
#include "redis/redis.h"

static const char *const names[] = {
    [REDIS_DURABILITY_EVICTS] = "none",
    [REDIS_DURABILITY_UNKNOWN] = "unknown",
    [REDIS_DURABILITY_MEMORY] = "memory",
    [REDIS_DURABILITY_FSYNC_NO] = "no",
    [REDIS_DURABILITY_FSYNC_EVERYSEC] = "everysec",
    [REDIS_DURABILITY_FSYNC_ALWAYS] = "always",
};

const char *redis_durability_name(enum redis_durability durability)
{
    return names[durability];
}

enum redis_durability redis_durability_parse(struct slice name)
{
    for (int i = REDIS_DURABILITY_UNKNOWN; i <= REDIS_DURABILITY_FSYNC_ALWAYS; i++)
        if (slice_is(name, names[i]))
            return (enum redis_durability)i;
    return 0;
}
