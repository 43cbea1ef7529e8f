/* struct deliver, for the files of the room: deliver.c, sample.c, metrics.c. */
#ifndef TARRY_DELIVER_STATE_H
#define TARRY_DELIVER_STATE_H

#include "deliver/dead_letter_worker.h"
#include "deliver/deliver.h"
#include "deliver/dispatcher.h"

struct deliver {
    struct deliver_options options;
    struct resolver *resolver;
    struct dead_letter_worker *worker;
    struct endpoints endpoints;
    struct dispatchers dispatchers;
    uint32_t samples; /* under way */

    /* following the settings: one call of the queue under way */
    struct list names; /* topics to be looked at */
    size_t name_count;
    uint32_t look; /* number of the look at all topics */
    struct deadline *follow_alarm;
    bool follows_all, follow_rests, is_following, has_started;

    /* stopping */
    bool is_stopping, worker_stopped, endpoints_closed, has_stopped;
    struct deadline *timeout;
    struct turn_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* Something ended: is all of it over, when stopping? That is looked at when the turn ends. */
static inline void deliver_check_stopped(struct deliver *deliver)
{
    if (deliver->is_stopping && !deliver->dispatchers.is_ending)
        reactor_once_at_turn_end(deliver->options.reactor, &deliver->stop_call);
}

#endif
