/* The topics' records are written to the log again before each checkpoint, which gives up the files
 * that hold the old ones, and before a stop. */
#include "local/private.h"

#include <errno.h>

/* In one turn. */
enum { TOPICS_AT_ONCE = 256 };

void carry_begin_topics(struct shard *shard)
{
    shard->carrying_topics = true;
    shard->topics_at = 0;
}

static bool carry_topics(struct shard *shard)
{
    if (!shard->carrying_topics)
        return false;
    for (int left = TOPICS_AT_ONCE; left; left--) {
        int failed = wal_has_room(shard->wal, ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER);
        if (failed) {
            if (failed != -EAGAIN && shard->stopping) /* they are where they were */
                shard->carrying_topics = false;
            return false;
        }
        if (engine_carry_topics(shard->engine, &shard->topics_at, 1)) {
            shard->carrying_topics = false;
            return false;
        }
    }
    return true;
}

bool carry_step(struct shard *shard)
{
    return carry_topics(shard);
}

bool carry_is_busy(const struct shard *shard)
{
    return shard->carrying_topics && !shard->broken;
}
