/*
 * event_stream: a call with a streaming answer: server-sent events, delivered one by one.
 *
 * The stream ends when the receiver stops it, the user interrupts it, or the server or the network
 * ends it. The caller decides whether to call again. One thread; requires interrupt_catch.
 */
#ifndef TARRY_CLI_EVENT_STREAM_H
#define TARRY_CLI_EVENT_STREAM_H

#include "cli/client.h"

struct event_receiver {
    /* Called when the server answers and events will follow. May be NULL. */
    void (*open)(void *ctx);
    /* Receives an event; `data` is its data as JSON. Returns false to stop. */
    bool (*take)(void *ctx, const char *event, const json_t *data);
    /* Called, unless NULL, when keys can be read from `keys`. Returns false to stop. */
    int keys;
    bool (*press)(void *ctx);
    void *ctx;
};

enum event_stream_end {
    EVENT_STREAM_ENOUGH = 1, /* stopped by the receiver or the user */
    EVENT_STREAM_CUT,        /* ended by the server or the network, or temporarily unreachable */
    EVENT_STREAM_REFUSED     /* calling again would not help */
};

/* Makes the call that client_begin prepared. For CUT and REFUSED, *exit_code is one of cli.h and
 * client->problem describes the error; it is not printed if the client is silent. */
enum event_stream_end event_stream_run(struct client *client, const struct event_receiver *receiver,
                                       int *exit_code);

#endif
