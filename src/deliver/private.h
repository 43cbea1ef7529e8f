/* deliver's own structure, shared by its files only. */
#ifndef TARRY_DELIVER_PRIVATE_H
#define TARRY_DELIVER_PRIVATE_H

#include "base/histogram.h"
#include "deliver/dead_letter_worker.h"
#include "deliver/deliver.h"
#include "deliver/dispatcher.h"
#include "deliver/endpoint.h"

#include <pthread.h>

struct follow_name { /* a topic to be looked at */
    struct list list;
    size_t len;
    char name[];
};

struct deliver {
    struct deliver_options options;
    struct resolver *resolver;
    struct dead_letter_worker *worker;
    struct endpoints endpoints;
    struct table dispatchers;

    struct turn_end_call turn_end;
    struct list kicked;  /* dispatchers that look for work */
    struct list answers; /* deliveries whose answer is known */
    struct list again;   /* deliveries whose answer the queue could not take */
    uint32_t answering;  /* batches of answers under way */
    struct deadline *alarm;
    int64_t alarm_ms, again_ms, follow_ms; /* INT64_MAX: not set */

    /* following the settings: one call under way */
    struct list names;
    size_t name_count;
    uint32_t look; /* number of the look at all topics */
    bool follows_all, is_following, has_started;

    uint32_t samples; /* under way */

    /* stopping */
    bool is_stopping, is_closing, dead_letter_worker_stopped, endpoints_closed, has_stopped,
        is_ending;
    int64_t patience_ms; /* the end of it; INT64_MAX: it is over, or not stopping */
    void (*stopped)(void *ctx);
    void *stopped_ctx;

    pthread_mutex_t lock; /* of what is below, of `dispatchers`, and of the dispatchers' tallies */
    struct histogram took, late;
};

/* What is left for the end of the turn is done there. */
void deliver_at_turn_end(struct deliver *deliver);
void deliver_kick(struct deliver *deliver, struct dispatcher *dispatcher);
/* The alarm rings by then. */
void deliver_wake_by(struct deliver *deliver, int64_t at_ms);
/* Something ended: is all of it over, when stopping? */
void deliver_check_stopped(struct deliver *deliver);

/* ---- follow.c ---- */
/* Looks at the topic; an empty name: at all of them. */
void follow_topic(struct deliver *deliver, struct slice name);
void follow_next(struct deliver *deliver);
void follow_forget(struct deliver *deliver);

/* ---- extension.c: what the two members say. Pure ---- */
struct extension {
    struct slice deliver, dead_letter; /* raw objects; empty: absent */
};
bool extension_parse(struct slice text, struct extension *out, char error[DELIVER_ERROR_BYTES]);

/* ---- check.c; any thread ---- */
/* Of the form that a job's own callback may have; nothing is said about its host. */
bool deliver_callback_is_well(struct slice url, char error[DELIVER_ERROR_BYTES]);
/* True: allowed. Else `error` says what to do. */
bool check_verdict(enum guard_verdict verdict, struct slice host, char error[DELIVER_ERROR_BYTES]);
/* All hosts of an endpoint's name. */
bool check_hosts(struct guard *guard, struct slice endpoint, char error[DELIVER_ERROR_BYTES]);
/* Would the policy let a topic with these settings deliver? */
bool check_setting(struct guard *guard, const struct target_setting *setting,
                   char error[DELIVER_ERROR_BYTES]);

#endif
