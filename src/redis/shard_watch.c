/* Who wants to hear of which topics, and looks at them. Topics need not exist. */
#include "redis/private.h"

#include "base/hash.h"
#include "redis/command.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS = 64, LOOK_TOPICS_MAX = 500 };

/* ---- the table ---- */

static bool buckets_new(struct redis_shard *shard, size_t count)
{
    struct list *buckets = malloc(count * sizeof *buckets);
    if (!buckets)
        return false;
    for (size_t i = 0; i < count; i++)
        list_init(&buckets[i]);
    free(shard->watch_buckets);
    shard->watch_buckets = buckets;
    shard->watch_bucket_count = count;
    return true;
}

bool redis_watches_init(struct redis_shard *shard)
{
    list_init(&shard->watched);
    list_init(&shard->fresh);
    list_init(&shard->ready);
    return buckets_new(shard, BUCKETS);
}

static void watch_free(struct redis_shard *shard, struct redis_watch *watch)
{
    list_remove(&watch->bucket);
    list_remove(&watch->all);
    list_remove(&watch->fresh);
    list_remove(&watch->ready);
    shard->watch_count--;
    free(watch);
}

void redis_watches_fini(struct redis_shard *shard)
{
    while (shard->watch_buckets && !list_is_empty(&shard->watched))
        watch_free(shard, list_entry(shard->watched.next, struct redis_watch, all));
    free(shard->watch_buckets);
}

static struct slice topic_of(const struct redis_watch *watch)
{
    return slice_make(watch->topic, watch->topic_bytes);
}

static struct list *bucket_of(struct redis_shard *shard, struct slice topic)
{
    return &shard->watch_buckets[hash_64(topic.at, topic.len) & (shard->watch_bucket_count - 1)];
}

static struct redis_watch *watch_find(struct redis_shard *shard, struct slice topic)
{
    struct list *bucket = bucket_of(shard, topic);
    for (struct list *at = bucket->next; at != bucket; at = at->next) {
        struct redis_watch *watch = list_entry(at, struct redis_watch, bucket);
        if (slice_equals(topic_of(watch), topic))
            return watch;
    }
    return NULL;
}

static void grow(struct redis_shard *shard)
{
    /* Out of memory: longer chains will do. */
    if (shard->watch_count <= shard->watch_bucket_count)
        return;
    for (struct list *at = shard->watched.next; at != &shard->watched; at = at->next)
        list_remove(&list_entry(at, struct redis_watch, all)->bucket);
    (void)buckets_new(shard, shard->watch_bucket_count * 2);
    for (struct list *at = shard->watched.next; at != &shard->watched; at = at->next) {
        struct redis_watch *watch = list_entry(at, struct redis_watch, all);
        list_add_last(bucket_of(shard, topic_of(watch)), &watch->bucket);
    }
}

static struct redis_watch *watch_new(struct redis_shard *shard, struct slice topic)
{
    struct redis_watch *watch = calloc(1, sizeof *watch + topic.len);
    assert(watch); /* a wake-up must not be lost */
    watch->topic_bytes = topic.len;
    memcpy(watch->topic, topic.at, topic.len);
    list_add_last(bucket_of(shard, topic), &watch->bucket);
    list_add_last(&shard->watched, &watch->all);
    list_init(&watch->fresh);
    list_init(&watch->ready);
    shard->watch_count++;
    grow(shard);
    return watch;
}

void redis_watch_set(struct queue *queue, struct slice topic, bool on)
{
    struct redis_shard *shard = redis_shard_of(queue);
    struct redis_watch *watch = watch_find(shard, topic);
    if (on) {
        if (!watch)
            watch = watch_new(shard, topic);
        watch->count++;
        list_remove(&watch->fresh);
        list_add_last(&shard->fresh, &watch->fresh);
        reactor_turn_again(shard->options.reactor);
    } else if (watch && --watch->count == 0) {
        watch_free(shard, watch);
    }
}

/* ---- telling ---- */

void redis_watch_tell(struct redis_shard *shard, struct slice topic)
{
    struct redis_watch *watch = shard->watch_count ? watch_find(shard, topic) : NULL;
    if (!watch)
        return;
    watch->told = true;
    list_remove(&watch->ready);
    list_add_last(&shard->ready, &watch->ready);
}

