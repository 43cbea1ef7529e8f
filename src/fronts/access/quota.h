/*
 * quota: recent requests and current usage per caller and per address, against which the limits are
 * checked.
 *
 * A server has one; any thread may use it. There is an account for each named caller, and one for
 * each address of unauthenticated clients (for IPv6 one per /64, because a host has as many
 * addresses in it as it likes). An account is held while connections use it. After that it is kept
 * until its rates have recovered. The number of accounts is fixed. If there are more callers than
 * accounts, the accounts that have used up the least are dropped, so memory is bounded regardless
 * of the number of addresses.
 *
 * A rate is a bucket of one word (the generic cell rate algorithm, ITU-T I.371): the time at which
 * it will be full again. Its capacity is the count of its unit, so "90/m" allows bursts of 90 and
 * then one every 667 ms. Taking from a bucket is a compare-and-swap. A lock is only used to find
 * accounts, when a connection opens or shows another caller.
 */
#ifndef TARRY_ACCESS_QUOTA_H
#define TARRY_ACCESS_QUOTA_H

#include "access/access.h"
#include "base/frequency.h"

#include <stdatomic.h>

/* The limit because of which a request was refused. */
enum quota_limit {
    QUOTA_NONE = 0,
    QUOTA_RATE,                /* pushes of a caller */
    QUOTA_REQUESTS,            /* all requests of a caller */
    QUOTA_TOPIC_RATE,          /* pushes into a topic */
    QUOTA_JOBS,                /* pending jobs of a caller */
    QUOTA_CONNECTIONS,         /* connections of a caller */
    QUOTA_WAITING,             /* waiting takes of a caller */
    QUOTA_ADDRESS_RATE,        /* requests of unauthenticated clients, by address */
    QUOTA_ADDRESS_CONNECTIONS, /* connections of unauthenticated clients, by address */
    QUOTA_ADDRESS_WAITING,
    QUOTA_MEMORY, /* pushes, by the memory of the process */
    /* Limits that are the same for all callers; only counted here. */
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
    /* time at which it is full; a time in the past means that it is full */
    _Atomic int64_t full_ns;
};

/* Takes one from the bucket. Otherwise sets *wait_ns to the time until one is available. `now_ns`
 * may come from any monotonic clock. */
bool quota_bucket_take(struct quota_bucket *bucket, struct access_rate rate, int64_t now_ns,
                       int64_t *wait_ns);

/* ---- accounts ---- */

struct quota_account {
    uint64_t key;     /* 0 if free */
    uint32_t holders; /* protected by the lock of its set */
    struct quota_bucket pushes, requests;
    _Atomic uint32_t connections, waiting;
    _Atomic uint64_t pushed;           /* total number of jobs pushed */
    _Atomic uint64_t jobs, jobs_as_of; /* jobs at the last count, and the value of `pushed` then */
    struct access_caller *caller;      /* owner, with a reference; NULL for an address */
};

struct quota;

struct quota_options {
    struct access_rate address_rate; /* 0: no limit; the same applies to the others */
    uint32_t address_connections, address_waiting;
    /* true if the machine's own addresses are exempt */
    bool are_local_connections_free, are_local_waits_free;
    uint32_t accounts; /* capacity; 0: 131,072 */
    uint32_t topics;   /* capacity for topics with their own rate; 0: 10,000 */
    uint64_t seed;     /* random, so that no client can predict which accounts share a slot */
};

struct quota *quota_new(const struct quota_options *options); /* returns NULL when out of memory */
void quota_free(struct quota *quota);
const struct quota_options *quota_options(const struct quota *quota);

/* Returns the account of an address (16 bytes, IPv6 or IPv4-mapped) or of a caller, with one more
 * holder. */
struct quota_account *quota_account_of_address(struct quota *quota,
                                               const unsigned char address[16]);
struct quota_account *quota_account_of_caller(struct quota *quota,
                                              const struct access_caller *caller);
/* Adds a holder. */
void quota_account_keep(struct quota *quota, struct quota_account *account);
void quota_account_release(struct quota *quota, struct quota_account *account);

/* Increments the count. Returns false if it has reached `most` (0: no limit). */
bool quota_count_up(_Atomic uint32_t *count, uint64_t most);
static inline void quota_count_down(_Atomic uint32_t *count)
{
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
}

/* ---- pending jobs of callers ---- */

/* Returns true if the caller may push more jobs, according to the last count and the pushes
 * since. */
bool quota_has_jobs_left(const struct quota_account *account, uint64_t most);
/* Returns true if an active caller has a job limit, so that the jobs have to be counted from time
 * to time. */
bool quota_wants_look(struct quota *quota);
/* Count the jobs: begin records the number of pushes so far, topic adds the jobs of one topic, end
 * applies the result. */
void quota_look_begin(struct quota *quota);
void quota_look_topic(struct quota *quota, struct slice topic, uint64_t jobs);
void quota_look_end(struct quota *quota, bool is_good);

/* ---- memory of the process ---- */

/* Records whether the process has used up its memory limit `bytes_max`. Any thread. */
void quota_note_memory(struct quota *quota, bool is_spent, uint64_t bytes_max);
/* Returns true if the memory limit is used up; sets *bytes_max in that case. */
bool quota_memory_is_spent(const struct quota *quota, uint64_t *bytes_max);

/* ---- rates of topics ---- */

/* Sets the rate of a topic; a rate without a count removes it. One thread at a time. */
void quota_topic_set(struct quota *quota, struct slice topic, struct frequency rate);
bool quota_topic_take(struct quota *quota, struct slice topic, int64_t now_ns, int64_t *wait_ns);
/* Returns true if a topic has a rate. */
bool quota_has_topics(const struct quota *quota);

/* Returns true if a limit currently applies to pushes of all callers: the memory limit, or the rate
 * of a topic. */
bool quota_limits_pushes(const struct quota *quota);

/* ---- what was refused ---- */

void quota_refused(struct quota *quota, enum quota_limit limit);
uint64_t quota_refusals(const struct quota *quota, enum quota_limit limit);
void quota_emit_metrics(struct quota *quota, struct metric_page *page);
extern const struct metric quota_metrics[];

#endif
