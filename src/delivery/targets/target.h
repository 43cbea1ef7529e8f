/*
 * target: the destination of push delivery: the interface of all kinds.
 *
 * A target is one endpoint: an HTTP origin or a broker. It accepts messages, at most as many at a
 * time as it was opened for, and reports each exactly once. It is independent of leases, retries
 * and dead letters: it only reports done, failed (retry later) or refused (never retry).
 * target_null.c is the shortest implementation and documents the rest.
 *
 * Rules
 *   1. All calls and all reports run on the thread of the reactor it was opened on. Blocking work
 *      is done on separate threads and returns through the reactor's mailbox.
 *   2. The data that a message points to is valid during the call only.
 *   3. A report never occurs inside send. TARGET_DONE is reported only after the peer has accepted
 *      the message (2xx, publisher confirm, delivery report, receipt).
 *   4. A message that may have reached the peer without an answer is TARGET_FAILED. One that waited
 *      for a broker's connection and was certainly not sent may be TARGET_UNSENT. If each message
 *      is its own connection attempt (HTTP), an unreachable peer is FAILED and ailing, so that jobs
 *      for a vanished host end as dead letters. If its name server does not answer, it is UNSENT.
 *   5. Every message has a timeout: it is reported `timeout_ms` after send, whatever the peer does.
 *   6. A target connects when it first has something to send, and again after it lost its peer; it
 *      checks every address with the guard before it connects.
 *   7. Every buffer is bounded; a slow peer only affects its own window.
 */
#ifndef TARRY_TARGETS_TARGET_H
#define TARRY_TARGETS_TARGET_H

#include "targets/event.h"
#include "targets/setting.h"

#include "base/buffer.h"
#include "guard/guard.h"
#include "guard/target_rows.h"
#include "job/job.h"
#include "net/reactor.h"

/* job_body: the whole job as JSON, which a topic may send instead of its body (setting.h, `body`).
 * Pure.
 *
 *   {"topic":"orders","id":"42","attempt":1,"due_at":"2026-11-21T09:00:00.000Z","priority":100,
 *    "content_type":"application/json","meta":{"kind":"paid"},"body":{"total":12}} */

/* Appends the job; `body` and `content_type` are formatted as in the API. Out of memory sets the
 * failure flag of `out`. */
void target_job_body_write(struct buffer *out, const struct job *job);
/* Returns the maximum size of the JSON. */
size_t target_job_body_bytes_max(const struct job *job);

/* outcome: what became of a message that was given to a target. */

enum target_outcome {
    TARGET_DONE = 1, /* the peer has accepted it */
    TARGET_FAILED,   /* retry later; the attempt counts */
    TARGET_REFUSED,  /* never retry: the job becomes dead */
    TARGET_UNSENT    /* it was not sent: the attempt does not count */
};
/* "done", "failed", … */
static inline const char *target_outcome_name(enum target_outcome outcome)
{
    static const char *const names[] = {"unknown", "done", "failed", "refused", "unsent"};
    return names[outcome >= TARGET_DONE && outcome <= TARGET_UNSENT ? outcome : 0];
}

enum { TARGET_ERROR_BYTES = JOB_ERROR_BYTES_MAX + 1 };

/* Why the answer of a peer that accepted the message is not the result of the job. */
enum target_loss {
    TARGET_LOSS_TOO_BIG = 1, /* it is above env.result_bytes_max */
    TARGET_LOSS_INCOMPLETE,  /* it broke off, or did not end in time */
    TARGET_LOSS_NO_MEMORY,
    TARGET_LOSSES
};
/* "too_big", … */
static inline const char *target_loss_name(enum target_loss loss)
{
    static const char *const names[] = {"none", "too_big", "incomplete", "no_memory"};
    return names[loss < TARGET_LOSSES ? loss : 0];
}

