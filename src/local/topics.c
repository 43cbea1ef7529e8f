/* The topics' records are written to the log again before each checkpoint, which gives up the files
 * that hold the old ones, and before a stop. */
#include "local/private.h"

#include <errno.h>

/* In one turn. */
enum { TOPICS_AT_ONCE = 256 };

void topics_begin(struct shard *shard)
{
    shard->writing_topics = true;
    shard->topics_at = 0;
    shard->topics_want_room = false;
}

bool topics_step(struct shard *shard)
{
    if (!shard->writing_topics)
        return false;
    for (int left = TOPICS_AT_ONCE; left; left--) {
        int failed = wal_has_room(shard->wal, ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER);
        shard->topics_want_room = failed != 0;
        if (failed) {
            if (failed != -EAGAIN && shard->stopping) /* they are where they were */
                shard->writing_topics = false;
            return false;
        }
        if (engine_carry_topics(shard->engine, &shard->topics_at, 1)) {
            shard->writing_topics = false;
            return false;
        }
    }
    return true;
}

bool topics_is_busy(const struct shard *shard)
{
    return shard->writing_topics && !shard->broken;
}
