#include "client.h"

#include "base/clock.h"

#include <assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE_US = 120 * 1000 * 1000, EVENT_PATIENCE_US = 5 * 1000 * 1000, IDLE_ROUNDS = 20 };

static void replied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct client *client = owner;

    if (client->in_call)
        client->fault = "a call was answered inside the call";
    for (size_t i = 0; i < client->call_count; i++) {
        struct client_call *call = &client->calls[i];

        if (call->tag != tag || call->replied)
            continue;
        call->replied = true;
        client->waiting--;
        outcome_copy(&call->outcome, reply);
        return;
    }
    client->fault = "a call was answered twice";
}

void client_begin(struct client *client)
{
    assert(client->waiting == 0 || client->fault);
    for (size_t i = 0; i < client->call_count; i++)
        outcome_free(&client->calls[i].outcome);
    client->call_count = 0;
    client->waiting = 0;
}

struct queue_reply_to client_add(struct client *client)
{
    struct client_call *call = &client->calls[client->call_count++];

    assert(client->call_count <= CLIENT_CALLS_MAX);
    *call = (struct client_call){.tag = ++client->tags};
    client->waiting++;
    client->in_call = true;
    return (struct queue_reply_to){.done = replied, .owner = client, .tag = call->tag};
}

void client_sent(struct client *client)
{
    client->in_call = false;
}

void client_wait(struct client *client)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;

    while (client->waiting && !client->fault) {
        client->driver->pump(client->self);
        if (!client->waiting)
            break;
        driver_rest();
        if (clock_boot_us() > until_us)
            client->fault = "a call was not answered within 20 s";
    }
}

void client_idle(struct client *client)
{
    for (int i = 0; i < IDLE_ROUNDS; i++)
        client->driver->pump(client->self);
}

/* ---- events ---- */

static void happened(void *owner, enum queue_event event, struct slice topic)
{
    struct client *client = owner;
    struct client_event received = {.event = event};

    if (client->in_call)
        client->fault = "an event was sent inside a call";
    if (topic.len >= sizeof received.topic ||
        (event != QUEUE_EVENT_TOPIC && event != QUEUE_EVENT_DEAD)) {
        client->fault = "an event was sent that does not exist";
        return;
    }
    if (topic.len)
        memcpy(received.topic, topic.at, topic.len);
    client->events[client->event_count++ % CLIENT_EVENTS_MAX] = received;
}

static bool has_received(const struct client *client, enum queue_event event, const char *topic)
{
    for (size_t i = 0; i < client->event_count && i < CLIENT_EVENTS_MAX; i++)
        if (client->events[i].event == event &&
            (!client->events[i].topic[0] || strcmp(client->events[i].topic, topic) == 0))
            return true;
    return false;
}

bool client_await_event(struct client *client, enum queue_event event, const char *topic)
{
    int64_t until_us = clock_boot_us() + EVENT_PATIENCE_US;

    for (int round = 0; !has_received(client, event, topic) && !client->fault; round++) {
        if (client->driver->is_at_once ? round == IDLE_ROUNDS : clock_boot_us() > until_us)
            return false;
        client->driver->pump(client->self);
        driver_rest();
    }
    return true;
}

void client_forget_events(struct client *client)
{
    client->event_count = 0;
}

/* ---- opening and closing ---- */

static bool attach(struct client *client)
{
    client->self = client->driver->open(&client->options);
    client->queue = client->self ? client->driver->queue(client->self) : NULL;
    if (!client->queue) {
        client->fault = "the queue cannot be opened";
        return false;
    }
    client->queue->on_event = happened;
    client->queue->on_event_owner = client;
    return true;
}

bool client_open(struct client *client, const struct driver *driver,
                 const struct driver_options *options)
{
    const char *below = getenv("TMPDIR");

    *client = (struct client){.driver = driver, .options = *options};
    snprintf(client->dir, sizeof client->dir, "%s/tarry-contract-XXXXXX", below ? below : "/tmp");
    if (!mkdtemp(client->dir)) {
        client->fault = "no temporary directory can be made";
        return false;
    }
    client->options.dir = client->dir;
    return attach(client);
}

bool client_reopen(struct client *client)
{
    client->driver->close(client->self);
    return attach(client);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat;
    (void)kind;
    (void)at;
    return remove(path);
}

void client_close(struct client *client)
{
    const char *fault = client->fault;

    client_begin(client);
    if (client->self)
        client->driver->close(client->self);
    client->self = NULL;
    nftw(client->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    client->fault = fault;
}

/* ---- one call ---- */

#define ONE_CALL(...)                                                                              \
    do {                                                                                           \
        struct queue_reply_to to;                                                                  \
        client_begin(client);                                                                      \
        to = client_add(client);                                                                   \
        __VA_ARGS__;                                                                               \
        client_sent(client);                                                                       \
        client_wait(client);                                                                       \
        return &client->calls[0].outcome.reply;                                                    \
    } while (0)

const struct queue_reply *client_push(struct client *client, const struct queue_push *pushes,
                                      size_t count)
{
    ONE_CALL(queue_push(client->queue, pushes, count, to));
}

const struct queue_reply *client_take(struct client *client, const struct queue_take *take)
{
    ONE_CALL(queue_take(client->queue, take, to));
}

const struct queue_reply *client_answer(struct client *client, const struct queue_answer *answers,
                                        size_t count)
{
    ONE_CALL(queue_answer(client->queue, answers, count, to));
}

const struct queue_reply *client_change(struct client *client, const struct queue_change *changes,
                                        size_t count)
{
    ONE_CALL(queue_change(client->queue, changes, count, to));
}

const struct queue_reply *client_find(struct client *client, const struct queue_find *finds,
                                      size_t count)
{
    ONE_CALL(queue_find(client->queue, finds, count, to));
}

const struct queue_reply *client_get(struct client *client, struct slice topic, struct slice id)
{
    ONE_CALL(queue_get(client->queue, topic, id, to));
}

const struct queue_reply *client_list(struct client *client, const struct queue_list *list)
{
    ONE_CALL(queue_list(client->queue, list, to));
}

/* Overwrites the arguments of the call as soon as it returns: they may not be read later. */
const struct queue_reply *client_topic(struct client *client, const struct queue_topic_call *call)
{
    struct queue_topic_call lent = *call;
    size_t bytes = call->settings.extension.len;
    char *extension = malloc(bytes + 1);

    assert(extension);
    if (bytes)
        memcpy(extension, call->settings.extension.at, bytes);
    lent.settings.extension = slice_make(extension, bytes);
    ONE_CALL(queue_topic(client->queue, &lent, to); memset(extension, '!', bytes); free(extension));
}

const struct queue_reply *client_topics(struct client *client)
{
    ONE_CALL(queue_topics(client->queue, to));
}

const struct queue_reply *client_forecast(struct client *client,
                                          const struct queue_forecast_call *call)
{
    ONE_CALL(queue_forecast(client->queue, call, to));
}
