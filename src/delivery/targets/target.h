/*
 * target: where push delivery sends a due job: the one interface of all kinds.
 *
 * A target is one endpoint: an HTTP origin, a broker. It takes messages, at most as many at a time
 * as it was opened for, and reports each exactly once. It knows nothing of leases, retries and dead
 * letters: it only says done, failed (again later) or refused (never again). target_null.c is the
 * shortest one and documents the rest.
 *
 * Rules
 *   1. All calls and all reports on the thread of the reactor it was opened on. Blocking work is
 *      done on threads of its own and comes back by the reactor's mailbox.
 *   2. What a message points at is valid during the call only.
 *   3. A report never comes inside send. TARGET_DONE only once the peer has taken the message over
 *      (2xx, publisher confirm, delivery report, receipt).
 *   4. A message that may have reached the peer though no answer came is TARGET_FAILED. One that
 *      waited here for a broker's connection and certainly never left may be TARGET_UNSENT. Where
 *      each message is a try of its own (HTTP) a peer that cannot be reached is FAILED and ailing:
 *      so jobs for a host that is gone end as dead letters. One whose name server is silent is
 *      UNSENT.
 *   5. Every message has its time: `timeout_ms` after send it is reported, whatever the peer does.
 *   6. A target connects when it first has something to send, and again after it lost its peer; it
 *      asks the guard about every address it connects to.
 *   7. Every buffer has a bound; a slow peer costs its own window and nothing else.
 */
#ifndef TARRY_TARGETS_TARGET_H
#define TARRY_TARGETS_TARGET_H

#include "guard/guard.h"
#include "job/job.h"
#include "net/reactor.h"
#include "targets/setting.h"

enum { TARGET_ERROR_BYTES = JOB_ERROR_BYTES_MAX + 1 };

enum target_outcome {
    TARGET_DONE = 1, /* the peer has it */
    TARGET_FAILED,   /* again later; the attempt counts */
    TARGET_REFUSED,  /* never again: the job goes dead */
    TARGET_UNSENT    /* it never left: the attempt does not count */
};
/* "done", "failed", … */
static inline const char *target_outcome_name(enum target_outcome outcome)
{
    static const char *const names[] = {"unknown", "done", "failed", "refused", "unsent"};
    return names[outcome >= TARGET_DONE && outcome <= TARGET_UNSENT ? outcome : 0];
}

struct target_report {
    enum target_outcome outcome;
    /* The endpoint is to blame (no connection, timeout, 5xx, 429), not the message: the breaker
     * counts it. */
    bool is_ailing;
    int64_t retry_after_ms;         /* FAILED, UNSENT: the peer asked for so long; -1: it did not */
    uint32_t code;                  /* HTTP status, AMQP reply code; 0: none */
    char error[TARGET_ERROR_BYTES]; /* coarse, for people: "http 500", "timed out after 10s" */
};

struct target_message {
    uint64_t tag;                         /* comes back with the report */
    const struct job *job;                /* body, content type, meta, attempt, due */
    const struct target_setting *setting; /* of the topic */
    struct slice to;          /* where exactly: the topic's `to`, or the job's own callback */
    bool is_test;             /* a sample of `tarry deliver test`: explain more */
    struct buffer *explained; /* is_test: lines for people, until the report; else NULL */
};

/* The next meta of a job that goes along with its message: tarry's own are not for peers. */
static inline bool target_meta_next(struct slice meta, size_t *at, struct slice *name,
                                    struct slice *value)
{
    static const size_t own = sizeof JOB_META_OWN - 1;
    while (job_meta_next(meta, at, name, value))
        if (name->len < own || memcmp(name->at, JOB_META_OWN, own) != 0)
            return true;
    return false;
}

typedef void target_reported(void *owner, uint64_t tag, const struct target_report *report);

/* What targets of one server share. */
struct target_env {
    struct reactor *reactor;
    struct guard *guard;
    struct resolver *resolver;
    target_reported *reported;
    void *owner;
    /* The random name of the store that keeps the jobs: messages of different stores have different
     * ids. NULL: it has none. */
    const char *(*store_name)(void *store);
    void *store;
    const char *version; /* of the server, for User-Agent and client properties */
};

struct target { /* the first member of each kind's own */
    const struct target_ops *ops;
};

struct target_ops {
    const char *const *schemes; /* "http", "https", NULL: the plain one, the one by TLS */
    bool has_virtual_hosts;     /* the path of a URL names one: it is part of the endpoint */
    const char *absent; /* this build is without this feature, the rest is NULL; else NULL */
    /* Is this a destination of the kind, and are the kind's own settings right? Pure. False:
     * `error` says what is wrong and what would be right. */
    bool (*check)(const struct target_setting *setting, struct slice to,
                  char error[TARGET_ERROR_BYTES]);
    /* One endpoint; `to` names it (messages may go to other paths of the same). NULL: out of
     * memory. Connects to nothing yet. `env` outlives it. */
    struct target *(*open)(const struct target_env *env, const struct target_setting *setting,
                           struct slice to);
    void (*send)(struct target *target, const struct target_message *messages, size_t count);
    /* Gives up what is under way (reported FAILED or UNSENT before `closed`), closes, frees.
     * `closed` is called once, never inside the call. */
    void (*close)(struct target *target, void (*closed)(void *ctx), void *ctx);
};

/* The kind for a URL's scheme; NULL: no such kind in this build. */
const struct target_ops *target_find(struct slice to);
/* "http, https, amqp, …" for messages. */
void target_emit_schemes(struct buffer *out);

/* The endpoint that `to` is at, as "scheme://host:port" (amqp: with the virtual host): messages of
 * equal endpoints share a target, a window and a breaker. False: malformed; `error` says how. */
bool target_endpoint(struct slice to, struct buffer *out, char error[TARGET_ERROR_BYTES]);

extern const struct target_ops target_null, target_http, target_amqp, target_kafka, target_stomp,
    target_rocketmq;

#endif
