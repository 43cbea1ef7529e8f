/* client: calls a queue, runs it until it has answered, and keeps the answer. Watches over rule 2:
 * one reply for each call, never inside it. */
#ifndef TARRY_TESTS_CONTRACT_CLIENT_H
#define TARRY_TESTS_CONTRACT_CLIENT_H

#include "driver.h"
#include "outcome.h"

enum { CLIENT_CALLS_MAX = 1024, CLIENT_EVENTS_MAX = 64 };

struct client_call {
    uint64_t tag; /* 0: free */
    bool replied;
    struct outcome outcome;
};

struct client_event {
    enum queue_event event;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
};

struct client {
    const struct driver *driver;
    struct driver_options options;
    char dir[64];
    void *self;
    struct queue *queue;
    uint64_t tags;
    bool in_call;
    size_t waiting;
    const char *fault; /* a broken rule; NULL: no fault */
    struct client_call calls[CLIENT_CALLS_MAX];
    size_t call_count;
    struct client_event events[CLIENT_EVENTS_MAX]; /* received since client_forget_events */
    size_t event_count;
};

bool client_open(struct client *client, const struct driver *driver,
                 const struct driver_options *options);
bool client_reopen(struct client *client);
void client_close(struct client *client); /* and removes the directory */

/* Several concurrent calls: begin; then for each client_add, the call, client_sent; then client_wait;
 * then read calls[] in that order. */
void client_begin(struct client *client);
struct queue_reply_to client_add(struct client *client);
void client_sent(struct client *client);
void client_wait(struct client *client);
/* Lets the queue run for some iterations without waiting for anything. */
void client_idle(struct client *client);

/* Runs the queue until it sends this event, of one or of any topic. Returns false if it does not. */
bool client_await_event(struct client *client, enum queue_event event, const char *topic);
void client_forget_events(struct client *client);

/* Make one call; the reply lives until the next one. */
const struct queue_reply *client_push(struct client *, const struct queue_push *, size_t count);
const struct queue_reply *client_take(struct client *, const struct queue_take *);
const struct queue_reply *client_answer(struct client *, const struct queue_answer *, size_t count);
const struct queue_reply *client_change(struct client *, const struct queue_change *, size_t count);
const struct queue_reply *client_find(struct client *, const struct queue_find *, size_t count);
const struct queue_reply *client_get(struct client *, struct slice topic, struct slice id);
const struct queue_reply *client_list(struct client *, const struct queue_list *);
const struct queue_reply *client_topic(struct client *, const struct queue_topic_call *);
const struct queue_reply *client_topics(struct client *);
const struct queue_reply *client_forecast(struct client *, const struct queue_forecast_call *);

#endif
