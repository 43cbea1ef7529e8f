/*
 * job: a job and its parts. Pure.
 */
#ifndef TARRY_JOB_JOB_H
#define TARRY_JOB_JOB_H

#include "job/policy.h"

enum job_state {
    JOB_DELAYED = 1, /* waiting until it is due; with attempt > 0: waiting for a retry */
    JOB_READY,       /* due, waiting for a consumer */
    JOB_LEASED,      /* held by a consumer */
    JOB_DEAD,        /* failed finally; kept for inspection and redrive */
    JOB_FINISHED     /* ended; remembered for the topic's dedup_window, or kept (keep_finished) */
};

enum { JOB_PRIORITY = 100 }; /* if neither the job nor its topic has one */

/* A whole job, as it is stored and handed out. The code that fills it in owns the slices. */
struct job {
    struct slice topic, id;
    struct slice content_type; /* empty: application/octet-stream */
    struct slice group;        /* see job/flow.h; empty: no group */
    struct slice meta;         /* see job_meta_next */
    struct slice body;
    struct slice error;   /* last error; empty: no error */
    struct slice history; /* see job_history_next; empty: no attempt has ended yet */
    enum job_state state;
    bool due_is_wall; /* due follows the wall clock (pushed with `at`), else the inner clock */
    uint16_t priority;
    uint32_t attempt; /* deliveries so far */
    int64_t due_ms;
    int64_t first_due_ms;   /* due before any retry: ttl counts from here */
    int64_t lease_until_ms; /* inner clock; 0 unless leased */
    int64_t taken_ms;       /* inner clock; 0 unless leased, or if not recorded */
    struct slice consumer;  /* name given by the consumer; empty unless leased, or if not given */
    bool cancel_requested;  /* leased: cancelled when the lease ends, unless acked before */
    struct slice progress;  /* last one given with an extend; empty unless leased or finished */
    bool has_keep;          /* keep_ms overrides the setting keep_finished of the topic */
    int64_t keep_ms;        /* how long to keep the job once it has finished; 0: not at all */
    uint64_t sequence;      /* push order within the shard */
    uint64_t delivery;    /* number of the last delivery, rising within the shard; 0: no delivery */
    struct policy policy; /* the job's own; unset fields use the topic's values */
    int64_t next_due_ms;  /* wall clock: due of its successor (CONFLICT_AFTER); 0: no successor */
    struct slice batch;   /* the batches of the job, encoded (job/batch.h); empty: no batches */
    struct slice next;    /* leased: the successor, as an encoded JOB record; only in a record */
};

const char *job_state_name(enum job_state state);  /* "delayed", … */
enum job_state job_state_parse(struct slice name); /* 0 if unknown */

/* Returns whether a topic name is valid: [A-Za-z0-9._+/;$()-]{1,200}, no leading dot. */
bool job_topic_is_valid(struct slice topic);
/* Returns whether the topic is one of tarry's own, which hold work that must happen once over all
 * servers: `tarry.dead`, ... Nothing is pushed to it on behalf of a caller. All names that begin
 * with "tarry." are reserved. */
bool job_topic_is_own(struct slice topic);
/* Returns whether an id is valid: 1 to 128 bytes of printable ASCII, 0x21 to 0x7e. */
bool job_id_is_valid(struct slice id);
/* Returns whether a consumer name is valid: 1 to 64 bytes of printable ASCII, without leading or
 * trailing blanks. */
bool job_consumer_is_valid(struct slice consumer);
/* Returns whether the id is "." or "..". In a path these have another meaning for clients and
 * proxies, escaped or not, so a job with such an id is not reachable. Stored jobs with such ids,
 * from before they were refused, are otherwise ordinary. */
bool job_id_is_dots(struct slice id);

/*
 * history: the last JOB_HISTORY_MAX attempts that ended without an ack, oldest first. Encoded one
 * after the other:  varint attempt · varint started_ms · varint duration_ms · u8 outcome · counted
 * error.  Redrive keeps the history, so numbers may fall. `error` is the job's error after the
 * attempt, truncated at a character boundary.
 */
enum job_outcome {
    JOB_OUTCOME_FAILED = 1,  /* nack */
    JOB_OUTCOME_LEASE_ENDED, /* no answer in time */
    JOB_OUTCOME_REFUSED      /* final nack */
};
struct job_attempt {
    uint32_t attempt;
    int64_t started_ms; /* wall clock, when it was taken */
    int64_t duration_ms;
    enum job_outcome outcome;
    struct slice error;
};
const char *job_outcome_name(enum job_outcome outcome); /* "failed", "lease_ended", "refused" */
/* Writes `history` with one more attempt at its end, and without the oldest if there are too many,
 * into `into`; longer errors are truncated. `into` has room for JOB_HISTORY_BYTES_MAX and does not
 * overlap `history`. Returns the new length. */
size_t job_history_add(struct slice history, const struct job_attempt *attempt, char *into);
/* Reads the next attempt. Start with *at = 0. Returns false at the end; *at is then history.len
 * unless the history is malformed. */
bool job_history_next(struct slice history, size_t *at, struct job_attempt *out);
/* Returns whether `history` consists of whole attempts, at most JOB_HISTORY_MAX, and nothing
 * else. */
bool job_history_check(struct slice history);

/*
 * meta: a map of strings, encoded as  name NUL value NUL  for each pair. Names: lower-case
 * [a-z0-9-]{1,64}, each once. Values: UTF-8 without control bytes, up to 1024 bytes.
 */
enum job_meta_fault {
    JOB_META_OK = 0,
    JOB_META_BAD_NAME,
    JOB_META_BAD_VALUE,
    JOB_META_TWICE,
    JOB_META_TOO_MUCH
};
enum job_meta_fault job_meta_add(struct buffer *meta, struct slice name, struct slice value);
/* The prefix of names that are reserved for tarry: callers cannot set them. */
#define JOB_META_OWN "tarry-"
/* The job's own destination: a URL. */
#define JOB_META_CALLBACK JOB_META_OWN "callback"
/* The push time of a job whose trace is sampled, in microseconds since 1970. Not shown to users. */
#define JOB_META_PUSHED JOB_META_OWN "pushed"
/* Which members a waiting job was pushed with (POST /v1/batches): a hash. Not shown to users. */
#define JOB_META_MEMBERS JOB_META_OWN "members"
/* The context of the trace that the job belongs to. Any caller may set it. See trace/carry.h. */
#define JOB_META_TRACEPARENT "traceparent"
#define JOB_META_TRACESTATE "tracestate"
/* The topic in which a dead letter died. */
#define JOB_META_DEAD_TOPIC "dead-topic"
#define JOB_META_DEAD_ATTEMPT "dead-attempt" /* number of its attempts there */
#define JOB_META_DEAD_ERROR "dead-error"
#define JOB_META_DEAD_HOPS "dead-hops" /* how often it was forwarded */
/* Returns whether a pair with this name is not shown to users. */
bool job_meta_is_hidden(struct slice name);
/* Reads the next pair. Start with *at = 0. Returns false at the end; *at is then meta.len unless
 * the last pair is truncated. */
bool job_meta_next(struct slice meta, size_t *at, struct slice *name, struct slice *value);
/* Returns the value of a name; `at` is NULL if the name is missing. */
struct slice job_meta_find(struct slice meta, struct slice name);

#endif
