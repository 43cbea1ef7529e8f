/* News of topics: kept during a turn, told at its end, each topic once. */
#include "local/private.h"

#include <assert.h>
#include <stdlib.h>

struct news {
    struct list list;
    enum queue_event event; /* 0: it has ready jobs */
    uint64_t reactors;      /* of ready jobs: who wants to know */
    size_t topic_bytes;
    char topic[];
};

void news_init(struct shard *shard)
{
    list_init(&shard->ready_topics);
    list_init(&shard->events);
}

static void clear(struct list *all)
{
    while (!list_is_empty(all)) {
        struct news *first = list_entry(all->next, struct news, list);
        list_remove(&first->list);
        free(first);
    }
}

void news_fini(struct shard *shard)
{
    clear(&shard->ready_topics);
    clear(&shard->events);
}

bool news_is_empty(const struct shard *shard)
{
    return list_is_empty(&shard->ready_topics) && list_is_empty(&shard->events);
}

static void tell(struct list *all, enum queue_event event, struct slice topic, uint64_t reactors)
{
    for (struct list *at = all->next; at != all; at = at->next) {
        struct news *waiting = list_entry(at, struct news, list);
        if (waiting->event == event &&
            slice_equals(slice_make(waiting->topic, waiting->topic_bytes), topic)) {
            waiting->reactors |= reactors;
            return;
        }
    }
    struct news *fresh = malloc(sizeof *fresh + topic.len);
    assert(fresh); /* a wake-up must not be lost */
    *fresh = (struct news){.event = event, .reactors = reactors, .topic_bytes = topic.len};
    memcpy(fresh->topic, topic.at, topic.len);
    list_add_last(all, &fresh->list);
}

void shard_on_engine_ready(void *ctx, struct slice topic)
{
    struct shard *shard = ctx;
    uint64_t reactors = watch_find(shard->watches, topic);
    if (reactors)
        tell(&shard->ready_topics, 0, topic, reactors);
}

void shard_tell(struct shard *shard, enum queue_event event, struct slice topic)
{
    tell(&shard->events, event, topic, 0);
}

void shard_on_engine_died(void *ctx, struct slice topic)
{
    shard_tell(ctx, QUEUE_EVENT_DEAD, topic);
}

void shard_watch(struct shard *shard, struct slice topic, uint32_t reactor, bool on)
{
    bool set = watch_set(shard->watches, topic, reactor, on);
    assert(set);
    (void)set;
    if (on && engine_topic_has_ready(shard->engine, topic))
        tell(&shard->ready_topics, 0, topic, 1ull << reactor);
}

static struct news *take_first(struct list *all)
{
    if (list_is_empty(all))
        return NULL;
    struct news *first = list_entry(all->next, struct news, list);
    list_remove(&first->list);
    return first;
}

bool news_run(struct shard *shard)
{
    struct shard_options *options = &shard->options;
    struct news *news;
    bool any = false;
    while ((news = take_first(&shard->ready_topics))) {
        options->ready(options->ctx, slice_make(news->topic, news->topic_bytes), news->reactors);
        free(news);
        any = true;
    }
    while ((news = take_first(&shard->events))) {
        options->event(options->ctx, news->event, slice_make(news->topic, news->topic_bytes));
        free(news);
        any = true;
    }
    return any;
}
