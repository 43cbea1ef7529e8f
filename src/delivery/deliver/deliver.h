/*
 * deliver: takes due jobs of topics with a target and sends them there, processes dead letters, and
 * sends alerts. It is an ordinary consumer: it uses only queue.h, not the store behind it.
 *
 * There is one per server, on one reactor. Two members of a topic's extension
 * (topic_settings.extension) configure it:
 *   deliver      targets/setting.h
 *   dead_letter  deliver/dead_letter.h
 * Changes of the settings apply at run time: queue->on_event reports them, also those by other
 * servers.
 *
 * The terms of this directory:
 *   dispatcher           the delivery of a topic
 *   delivery             one job, from its take to the queue's answer
 *   endpoint             a peer with its window and its breaker
 *   sample               a test message that is not a job
 *   dead letter worker   processes dead jobs
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
    struct queue *queue; /* queue of that reactor; deliver_new sets its on_event */
    struct waiters *waiters;
    struct guard *guard;
    struct lateness *lateness;
    const char *(*store_name)(void *store); /* returns the queue's random name */
    void *store;
    const char *version;
    struct tracer *tracer;   /* NULL if tracing is off */
    size_t result_bytes_max; /* limit of the results of jobs */
};

/* Creates push delivery, before the reactor runs. Returns NULL when out of memory. */
struct deliver *deliver_new(const struct deliver_options *options);
/* Reads all topics, then follows their changes. On the reactor's thread. */
void deliver_start(struct deliver *deliver);
/* Applies a new policy file: topics that it does not allow to deliver are logged. On the reactor's
 * thread. */
void deliver_evaluate_all(struct deliver *deliver);
/* Takes no more jobs; waits up to `timeout_ms` for deliveries in progress, then aborts the rest
 * (those jobs are given back). `stopped` is called once, never inside the call. Call it before
 * waiters_drain. */
void deliver_stop(struct deliver *deliver, int64_t timeout_ms, void (*stopped)(void *ctx),
                  void *ctx);
/* Frees it, after the reactor has stopped. */
void deliver_free(struct deliver *deliver);

/* Returns the time on the queue's test clock at which the first resting endpoint may be retried
 * (inner clock; INT64_MAX: no endpoint is paused). deliver_clock_moved has to be called after the clock
 * was moved. Both are called on the reactor's thread. */
int64_t deliver_next_ms(const struct deliver *deliver);
void deliver_clock_moved(struct deliver *deliver);
/* Notifies that the clock was reset to its start; all endpoints may be sent to again. */
void deliver_clock_reset(struct deliver *deliver);

/* ---- any thread ---- */

/* Checks an extension, a JSON object with at most `deliver` and `dead_letter`. Returns false with
 * `error` (DELIVER_ERROR_BYTES), which names the member and a valid value. */
enum { DELIVER_ERROR_BYTES = 512 };
bool deliver_check(struct guard *guard, struct slice topic, struct slice extension,
                   char error[DELIVER_ERROR_BYTES]);
/* Returns true if a valid extension forwards dead jobs to another topic, and sets `other`
 * (JOB_TOPIC_BYTES_MAX + 1) to its name. */
bool deliver_other_topic(struct slice extension, char *other);
/* Checks a job's own callback at its push: it must be an HTTP or HTTPS URL whose host is allowed.
 * Whether the topic allows callbacks is checked when the job is sent. */
bool deliver_check_callback(struct guard *guard, struct slice url, char error[DELIVER_ERROR_BYTES]);
/* The name of the meta that contains the callback. */
#define DELIVER_CALLBACK_META JOB_META_CALLBACK

void deliver_emit_metrics(struct deliver *deliver, struct metric_page *page);
extern const struct metric deliver_metrics[], dead_letter_metrics[];

/* Appends the endpoints of a topic with this extension, as JSON objects separated by commas: that
 * of its own target, even if nothing was sent there yet. If the jobs may have their own callbacks
 * and the client `sees_all` topics, it also appends all endpoints of callbacks, because their topic
 * is not recorded. */
void deliver_write_endpoints(struct deliver *deliver, struct slice extension, bool sees_all,
                             struct buffer *out);
/* Returns the state of the breaker of the own target of a topic with this extension, "closed" if
 * nothing was sent there yet, or NULL if there is none. Any thread. */
const char *deliver_target_state(struct deliver *deliver, struct slice extension);

/* ---- the reactor's thread ---- */

/* Sends one sample, signed like a job, to the topic's target and describes the result. An empty
 * `body` selects tarry's own sample. `done` receives a JSON object, or an error with status
 * QUEUE_NOT_FOUND (there is no such topic, or it has no target). It is called once, never inside
 * the call. */
typedef void deliver_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json);
void deliver_test(struct deliver *deliver, struct slice topic, struct slice body,
                  deliver_tested *done, void *owner, uint64_t tag);

#endif
