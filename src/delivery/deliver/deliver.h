/*
 * deliver: takes due jobs of the topics that name a target and sends them there; keeps dead letters
 * in order; alerts. It is a consumer like any other: it knows queue.h, not what is behind it.
 *
 * One a server, on one reactor. What it does for a topic is said by two members of the topic's
 * extension (topic_settings.extension):
 *   deliver      targets/setting.h
 *   dead_letter  deliver/dead_letter.h
 * Settings are followed at run-time: queue->on_event tells of changes, also by other servers.
 *
 * The room's nouns:
 *   dispatcher           a topic on its way out
 *   delivery             one job, from its take to the queue's answer
 *   endpoint             a peer with its window and its breaker
 *   sample               a message that is no job, to see what becomes of it
 *   dead letter worker   does what is to be done with dead jobs
 */
#ifndef TARRY_DELIVER_DELIVER_H
#define TARRY_DELIVER_DELIVER_H

#include "queue/lateness.h"
#include "queue/waiter.h"
#include "targets/target.h"

struct deliver;
struct tracer;

struct deliver_options {
    struct reactor *reactor;
    struct queue *queue; /* of that reactor; its on_event is set by deliver_new */
    struct waiters *waiters;
    struct guard *guard;
    struct lateness *lateness;
    const char *(*store_name)(void *store); /* the queue's own random name */
    void *store;
    const char *version;
    struct tracer *tracer; /* NULL: nothing is traced */
};

/* Before the reactor runs. NULL: out of memory. */
struct deliver *deliver_new(const struct deliver_options *options);
/* Looks at all topics, then follows their changes. On the reactor's thread. */
void deliver_start(struct deliver *deliver);
/* The policy file was read again: topics that it does not let deliver are named in the log. On the
 * reactor's thread. */
void deliver_judge_all(struct deliver *deliver);
/* Takes no more; waits up to `patience_ms` for what is under way, gives up the rest (those jobs go
 * back). `stopped` once, never inside the call. Call it before waiters_drain. */
void deliver_stop(struct deliver *deliver, int64_t patience_ms, void (*stopped)(void *ctx),
                  void *ctx);
/* After the reactor has stopped. */
void deliver_free(struct deliver *deliver);

/* The queue goes by a test clock: when the first endpoint that rests may be tried again, by that (inner; INT64_MAX:
 * none rests); and the clock was moved. On the reactor's thread. */
int64_t deliver_next_ms(const struct deliver *deliver);
void deliver_clock_moved(struct deliver *deliver);
/* The same, and it went back to its start: all endpoints may be sent to again. */
void deliver_clock_reset(struct deliver *deliver);

/* ---- any thread ---- */

/* Would this extension do? `extension` is a JSON object with at most `deliver` and `dead_letter`.
 * False: `error` (DELIVER_ERROR_BYTES) names the member and what would be right. */
enum { DELIVER_ERROR_BYTES = 512 };
bool deliver_check(struct guard *guard, struct slice topic, struct slice extension,
                   char error[DELIVER_ERROR_BYTES]);
/* Do dead jobs of a topic with this extension, which was found right, go over to another topic? Then
 * `other` (JOB_TOPIC_BYTES_MAX + 1) is its name. */
bool deliver_other_topic(struct slice extension, char *other);
/* A push's own callback: a URL of http or https whose host may be reached. Whether the topic allows
 * it is seen when it is sent. */
bool deliver_check_callback(struct guard *guard, struct slice url, char error[DELIVER_ERROR_BYTES]);
/* The name of the meta that carries it. */
#define DELIVER_CALLBACK_META JOB_META_CALLBACK

void deliver_emit_metrics(struct deliver *deliver, struct metric_page *page);
extern const struct metric deliver_metrics[], dead_letter_metrics[];

/* The peers that jobs went to, also those whose connections are closed by now. */
struct deliver_endpoint {
    struct slice name; /* "https://example.com:443" */
    const char *kind;  /* the plain scheme: "http", "amqp" */
    const char
        *state; /* of its breaker: "closed", "open" (nothing is sent), "half_open" (a probe is) */
    int64_t since_ms;      /* inner clock, as all times here */
    int64_t wait_until_ms; /* nothing is sent before; 0: no wait */
    uint64_t in_flight;
    uint64_t outcomes[TARGET_UNSENT + 1]; /* by enum target_outcome */
    struct slice error;                   /* of the last message that was not done; empty: none */
    int64_t error_at_ms;
};
typedef void deliver_each_endpoint(void *ctx, const struct deliver_endpoint *endpoint);
/* In no order; `each` is called under a lock, and calls nothing of this room. */
void deliver_endpoints(struct deliver *deliver, deliver_each_endpoint *each, void *ctx);
/* Those of a topic with this extension, as JSON objects with commas between: that of its own target,
 * also where nothing was sent there yet; and where its jobs may name their own, for who `sees_all`
 * topics, all that callbacks go to: nobody knows whose they are. */
void deliver_write_endpoints(struct deliver *deliver, struct slice extension, bool sees_all,
                             struct buffer *out);

/* ---- the reactor's thread ---- */

/* Sends one sample, signed like a job, to the topic's target and explains what became of it.
 * `body` empty: a sample of tarry's own. `done` gets a JSON object, or an error with status
 * QUEUE_NOT_FOUND (no such topic, or no target). Once, never inside the call. */
typedef void deliver_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json);
void deliver_test(struct deliver *deliver, struct slice topic, struct slice body,
                  deliver_tested *done, void *owner, uint64_t tag);

#endif
