/*
 * event_stream: a call whose answer stays open: server-sent events, handed over one by one.
 *
 * It ends when the receiver has enough, the user interrupts it, or the server or the network ends it.
 * Whether to call again is the caller's choice. One thread; needs interrupt_catch.
 */
#ifndef TARRY_CLI_EVENT_STREAM_H
#define TARRY_CLI_EVENT_STREAM_H

#include "cli/client.h"

struct event_receiver {
    /* The server answers: events will come. NULL: nobody wants to know. */
    void (*open)(void *ctx);
    /* `data` is what stands there as JSON. False: that is enough. */
    bool (*take)(void *ctx, const char *event, const json_t *data);
    /* Where `press` is set: keys are there to be read at `keys`. False: that is enough. */
    int keys;
    bool (*press)(void *ctx);
    void *ctx;
};

enum event_stream_end {
    EVENT_STREAM_ENOUGH = 1, /* the receiver's, or the user's will */
    EVENT_STREAM_CUT,        /* the server or the network ended it, or cannot be reached just now */
    EVENT_STREAM_REFUSED     /* calling again would not help */
};

/* Makes the call that was prepared by client_begin. CUT and REFUSED: *exit_code is of cli.h and
 * client->problem says why; nothing was printed where the client is silent. */
enum event_stream_end event_stream_run(struct client *client, const struct event_receiver *receiver,
                                       int *exit_code);

#endif