struct target_report {
    enum target_outcome outcome;
    /* The endpoint is at fault (no connection, timeout, 5xx), not the message: the breaker counts
     * it. */
    bool is_ailing;
    bool is_limited;        /* this exact URL asked for fewer requests (429), the endpoint works */
    int64_t retry_after_ms; /* FAILED, UNSENT: delay requested by the peer, or -1 */
    uint32_t code;          /* HTTP status, AMQP reply code, or 0 */
    char error[TARGET_ERROR_BYTES]; /* short, for users: "http 500", "timed out after 10s" */
    /* DONE, if setting.takes_result, or a call: the body of the answer and its content type, valid
     * during the report; or, if `loss` is not 0, the reason why they are missing. */
    struct slice result, result_type;
    enum target_loss loss;
};

struct target_message {
    uint64_t tag;                         /* returned in the report */
    const struct job *job;                /* body, content type, meta, attempt, due time */
    const struct target_setting *setting; /* of the topic */
    /* Further headers, encoded as a meta, in the form of the kind's `event`: a CloudEvent in binary
     * mode. Usually empty. */
    struct slice attributes;
    struct slice to; /* exact destination: the topic's `to`, or the job's own callback */
    /* http: a call of another kind. Its headers are only `attributes` and the content type, and the
     * report contains the body of any answer. `to` is not a template. */
    bool is_call;
    bool is_test; /* a sample of `tarry deliver test`: explain more */
    /* is_test: explanation for users, valid until the report; else NULL */
    struct buffer *explained;
};

typedef void target_reported(void *owner, uint64_t tag, const struct target_report *report);

/* The environment shared by the targets of a server. */
struct target_env {
    struct reactor *reactor;
    struct guard *guard;
    struct resolver *resolver;
    target_reported *reported;
    void *owner;
    /* Returns the random name of the job store, so that messages of different stores have different
     * IDs. NULL if the store has no name. */
    const char *(*store_name)(void *store);
    void *store;
    const char *version;     /* of the server, for User-Agent and client properties */
    size_t result_bytes_max; /* limit of the results of jobs */
};

struct target { /* the first member of each kind's target */
    const struct target_ops *ops;
};

struct target_ops {
    const char *const *schemes; /* "http", "https", NULL: the plain one, the one with TLS */
    struct target_event_form event;
    bool has_virtual_hosts; /* the path of a URL is a virtual host, and part of the endpoint */
    /* Checks that this is a valid destination of the kind and that the kind's settings are valid.
     * Pure. Returns false with `error`, which names the problem and a valid form. */
    bool (*check)(const struct target_setting *setting, struct slice to,
                  char error[TARGET_ERROR_BYTES]);
    /* Opens an endpoint named by `to` (messages may go to other paths of the same endpoint). Does
     * not connect yet. `env` outlives it. Returns NULL when out of memory. */
    struct target *(*open)(const struct target_env *env, const struct target_setting *setting,
                           struct slice to);
    void (*send)(struct target *target, const struct target_message *messages, size_t count);
    /* Aborts messages in flight (reported FAILED or UNSENT before `closed`), closes and frees the
     * target. `closed` is called once, never inside the call. */
    void (*close)(struct target *target, void (*closed)(void *ctx), void *ctx);
};

/* Returns the kind for a URL's scheme, or NULL if this build does not support it. */
const struct target_ops *target_find(struct slice to);
/* Appends "http, https, amqp, …" for error texts. */
void target_emit_schemes(struct buffer *out);

/* Appends the endpoint of `to` as "scheme://host:port" (amqp: with the virtual host). Messages of
 * the same endpoint share a target, a window and a breaker. Returns false with `error` if
 * malformed. */
bool target_endpoint(struct slice to, struct buffer *out, char error[TARGET_ERROR_BYTES]);

extern const struct target_ops target_null;
/* The kinds of targets.txt: target_http, … and its schemes, target_http_schemes. */
#define TARGET_DECLARE(NAME, ...)                                                                  \
    extern const struct target_ops target_##NAME;                                                  \
    extern const char *const target_##NAME##_schemes[];
TARGET_KIND_ROWS(TARGET_DECLARE)
#undef TARGET_DECLARE

#endif
