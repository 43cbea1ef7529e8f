/* From any reactor to any shard: by a call where the shard is at home, else by letter. */
#include "local/handle.h"
#include "queue/copy.h"

#include <assert.h>
#include <stdlib.h>

/* ---- commands ---- */

struct backup_call {
    struct letter letter;
    struct handle *handle; /* who asked */
    uint32_t shard;
    struct command *command;
    struct queue_reply_to reply_to;
    struct queue_reply *reply;
};

static void backup_call_back(struct letter *letter)
{
    struct backup_call *call = (struct backup_call *)(void *)letter;
    static const struct queue_reply no_memory = {.status = QUEUE_NO_MEMORY};
    call->reply_to.done(call->reply_to.owner, call->reply_to.tag,
                        call->reply ? call->reply : &no_memory);
    free(call->reply);
    free(call);
}

static void backup_call_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct backup_call *call = owner;
    (void)tag;
    call->reply = copy_reply(reply);
    call->letter.run = backup_call_back;
    reactor_post(call->handle->reactor, &call->letter);
}

static void backup_call_there(struct letter *letter)
{
    struct backup_call *call = (struct backup_call *)(void *)letter;
    shard_submit(call->handle->local->shards[call->shard], call->command,
                 (struct queue_reply_to){.done = backup_call_done, .owner = call});
    free(call->command);
    call->command = NULL;
}

void route_refuse(struct handle *handle, enum queue_status status, struct queue_reply_to reply_to)
{
    completion_status_soon(handle->local->shards[handle->index], status, reply_to);
}

void route_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to)
{
    const struct part *part = (struct part *)(void *)queue;
    struct handle *handle = part->handle;
    struct local *local = handle->local;
    uint32_t shard = part->shard;
    if (shard == handle->index) {
        shard_submit(local->shards[shard], command, reply_to);
        return;
    }
    struct backup_call *call = calloc(1, sizeof *call);
    struct command *copy = copy_command(command);
    if (!call || !copy) {
        free(call);
        free(copy);
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *call = (struct backup_call){.letter.run = backup_call_there,
                                 .handle = handle,
                                 .shard = shard,
                                 .command = copy,
                                 .reply_to = reply_to};
    reactor_post(local->handles[shard]->reactor, &call->letter);
}

/* ---- watches and the news of ready jobs ---- */

struct topic_letter {
    struct letter letter;
    struct local *local;
    uint32_t reactor, shard;
    bool on;
    enum queue_event event;
    size_t topic_bytes;
    char topic[];
};

static struct topic_letter *topic_letter_new(struct local *local, uint32_t shard, uint32_t reactor,
                                             struct slice topic)
{
    struct topic_letter *letter = malloc(sizeof *letter + topic.len);
    assert(letter); /* a wake-up must not be lost */
    *letter = (struct topic_letter){
        .local = local, .shard = shard, .reactor = reactor, .topic_bytes = topic.len};
    memcpy(letter->topic, topic.at, topic.len);
    return letter;
}

static void watch_there(struct letter *letter)
{
    struct topic_letter *watch = (struct topic_letter *)(void *)letter;
    shard_watch(watch->local->shards[watch->shard], slice_make(watch->topic, watch->topic_bytes),
                watch->reactor, watch->on);
    free(watch);
}

void route_watch(struct handle *handle, uint32_t shard, struct slice topic, bool on)
{
    if (shard == handle->index) {
        shard_watch(handle->local->shards[shard], topic, handle->index, on);
        return;
    }
    struct topic_letter *watch = topic_letter_new(handle->local, shard, handle->index, topic);
    watch->on = on;
    watch->letter.run = watch_there;
    reactor_post(handle->local->handles[shard]->reactor, &watch->letter);
}

static void ready_here(struct local *local, uint32_t reactor, uint32_t shard, struct slice topic)
{
    struct queue *part = &local->handles[reactor]->parts[shard].queue;
    if (part->on_ready)
        part->on_ready(part->on_ready_owner, topic);
}

static void ready_there(struct letter *letter)
{
    struct topic_letter *news = (struct topic_letter *)(void *)letter;
    ready_here(news->local, news->reactor, news->shard, slice_make(news->topic, news->topic_bytes));
    free(news);
}

void route_ready(struct local *local, uint32_t shard, struct slice topic, uint64_t reactors)
{
    for (uint32_t reactor = 0; reactors; reactor++, reactors >>= 1) {
        if (!(reactors & 1))
            continue;
        if (reactor == shard) {
            ready_here(local, reactor, shard, topic);
            continue;
        }
        struct topic_letter *news = topic_letter_new(local, shard, reactor, topic);
        news->letter.run = ready_there;
        reactor_post(local->handles[reactor]->reactor, &news->letter);
    }
}

/* ---- events ---- */

/* Who listens is known on the listener's own thread alone, where it was set before the loop began;
 * a handle that has no listener says so once, the first time it is told. */
static void event_here(struct local *local, uint32_t reactor, uint32_t shard,
                       enum queue_event event, struct slice topic)
{
    struct handle *handle = local->handles[reactor];
    struct queue *part = &handle->parts[shard].queue;
    if (handle->queue->on_event)
        part->on_event(part->on_event_owner, event, topic);
    else
        atomic_fetch_or(&local->deaf, 1ull << reactor);
}

static void event_there(struct letter *letter)
{
    struct topic_letter *news = (struct topic_letter *)(void *)letter;
    event_here(news->local, news->reactor, news->shard, news->event,
               slice_make(news->topic, news->topic_bytes));
    free(news);
}

void route_event(struct local *local, uint32_t shard, enum queue_event event, struct slice topic)
{
    /* Before all are there nobody can have looked at the topics, which is how a listener begins. */
    bool all_there = atomic_load(&local->attached) == local->shard_count;
    uint64_t deaf = atomic_load(&local->deaf);
    for (uint32_t reactor = 0; reactor < local->shard_count; reactor++) {
        if (deaf & 1ull << reactor)
            continue;
        if (reactor == shard) {
            event_here(local, reactor, shard, event, topic);
        } else if (all_there) {
            struct topic_letter *news = topic_letter_new(local, shard, reactor, topic);
            news->event = event;
            news->letter.run = event_there;
            reactor_post(local->handles[reactor]->reactor, &news->letter);
        }
    }
}
