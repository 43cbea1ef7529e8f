/* struct deliver, shared by the files of this directory: deliver.c, sample.c, metrics.c. */
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
    uint32_t samples; /* in progress */

    /* following the settings: one queue call at a time */
    struct list names; /* topics to read */
    size_t name_count;
    uint32_t look; /* number of the current scan of all topics */
    struct deadline *follow_alarm;
    bool follows_all, follow_rests, is_following, has_started;

    /* stopping */
    bool is_stopping, worker_stopped, endpoints_closed, has_stopped;
    struct deadline *timeout;
    struct iteration_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* Completes the stop, if everything has ended, at the end of the loop iteration; called whenever
 * something ends. */
static inline void deliver_check_stopped(struct deliver *deliver)
{
    if (deliver->is_stopping && !deliver->dispatchers.is_ending)
        reactor_once_at_iteration_end(deliver->options.reactor, &deliver->stop_call);
}

#endif
