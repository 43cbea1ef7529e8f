#include "fsck/halves.h"

#include "base/vector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fsck_half {
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t shard;
    uint64_t settings;
    bool paused, deleting;
};

static uint64_t settings_hash(const struct topic_settings *settings)
{
    enum { BESIDE_BYTES = 512 };
    const struct record record = {
        .kind = RECORD_TOPIC,
        .topic = {.topic = slice_of("t"), .exists = true, .settings = *settings}};
    char bytes[TOPIC_EXTENSION_BYTES_MAX + BESIDE_BYTES];

    assert(record_bytes_max(&record) <= sizeof bytes);
    return hash_64(bytes, record_encode(&record, bytes));
}

static bool add_half(void *ctx, const struct queue_topic *topic)
{
    struct fsck_halves *halves = ctx;
    struct fsck_half *at = halves->at;

    if (halves->count == halves->cap) {
        at = vector_grow(at, sizeof *at, halves->count + 1, &halves->cap);
        if (!at)
            return false;
        halves->at = at;
    }
    at += halves->count++;
    *at = (struct fsck_half){.shard = halves->shards,
                             .settings = settings_hash(&topic->settings),
                             .paused = topic->paused,
                             .deleting = topic->deleting};
    snprintf(at->topic, sizeof at->topic, "%.*s", (int)topic->name.len, topic->name.at);
    return true;
}

bool fsck_halves_add(struct fsck_halves *halves, const struct fsck_replay *replay)
{
    bool done = fsck_replay_topics(replay, add_half, halves);

    halves->shards++;
    return done;
}

static int by_topic(const void *a, const void *b)
{
    const struct fsck_half *one = a, *other = b;
    int order = strcmp(one->topic, other->topic);

    return order ? order : (one->shard > other->shard) - (one->shard < other->shard);
}

static bool says_something(const struct fsck_half *half)
{
    return half->paused || half->settings != settings_hash(&(struct topic_settings){0});
}

/* Of one topic, what `count` shards say. */
static bool is_half_changed(const struct fsck_half *said, size_t count, uint32_t shards)
{
    bool agrees = true, something = false;

    for (size_t i = 0; i < count; i++) {
        something |= says_something(&said[i]);
        agrees &= said[i].settings == said[0].settings && said[i].paused == said[0].paused;
    }
    if (said[0].shard != 0)
        return something;
    return said[0].deleting || !agrees || (something && count < shards);
}

void fsck_halves_tell(struct fsck_halves *halves, struct fsck_report *report)
{
    if (halves->shards != report->shards || halves->shards < 2 || !halves->count)
        return;
    qsort(halves->at, halves->count, sizeof *halves->at, by_topic);
    for (size_t i = 0, next; i < halves->count; i = next) {
        const struct fsck_half *first = &halves->at[i];

        for (next = i + 1; next < halves->count && !strcmp(first->topic, halves->at[next].topic);)
            next++;
        if (!is_half_changed(first, next - i, halves->shards))
            continue;
        report->half_changed++;
        if (report->note_count++ >= FSCK_NOTES_MAX)
            continue;
        report->note[report->note_count - 1].shard = first->shard;
        snprintf(report->note[report->note_count - 1].text, sizeof report->note[0].text,
                 "topic '%.100s' is half %s, as a crash leaves it; the next start settles that",
                 first->topic, first->deleting ? "deleted" : "changed");
    }
}

void fsck_halves_fini(struct fsck_halves *halves)
{
    free(halves->at);
    *halves = (struct fsck_halves){0};
}
