/*
 * flow: limits and fairness of the deliveries of a topic. The rules that all stores follow: a store in C calls these functions, and the
 * others repeat them in their language, checked by the same cases. Pure.
 *
 * A group is a name that a push gives its job: a tenant, a customer, an endpoint. Jobs without a group form one group with an empty
 * name. Among the groups of a topic with a ready job of the first priority, the next job comes from the one with the lowest load
 * (jobs in flight per weight), then the lowest pass (deliveries per weight), then the earliest first job. This is start-time
 * fair queueing (Goyal, Vin and Cheng, 1996) with the number in flight before the virtual time.
 *
 * A rate is enforced by the generic cell rate algorithm (ITU-T I.371): a bucket is one time, its `full_us`, at which it has all tokens
 * again. In any window of the length of the period, at most count + burst - 1 jobs are delivered.
 *
 * A take of one job by its id ignores limits and order. Its lease is in flight as any other, but it needs no token, does not spend
 * one, and does not change a pass: however many jobs are taken by their ids, no other job waits longer for a token.
 */
#ifndef TARRY_JOB_FLOW_H
#define TARRY_JOB_FLOW_H

#include "base/frequency.h"
#include "base/hash.h"
#include "job/limits.h"

enum {
    FLOW_STEP = 10000,         /* what a delivery adds to the pass of a group of weight 1 */
    GROUP_SETTINGS_MAX = 10000 /* groups of a topic with settings of their own */
};

/* Zeroed: no limits. */
struct flow_limits {
    uint32_t limit; /* leases at a time; 0: no limit */
    struct frequency rate;
    uint32_t burst; /* 0: flow_burst computes it from the rate */
};

/*
 * The order within a group. FLOW_STRICT: the jobs of a group have places, by priority, then due, then push order, and
 * - at most one job of the group is leased at a time, and while one is leased, no other is delivered;
 * - a job that was delivered and has not ended (acked, dead, cancelled, expired) keeps its place before all others: while it waits for
 *   its retry, whatever its new due and priority are, no other job of the group is delivered (flow_waits_in_order);
 * - a returned job whose first attempt it was has its old place again, or that of its new due if it was returned with a delay;
 * - a job that is not due yet has no place and holds nothing. `again`, a redrive and a push that replaces a job make a new job, which has
 *   a new place; a reschedule of a job that was not tried moves it;
 * - a take by id ignores the order, but its lease holds the group.
 * Jobs without a group are one group. group_order can be changed only while no job of the topic waits or is leased.
 */
enum flow_order { FLOW_FREE = 0, FLOW_STRICT };

/* Part of the settings of a topic. Zeroed: nothing set. */
struct topic_flow {
    struct flow_limits topic; /* limit, rate, burst */
    struct flow_limits group; /* group_limit, group_rate, group_burst: of each group */
    uint64_t
        group_max_jobs; /* new jobs of a group are refused while it has this many; 0: no limit */
    enum flow_order group_order;
    bool one_shard;
};

/* The settings of one group. Zeroed: those of its topic, and weight 1. */
struct group_settings {
    uint32_t weight; /* 1 to GROUP_WEIGHT_MAX; 0: 1 */
    struct flow_limits
        limits;        /* a field of 0: group_limit, group_rate or group_burst of the topic */
    uint64_t max_jobs; /* 0: group_max_jobs of the topic */
    bool paused;
    int64_t paused_until_ms; /* wall clock; 0: not paused, or until resumed */
};

/* Why a ready job is not delivered. */
enum flow_held {
    FLOW_NOT_HELD = 0,
    FLOW_HELD_LIMIT,
    FLOW_HELD_RATE,
    FLOW_HELD_GROUP_LIMIT,
    FLOW_HELD_GROUP_RATE,
    FLOW_HELD_GROUP_PAUSED,
    FLOW_HELD_GROUP_ORDER,
    FLOW_HELD_HOLD,
    FLOW_HELD_REASONS /* number of reasons, with none */
};

/* Returns "limit", "rate", "group_limit", "group_rate", "group_paused", "group_order" or "hold"; "": not held. */
const char *flow_held_name(enum flow_held held);

/* Returns whether a name of a group is valid: 1 to 64 printable ASCII characters without blanks. */
bool flow_group_is_valid(struct slice group);

/* Returns 24 bits that stand for a group where its name does not fit; 0: no group. Two groups of a topic have the same mark
 * once in 16 million pairs. The seed is that of the data directory, so a caller cannot choose names with the same mark. */
