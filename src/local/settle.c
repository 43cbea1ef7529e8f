#include "local/settle.h"

#include "base/log.h"

#include <stdio.h>

static bool find_topic(struct local *local, uint32_t shard, struct slice name,
                       struct queue_topic *out)
{
    struct engine_now now = {0};
    return engine_topic_show(local->shards[shard]->engine, name, now, out);
}

static bool says_something(const struct queue_topic *topic)
{
    return topic->paused || !topic_settings_equal(&topic->settings, &(struct topic_settings){0});
}

/* Makes one shard agree. A shard whose log has no room, or that has no memory, is left as it is: the
 * next start tries again. */
static void settle_shard(struct local *local, uint32_t index, const struct queue_topic *lead)
{
    struct shard *shard = local->shards[index];
    struct queue_topic here;
    bool is_there = find_topic(local, index, lead->name, &here);
    bool has_settings = is_there && topic_settings_equal(&here.settings, &lead->settings);
    if (is_there ? has_settings && here.paused == lead->paused : !says_something(lead))
        return;
    int failed = wal_has_room(shard->wal, 2 * (size_t)ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER);
    if (!failed && !has_settings)
        (void)engine_topic_put(shard->engine, lead->name, &lead->settings);
    if (!failed)
        (void)engine_topic_pause(shard->engine, lead->name, lead->paused);
    char name[JOB_TOPIC_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)lead->name.len, lead->name.at);
    log_event(failed ? LOG_WARN : LOG_INFO,
              failed ? "a topic stays half changed" : "half changed topic settled",
              LOG_TEXT("topic", name), LOG_NUMBER("shard", index));
}

static void delete_settled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    log_event(LOG_INFO, "half deleted topic settled", LOG_NUMBER("jobs", reply->affected));
}

static void settle_topic(struct local *local, const struct queue_topic *lead)
{
    struct queue *queue = local->handles[0]->queue;
    if (lead->deleting) {
        queue_topic(queue,
                    &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE, .topic = lead->name},
                    (struct queue_reply_to){.done = delete_settled});
        return;
    }
    for (uint32_t i = 0; i < local->shard_count; i++)
        settle_shard(local, i, lead);
}

void local_settle(struct local *local)
{
    struct queue_topic topic, leading;
    struct engine_now now = {0};
    for (uint32_t shard = 0; local->shard_count > 1 && shard < local->shard_count; shard++)
        for (uint32_t at = 0; engine_topic_next(local->shards[shard]->engine, &at, now, &topic);) {
            bool is_led = shard > 0 && find_topic(local, 0, topic.name, &leading);
            if (!is_led && (shard == 0 || says_something(&topic)))
                settle_topic(local, &topic);
        }
}
