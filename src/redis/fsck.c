/* The walk: in the order that mends most at once. Entries of nobody go, then every job is hung
 * where it belongs, then all is counted. */
#include "redis/fsck_private.h"

#include <errno.h>
#include <stdio.h>

static const struct part {
    enum redis_script script;
    const char *name;
} topic_parts[] = {
    {REDIS_CHECK_TOPIC, "topic"}, {REDIS_CHECK_SETS, "fresh"},     {REDIS_CHECK_SETS, "leaves"},
    {REDIS_CHECK_SETS, "ready"},  {REDIS_CHECK_SETS, "held"},      {REDIS_CHECK_SETS, "dead"},
    {REDIS_CHECK_SETS, "expiry"}, {REDIS_CHECK_SETS, "finished"},  {REDIS_CHECK_SETS, "tries"},
    {REDIS_CHECK_JOBS, "jobs"},   {REDIS_CHECK_SETS, "histories"}, {REDIS_CHECK_TOPIC, "counts"},
    {REDIS_CHECK_TOPIC, "split"}, {REDIS_CHECK_TOPIC, "bytes"},    {REDIS_CHECK_TOPIC, "event"},
};

enum { TOPIC_PARTS = sizeof topic_parts / sizeof topic_parts[0], KEY_BYTES_MAX = 1 << 16 };

static int check_core(struct fsck *fsck, uint32_t shard)
{
    char shards[16];
    snprintf(shards, sizeof shards, "%u", (unsigned)fsck->report->shards);
    const struct slice more = slice_of(shards);
    return fsck_part(fsck, shard, REDIS_CHECK, "core", slice_of(""), &more, 1);
}

static int check_topic(struct fsck *fsck, uint32_t shard, struct slice topic)
{
    int result = 0;
    for (int i = 0; result == 0 && i < TOPIC_PARTS; i++)
        result = fsck_part(fsck, shard, topic_parts[i].script, topic_parts[i].name, topic, NULL, 0);
    return result;
}

/* Topics that are made meanwhile are not looked at. */
static int walk_shard(struct fsck *fsck, uint32_t shard)
{
    const struct fsck_names *topics = &fsck->topics[shard];
    int result = fsck_part(fsck, shard, REDIS_CHECK, "topics", slice_of(""), NULL, 0);
    fsck->report->shard[shard].topics = topics->count;
    for (size_t i = 0; result == 0 && i < topics->count; i++)
        result = check_topic(fsck, shard, topics->at[i]);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "leases", slice_of(""), NULL, 0);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "leased", slice_of(""), NULL, 0);
    return result;
}

/* For the progress. */
static int count_jobs(struct fsck *fsck, uint32_t shard, struct slice topic)
{
    struct buffer key;
    redisReply *reply;
    buffer_init(&key, KEY_BYTES_MAX);
    buffer_append_format(&key, "%s:job:", fsck->report->shard[shard].tag);
    buffer_append_slice(&key, topic);
    const struct slice words[] = {slice_of("HLEN"), buffer_slice(&key)};
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 2, &reply);
    buffer_fini(&key);
    if (result != 0)
        return result == -EBADMSG ? 0 : result;
    fsck->jobs_total += reply->type == REDIS_REPLY_INTEGER ? (uint64_t)reply->integer : 0;
    freeReplyObject(reply);
    return 0;
}

static int count_all_jobs(struct fsck *fsck)
{
    int result = 0;
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        for (size_t k = 0; result == 0 && k < fsck->topics[i].count; k++)
            result = count_jobs(fsck, i, fsck->topics[i].at[k]);
    return result;
}

static int walk(struct fsck *fsck)
{
    int result = fsck_count_shards(fsck);
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = check_core(fsck, i);
    if (result == 0)
        result = fsck_walk_keys(fsck);
    if (result == 0 && fsck->options->progress)
        result = count_all_jobs(fsck);
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = walk_shard(fsck, i);
    return result == 0 ? fsck_walk_settings(fsck) : result;
}

int redis_fsck_run(const struct redis_fsck_options *options, struct redis_fsck_report *report)
{
    struct fsck fsck = {.options = options, .report = report};
    *report = (struct redis_fsck_report){.repairs = options->repair};
    fsck.error = (struct redis_report){report->error, sizeof report->error};
    if (!redis_scripts_init())
        return REDIS_REPORT(&fsck.error, -ENOMEM, "out of memory");
    if (!redis_url_parse(options->url, &fsck.url, report->error, sizeof report->error))
        return -EDOM;
    int result = walk(&fsck);
    if (result == 0)
        *report->error = 0; /* of what passed */
    fsck_close(&fsck);
    for (uint32_t i = 0; i < REDIS_SHARDS_MAX; i++)
        fsck_names_fini(&fsck.topics[i]);
    explicit_bzero(&fsck.url, sizeof fsck.url);
    return result;
}
