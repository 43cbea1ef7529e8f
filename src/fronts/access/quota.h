/*
 * quota: how much callers and addresses have asked for lately, and have open: what the limits are
 * held against.
 *
 * One for a server; every thread may use it. An account is kept for each caller with a name, and for
 * each address of those without one (of IPv6 the /64, of which one host has as many as it likes). It
 * is held while connections use it, and found again afterwards as long as what was taken out of its
 * rates has not come back. There is room for a fixed number; where more come at once than fit, the
 * ones that owe least are forgotten, so that memory is bounded however many addresses knock.
 *
 * A rate is a bucket of one word (the generic cell rate algorithm, ITU-T I.371): the moment at which
 * it will be full again. It holds as much as its unit brings, so "90/m" is up to 90 at once and one
 * more every 667 ms. Taking is a compare and swap; only accounts are found under a lock, when a
 * connection comes or shows another caller.
 */
#ifndef TARRY_ACCESS_QUOTA_H
#define TARRY_ACCESS_QUOTA_H

#include "access/access.h"
#include "base/frequency.h"

#include <stdatomic.h>

/* By which limit something was refused. */
enum quota_limit {
    QUOTA_NONE = 0,
    QUOTA_RATE,                /* pushes of a caller */
    QUOTA_REQUESTS,            /* all requests of a caller */
    QUOTA_TOPIC_RATE,          /* pushes into a topic */
    QUOTA_JOBS,                /* pending jobs of a caller */
    QUOTA_CONNECTIONS,         /* of a caller */
    QUOTA_WAITING,             /* takes of a caller */
    QUOTA_ADDRESS_RATE,        /* requests of those without a token, by address */
    QUOTA_ADDRESS_CONNECTIONS, /* likewise */
    QUOTA_ADDRESS_WAITING,
    QUOTA_MEMORY, /* of the process: pushes */
    /* Those that are the same for all who call; counted here only. */
    QUOTA_TOPIC_JOBS,
    QUOTA_REQUEST_MEMORY,
    QUOTA_ALL_CONNECTIONS,
    QUOTA_ALL_WAITING,
    QUOTA_TOPICS,
    QUOTA_BODY,         /* of a job, a batch, or another call */
    QUOTA_ITEMS,        /* of a batch; leases or ids in one call */
    QUOTA_REQUEST_LINE, /* also a URL that is too long */
    QUOTA_HEADER,
    QUOTA_SWEEPS,
    QUOTA_STREAMS,
    QUOTA_BACKUPS,
    QUOTA_LIMITS
};
const char *quota_limit_name(enum quota_limit limit); /* "rate", "address-rate", … */

/* ---- a bucket ---- */

struct quota_bucket {
    _Atomic int64_t full_ns; /* when it is full; in the past: it is */
};

/* Takes one. Else *wait_ns is how long until one can be had. `now_ns` of any clock that only goes on. */
bool quota_bucket_take(struct quota_bucket *bucket, struct access_rate rate, int64_t now_ns,
                       int64_t *wait_ns);

/* ---- accounts ---- */

struct quota_account {
    uint64_t key;     /* 0: free */
    uint32_t holders; /* under the lock of its set */
    struct quota_bucket pushes, requests;
    _Atomic uint32_t connections, waiting;
    _Atomic uint64_t pushed;           /* jobs, ever */
    _Atomic uint64_t jobs, jobs_as_of; /* those there were at the last look, and `pushed` then */
    struct access_caller *caller;      /* whose it is; held; NULL: an address's */
};

struct quota;

struct quota_options {
    struct access_rate address_rate; /* 0: no limit; so with the others */
    uint32_t address_connections, address_waiting;
    bool are_local_connections_free, are_local_waits_free; /* for this machine's own addresses */
    uint32_t accounts;                                     /* there is room for; 0: 131,072 */
    uint32_t topics;                                       /* with a rate of their own; 0: 10,000 */
    uint64_t seed; /* drawn; so nobody knows which accounts share a place */
};

struct quota *quota_new(const struct quota_options *options); /* NULL: out of memory */
void quota_free(struct quota *quota);
const struct quota_options *quota_options(const struct quota *quota);

/* The account of an address: 16 bytes, as IPv6 or mapped into it; or of a caller. Held. */
struct quota_account *quota_account_of_address(struct quota *quota,
                                               const unsigned char address[16]);
struct quota_account *quota_account_of_caller(struct quota *quota,
                                              const struct access_caller *caller);
/* One more holder. */
void quota_account_keep(struct quota *quota, struct quota_account *account);
void quota_account_release(struct quota *quota, struct quota_account *account);

/* One more, unless there are `most` (0: no limit). */
bool quota_count_up(_Atomic uint32_t *count, uint64_t most);
static inline void quota_count_down(_Atomic uint32_t *count)
{
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
}

/* ---- pending jobs of callers ---- */

/* May so many more be pushed, by what was seen at the last look and was pushed since? */
bool quota_has_jobs_left(const struct quota_account *account, uint64_t most);
/* Whether some caller at work has a limit of jobs: then somebody looks, now and then. */
bool quota_wants_look(struct quota *quota);
/* A look: begin notes what was pushed so far, each topic is told with its jobs, end puts it in force. */
void quota_look_begin(struct quota *quota);
void quota_look_topic(struct quota *quota, struct slice topic, uint64_t jobs);
void quota_look_end(struct quota *quota, bool is_good);

/* ---- memory of the process ---- */

/* Any thread: whether the process uses as much of `bytes_max` as it may. */
void quota_note_memory(struct quota *quota, bool is_spent, uint64_t bytes_max);
/* Then *bytes_max is set. */
bool quota_memory_is_spent(const struct quota *quota, uint64_t *bytes_max);

/* ---- rates of topics ---- */

/* By one thread at a time. Without a count it has none any more. */
void quota_topic_set(struct quota *quota, struct slice topic, struct frequency rate);
bool quota_topic_take(struct quota *quota, struct slice topic, int64_t now_ns, int64_t *wait_ns);
/* Whether some topic has one. */
bool quota_has_topics(const struct quota *quota);

/* Whether pushes of anybody are limited just now: by memory, or into some topic. */
bool quota_limits_pushes(const struct quota *quota);

/* ---- what was refused ---- */

void quota_refused(struct quota *quota, enum quota_limit limit);
uint64_t quota_refusals(const struct quota *quota, enum quota_limit limit);
void quota_emit_metrics(struct quota *quota, struct metric_page *page);
extern const struct metric quota_metrics[];

#endif
