#include "job/flow.h"

static const char *const names[] = {
    [FLOW_NOT_HELD] = "",
    [FLOW_HELD_LIMIT] = "limit",
    [FLOW_HELD_RATE] = "rate",
    [FLOW_HELD_GROUP_LIMIT] = "group_limit",
    [FLOW_HELD_GROUP_RATE] = "group_rate",
    [FLOW_HELD_GROUP_PAUSED] = "group_paused",
    [FLOW_HELD_GROUP_ORDER] = "group_order",
    [FLOW_HELD_HOLD] = "hold",
};
_Static_assert(sizeof names / sizeof names[0] == FLOW_HELD_REASONS, "every reason has its name");

const char *flow_held_name(enum flow_held held)
{
    return names[held];
}

uint32_t flow_group_mark(struct slice topic, struct slice group, uint64_t seed)
{
    if (!group.len)
        return 0;
    uint32_t mark = (uint32_t)(hash_pair(topic, group, seed).low >> 40);
    return mark ? mark : 1;
}

bool flow_group_is_valid(struct slice group)
{
    if (group.len == 0 || group.len > JOB_GROUP_BYTES_MAX)
        return false;
    for (size_t i = 0; i < group.len; i++)
        if (group.at[i] < 0x21 || group.at[i] > 0x7e)
            return false;
    return true;
}

static bool is_in_range(enum job_limit_id id, uint64_t value)
{
    return value <= INT64_MAX && job_limit_holds_or_unset(id, (int64_t)value);
}

/* Returns the name of the first bad member. A burst needs a rate unless the rate may be that of the topic. */
static const char *limits_fault(const struct flow_limits *limits, enum job_limit_id limit,
                                const char *rate, enum job_limit_id burst, bool may_lack_rate)
{
    if (!is_in_range(limit, limits->limit))
        return job_limits[limit].option;
    if (!frequency_is_valid(limits->rate))
        return rate;
    if (!is_in_range(burst, limits->burst) ||
        (limits->burst && !limits->rate.count && !may_lack_rate))
        return job_limits[burst].option;
    return NULL;
}

const char *topic_flow_fault(const struct topic_flow *flow)
{
    const char *bad = limits_fault(&flow->topic, LIMIT_LIMIT, "rate", LIMIT_BURST, false);
    if (!bad)
        bad = limits_fault(&flow->group, LIMIT_GROUP_LIMIT, "group_rate", LIMIT_GROUP_BURST, false);
    if (!bad && !is_in_range(LIMIT_GROUP_MAX_JOBS, flow->group_max_jobs))
        bad = job_limits[LIMIT_GROUP_MAX_JOBS].option;
    return !bad && flow->group_order > FLOW_STRICT ? "group_order" : bad;
}

const char *group_settings_fault(const struct group_settings *settings)
{
    if (!is_in_range(LIMIT_WEIGHT, settings->weight))
        return job_limits[LIMIT_WEIGHT].option;
    const char *bad = limits_fault(&settings->limits, LIMIT_LIMIT, "rate", LIMIT_BURST, true);
    if (!bad && !is_in_range(LIMIT_MAX_JOBS, settings->max_jobs))
        bad = job_limits[LIMIT_MAX_JOBS].option;
    if (!bad && settings->paused_until_ms &&
        (!settings->paused || !job_limit_holds(LIMIT_AT, settings->paused_until_ms)))
        bad = "paused_until";
    return bad;
}

static bool limits_equal(const struct flow_limits *a, const struct flow_limits *b)
{
    return a->limit == b->limit && frequency_equal(a->rate, b->rate) && a->burst == b->burst;
}

bool topic_flow_equal(const struct topic_flow *a, const struct topic_flow *b)
{
    return limits_equal(&a->topic, &b->topic) && limits_equal(&a->group, &b->group) &&
           a->group_max_jobs == b->group_max_jobs && a->group_order == b->group_order &&
           a->one_shard == b->one_shard;
}

static bool ends_in(struct slice name, struct slice end)
{
    return name.len > end.len && memcmp(name.at + name.len - end.len, end.at, end.len) == 0;
}

bool flow_name_is_one_shard(struct slice topic)
{
    return ends_in(topic, slice_of(".one")) || ends_in(topic, slice_of(".fifo"));
}

bool topic_flow_is_set(const struct topic_flow *flow)
{
    return !topic_flow_equal(flow, &(struct topic_flow){0});
}
