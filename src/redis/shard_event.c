/* What happens to topics, for whoever follows them (queue.h, on_event). Each message has the number
 * its kind has come to, and the looks tell the numbers too: so one that was lost is noticed. */
#include "redis/private.h"

#include <assert.h>
#include <stdlib.h>

enum { EVENTS_MAX = 64 }; /* not told yet; beyond that it is any topic's */

struct event {
    struct list list;
    enum queue_event event;
    size_t topic_bytes;
    char topic[]; /* none: any */
};

static struct slice topic_of(const struct event *event)
{
    return slice_make(event->topic, event->topic_bytes);
}

static void event_free(struct redis_shard *shard, struct event *event)
{
    list_remove(&event->list);
    shard->event_count--;
    free(event);
}

void redis_events_fini(struct redis_shard *shard)
{
    while (!list_is_empty(&shard->events))
        event_free(shard, list_entry(shard->events.next, struct event, list));
}

/* The same one, or one of any topic. */
static bool is_noted(const struct redis_shard *shard, enum queue_event kind, struct slice topic)
{
    for (const struct list *at = shard->events.next; at != &shard->events; at = at->next) {
        const struct event *event = list_entry(at, struct event, list);
        if (event->event == kind && (!event->topic_bytes || slice_equals(topic_of(event), topic)))
            return true;
    }
    return false;
}

void redis_event_note(struct redis_shard *shard, enum queue_event kind, struct slice topic)
{
    if (shard->event_count >= EVENTS_MAX)
        topic.len = 0;
    if (is_noted(shard, kind, topic))
        return;
    struct event *event = calloc(1, sizeof *event + topic.len);
    assert(event); /* an event must not be lost */
    event->event = kind;
    event->topic_bytes = topic.len;
    if (topic.len)
        memcpy(event->topic, topic.at, topic.len);
    list_add_last(&shard->events, &event->list);
    shard->event_count++;
}

void redis_events_tell(struct redis_shard *shard)
{
    size_t left = shard->event_count; /* those noted meanwhile wait for the next round */
    while (left-- && !list_is_empty(&shard->events)) {
        struct event *event = list_entry(shard->events.next, struct event, list);
        list_remove(&event->list);
        if (shard->queue.on_event)
            shard->queue.on_event(shard->queue.on_event_owner, event->event, topic_of(event));
        event_free(shard, event);
    }
}

/* ---- numbers ---- */

static struct redis_heard *heard_of(struct redis_shard *shard, enum queue_event kind)
{
    return kind == QUEUE_EVENT_TOPIC ? &shard->heard.changes : &shard->heard.deaths;
}

void redis_event_heard(struct redis_shard *shard, enum queue_event kind, uint64_t number,
                       struct slice topic, bool own)
{
    struct redis_heard *heard = heard_of(shard, kind);
    if (heard->known && number <= heard->number)
        return; /* a look was faster */
    bool missed = !heard->known || number > heard->number + 1;
    *heard = (struct redis_heard){.known = true, .number = number};
    if (missed)
        redis_event_note(shard, kind, (struct slice){0});
    else if (!own)
        redis_event_note(shard, kind, topic);
}

static void count(struct redis_shard *shard, enum queue_event kind, uint64_t number,
                  struct redis_heard before)
{
    struct redis_heard *heard = heard_of(shard, kind);
    /* Lower than what was known when the look was sent: Redis lost the last ones. Only lower than
     * what is known by now: a message was faster. */
    bool went_back = before.known && number < before.number;
    if (heard->known && number <= heard->number && !went_back)
        return;
    *heard = (struct redis_heard){.known = true, .number = number};
    redis_event_note(shard, kind, (struct slice){0});
}

void redis_events_counted(struct redis_shard *shard, uint64_t changes, uint64_t deaths,
                          const struct redis_events_heard *before)
{
    count(shard, QUEUE_EVENT_TOPIC, changes, before->changes);
    count(shard, QUEUE_EVENT_DEAD, deaths, before->deaths);
}