uint32_t flow_group_mark(struct slice topic, struct slice group, uint64_t seed);

/* Return the name of the first member that is out of its range (job/limits.h), or NULL. */
const char *topic_flow_fault(const struct topic_flow *flow);
const char *group_settings_fault(const struct group_settings *settings);

bool topic_flow_equal(const struct topic_flow *a, const struct topic_flow *b);

/* Returns whether all jobs of the topic are in one shard, its home: one_shard is set, or the order is strict, which holds only there. */
static inline bool flow_is_one_shard(const struct topic_flow *flow)
{
    return flow->one_shard || flow->group_order == FLOW_STRICT;
}

/* Returns whether the name of a topic keeps all its jobs in one shard, on stores that find the shard of a job by names alone: it ends in
 * ".one", or in ".fifo" as the FIFO queues of SQS. */
bool flow_name_is_one_shard(struct slice topic);

/* Returns whether any setting of the flow of a topic is set. */
bool topic_flow_is_set(const struct topic_flow *flow);

/* Returns the microseconds between two deliveries at a rate, rounded up; 0: no rate. */
static inline int64_t flow_interval_us(struct frequency rate)
{
    if (!rate.count)
        return 0;
    int64_t unit_us = frequency_unit_ms(rate.unit) * 1000;
    return (unit_us + rate.count - 1) / rate.count;
}

/* Returns the burst of limits with a rate. If it is not set, it is what the rate delivers in 10 ms, at least 1: a server
 * wakes up no more often than once in a millisecond, and a burst of 1 would lose what it sleeps through. */
static inline uint32_t flow_burst(const struct flow_limits *limits)
{
    if (limits->burst)
        return limits->burst;
    int64_t interval_us = flow_interval_us(limits->rate);
    return interval_us && interval_us < 10000 ? (uint32_t)(10000 / interval_us) : 1;
}

/* Returns the first time at which a bucket has a token. */
static inline int64_t flow_token_us(int64_t full_us, int64_t interval_us, uint32_t burst)
{
    return full_us - (int64_t)(burst - 1) * interval_us;
}

/* Returns the bucket after a delivery. */
static inline int64_t flow_spend(int64_t full_us, int64_t now_us, int64_t interval_us)
{
    return (full_us > now_us ? full_us : now_us) + interval_us;
}

/* Returns the bucket after its rate or burst was changed: it owes no more than a burst at the new rate. */
static inline int64_t flow_fit(int64_t full_us, int64_t now_us, int64_t interval_us, uint32_t burst)
{
    int64_t most_us = now_us + (int64_t)burst * interval_us;
    return full_us < most_us ? full_us : most_us;
}

/* Returns whether no job of a strict group may be delivered. tried: its jobs that wait, ready or not, after an attempt;
 * a ready one of them is the first of the group. */
static inline bool flow_waits_in_order(uint64_t leased, uint64_t tried, bool first_is_tried)
{
    return leased || (tried && !first_is_tried);
}

static inline uint32_t flow_weight(const struct group_settings *settings)
{
    return settings->weight ? settings->weight : 1;
}

/* Returns the load of a group. */
static inline uint64_t flow_load(uint64_t in_flight, uint32_t weight)
{
    return in_flight * FLOW_STEP / weight;
}

/* Returns what a delivery adds to the pass of a group. */
static inline uint64_t flow_step(uint32_t weight)
{
    return FLOW_STEP / weight;
}

/* Returns the limits of a group in force: its own, else those of its topic. */
static inline struct flow_limits flow_group_limits(const struct topic_flow *flow,
                                                   const struct group_settings *settings)
{
    struct flow_limits limits = flow->group;
    if (settings->limits.limit)
        limits.limit = settings->limits.limit;
    if (settings->limits.rate.count) {
        limits.rate = settings->limits.rate;
        limits.burst = 0;
    }
    if (settings->limits.burst)
        limits.burst = settings->limits.burst;
    return limits;
}

/* Returns the share of one of several shards of a limit, rounded up; 0: no limit. */
static inline uint64_t flow_share(uint64_t limit, uint32_t shards)
{
    return (limit + shards - 1) / shards;
}

/* Returns the rate of one of several shards, rounded up. */
static inline struct frequency flow_rate_share(struct frequency rate, uint32_t shards)
{
    rate.count = (uint32_t)flow_share(rate.count, shards);
    return rate;
}

#endif