void redis_watches_tell(struct redis_shard *shard)
{
    size_t left = shard->watch_count; /* those told meanwhile wait for the next round */
    while (left-- && !list_is_empty(&shard->ready)) {
        struct redis_watch *watch = list_entry(shard->ready.next, struct redis_watch, ready);
        char topic[JOB_TOPIC_BYTES_MAX];
        struct slice name = slice_make(topic, watch->topic_bytes);
        assert(watch->topic_bytes <= sizeof topic);
        memcpy(topic, watch->topic, watch->topic_bytes); /* it may go over being told */
        list_remove(&watch->ready);
        if (shard->queue.on_ready)
            shard->queue.on_ready(shard->queue.on_ready_owner, name);
    }
}

/* ---- looking ---- */

struct looking {
    struct redis_call call;
    struct redis_shard *shard;
    uint64_t number;
    bool all;                        /* the regular one, which finds what no message told */
    struct redis_events_heard heard; /* before it was sent */
};

/* Not there: the answer names what nobody watches any more. */
static void mark_found(struct redis_shard *shard, const redisReply *reply)
{
    for (size_t i = 1; i < reply->elements; i++) {
        struct slice topic;
        struct redis_watch *watch =
            redis_element(reply, i, &topic) ? watch_find(shard, topic) : NULL;
        if (watch)
            watch->found = true;
    }
}

static void tell_found(struct redis_shard *shard, const struct looking *looking)
{
    for (struct list *at = shard->watched.next; at != &shard->watched; at = at->next) {
        struct redis_watch *watch = list_entry(at, struct redis_watch, all);
        if (watch->look != looking->number)
            continue;
        if (watch->found) {
            shard->options.figures->news_lost += looking->all && watch->seen && !watch->told;
            redis_watch_tell(shard, topic_of(watch));
        } else {
            watch->told = false;
        }
        watch->seen = true;
        watch->found = false;
    }
}

static void hear_counters(const struct looking *looking, const struct redis_head *head)
{
    uint64_t changes, deaths;
    if (redis_unpack_counters(head->rest, &changes, &deaths))
        redis_events_counted(looking->shard, changes, deaths, &looking->heard);
    else
        redis_shard_say_malformed(looking->shard, REDIS_LOOK);
}

static void on_looked(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct looking *looking = list_entry(call, struct looking, call);
    struct redis_shard *shard = looking->shard;
    if (looking->all)
        shard->looking = false;
    if (end == REDIS_CALL_OK) {
        bool heard = head->next_ms >= shard->next_ms || head->next_ms >= shard->news_ms;
        shard->options.figures->news_lost += looking->all && shard->known && !heard;
        redis_shard_hear(shard, head);
        hear_counters(looking, head);
        mark_found(shard, reply);
        tell_found(shard, looking);
    }
    buffer_fini(&looking->call.args);
    free(looking);
}

static struct looking *looking_new(struct redis_shard *shard, bool all)
{
    struct looking *looking = calloc(1, sizeof *looking);
    if (!looking)
        return NULL; /* the next second's will do */
    redis_shard_call_init(&looking->call, REDIS_LOOK, false, on_looked);
    looking->shard = shard;
    looking->number = ++shard->looks;
    looking->all = all;
    looking->heard = shard->heard;
    return looking;
}

static void send_look(struct looking *looking, size_t topics)
{
    if (redis_shard_send(looking->shard, &looking->call, topics))
        return;
    buffer_fini(&looking->call.args);
    free(looking);
}

static void add_topic(struct looking *looking, struct redis_watch *watch)
{
    redis_command_arg(&looking->call.args, topic_of(watch));
    watch->look = looking->number;
    list_remove(&watch->fresh);
}

static void look_at_fresh(struct redis_shard *shard)
{
    while (!list_is_empty(&shard->fresh)) {
        struct looking *looking = looking_new(shard, false);
        size_t count = 0;
        if (!looking)
            return;
        while (!list_is_empty(&shard->fresh) && count++ < LOOK_TOPICS_MAX)
            add_topic(looking, list_entry(shard->fresh.next, struct redis_watch, fresh));
        send_look(looking, count);
    }
}

static void look_at_all(struct redis_shard *shard)
{
    struct list *at = shard->watched.next;
    do {
        struct looking *looking = looking_new(shard, true);
        size_t count = 0;
        if (!looking)
            return;
        for (; at != &shard->watched && count < LOOK_TOPICS_MAX; at = at->next, count++)
            add_topic(looking, list_entry(at, struct redis_watch, all));
        shard->looking = true;
        send_look(looking, count);
    } while (at != &shard->watched);
}

void redis_watches_look(struct redis_shard *shard, bool all)
{
    if (!shard->up)
        return;
    if (all)
        look_at_all(shard);
    else
        look_at_fresh(shard);
}
