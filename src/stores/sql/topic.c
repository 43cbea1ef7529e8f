#include "sql/topic.h"

#include <stdlib.h>

enum { FORGET_ABOVE = 10000, WAIT_MS = 10, WAIT_MS_MAX = 100 };

struct sql_topic *sql_topics_need(struct sql_topics *topics, struct slice name)
{
    struct sql_topic *topic = sql_topics_find(topics, name);
    if (topic || name.len > JOB_TOPIC_BYTES_MAX)
        return topic;
    topic = calloc(1, sizeof *topic);
    if (!topic)
        return NULL;
    memcpy(topic->name, name.at, name.len);
    topic->entry.key = slice_make(topic->name, name.len);
    topic->next_ms = topic->resume_ms = topic->at_ms = INT64_MAX;
    list_init(&topic->looks);
    sql_topics_add(topics, topic);
    return topic;
}

static void drop_all(struct sql_topics *topics, bool watched_too)
{
    struct table_entry *entry = table_first(&topics->table);
    while (entry) {
        struct sql_topic *topic = sql_topics_of(entry);
        entry = table_next(&topics->table, entry);
        if (topic->watched && !watched_too)
            continue;
        list_remove(&topic->looks);
        table_remove(&topics->table, &topic->entry);
        free(topic);
    }
}

void sql_topics_free(struct sql_topics *topics)
{
    drop_all(topics, true);
    table_fini(&topics->table);
}

void sql_topics_forget(struct sql_topics *topics)
{
    if (topics->table.count > FORGET_ABOVE)
        drop_all(topics, false);
}

/* ---- the plan ---- */

void sql_topic_plan_init(struct sql_topic_plan *plan)
{
    list_init(&plan->looks);
}

void sql_topic_plan_fini(struct sql_topic_plan *plan)
{
    sql_topic_times_fini(&plan->times);
}

static int64_t topic_at(const struct sql_topic *topic)
{
    int64_t at = topic->paused ? topic->resume_ms : topic->next_ms;
    return at < topic->hold_ms ? topic->hold_ms : at;
}

bool sql_topic_plan_watch(struct sql_topic_plan *plan, struct sql_topic *topic, bool on)
{
    if (on == topic->watched)
        return true;
    topic->at_ms = topic_at(topic);
    if (on && !sql_topic_times_add(&plan->times, topic))
        return false;
    if (!on)
        sql_topic_times_remove(&plan->times, topic->index);
    topic->watched = on;
    topic->look = topic->look && on;
    return true;
}

void sql_topic_plan_changed(struct sql_topic_plan *plan, struct sql_topic *topic)
{
    topic->at_ms = topic_at(topic);
    if (topic->watched)
        sql_topic_times_changed(&plan->times, topic->index);
}

void sql_topic_plan_look(struct sql_topic_plan *plan, struct sql_topic *topic)
{
    topic->look = topic->watched;
    if (topic->look && list_is_empty(&topic->looks))
        list_add_last(&plan->looks, &topic->looks);
}

bool sql_topic_plan_wants_look(struct sql_topic_plan *plan)
{
    struct list *at = plan->looks.next;
    while (at != &plan->looks) {
        struct sql_topic *topic = list_entry(at, struct sql_topic, looks);
        at = at->next;
        if (topic->look && topic->watched)
            return true;
        if (!topic->asked)
            list_remove(&topic->looks);
    }
    return false;
}

void sql_topic_plan_looked(struct sql_topic_plan *plan, bool is_good)
{
    struct list *at = plan->looks.next;
    while (at != &plan->looks) {
        struct sql_topic *topic = list_entry(at, struct sql_topic, looks);
        at = at->next;
        topic->look = topic->look || (topic->asked && !is_good);
        topic->asked = false;
        if (!topic->look)
            list_remove(&topic->looks);
    }
}

int64_t sql_topic_plan_next_ms(const struct sql_topic_plan *plan)
{
    return plan->times.count ? plan->times.at[0]->at_ms : INT64_MAX;
}

void sql_topic_receive(struct sql_topic *topic, int64_t due_ms)
{
    if (due_ms < topic->bound_ms)
        topic->bound_ms = due_ms;
    if (due_ms < topic->next_ms)
        topic->next_ms = due_ms;
    topic->hold_ms = topic->wait_ms = 0;
}

void sql_topic_seen(struct sql_topic *topic, int64_t next_ms, int64_t now_ms, bool took,
                    bool brought)
{
    topic->next_ms = next_ms;
    topic->bound_ms = next_ms < now_ms ? next_ms : now_ms;
    if (brought || next_ms > now_ms) {
        topic->hold_ms = topic->wait_ms = 0;
    } else if (took) {
        topic->wait_ms = topic->wait_ms ? topic->wait_ms * 2 : WAIT_MS;
        topic->wait_ms = topic->wait_ms < WAIT_MS_MAX ? topic->wait_ms : WAIT_MS_MAX;
        topic->hold_ms = now_ms + topic->wait_ms;
    }
}

/* ---- figures ---- */

void sql_steps_read(struct slice steps, struct backoff *out)
{
    if (!steps.len || !policy_parse_steps(steps, out))
        *out = (struct backoff){0};
}

/* Reads limit, rate and burst from four numbers. */
static struct flow_limits limits_of(const int64_t *at)
{
    return (struct flow_limits){.limit = (uint32_t)at[0],
                                .rate = {(uint32_t)at[1], (enum frequency_unit)at[2]},
                                .burst = (uint32_t)at[3]};
}

static struct topic_settings settings_of(const struct sql_topic_figures *figures)
{
    const int64_t *at = figures->numbers;
    struct topic_settings settings = {
        .policy = {.lease_ms = at[SQL_FIGURE_LEASE],
                   .ttl_ms = at[SQL_FIGURE_TTL],
                   .backoff = {.kind = (enum backoff_kind)at[SQL_FIGURE_BACKOFF_KIND],
                               .first_ms = at[SQL_FIGURE_BACKOFF_FIRST],
                               .max_ms = at[SQL_FIGURE_BACKOFF_MAX]},
                   .max_attempts = (uint32_t)at[SQL_FIGURE_ATTEMPTS_MAX]},
        .on_conflict = (enum record_conflict)at[SQL_FIGURE_CONFLICT],
        .has_priority = figures->has_priority,
        .priority = (uint16_t)at[SQL_FIGURE_PRIORITY],
        .dead_letter_expired = at[SQL_FIGURE_DEAD_LETTER] != 0,
        .dedup_window_ms = at[SQL_FIGURE_DEDUP],
        .history_ms = at[SQL_FIGURE_HISTORY],
        .keep_finished_ms = at[SQL_FIGURE_KEEP],
        .keep_finished_max = (uint64_t)at[SQL_FIGURE_KEEP_MAX],
        .keep_finished_bytes = (uint64_t)at[SQL_FIGURE_KEEP_BYTES],
        .keep_body = at[SQL_FIGURE_KEEP_BODY] != 0,
        .max_jobs = (uint64_t)at[SQL_FIGURE_JOBS_MAX],
        .push_rate = {.count = (uint32_t)at[SQL_FIGURE_RATE_COUNT],
                      .unit = (enum frequency_unit)at[SQL_FIGURE_RATE_UNIT]},
        .extension = figures->extension,
        .flow = {.topic = limits_of(figures->flow + SQL_FLOW_LIMIT),
                 .group = limits_of(figures->flow + SQL_FLOW_GROUP_LIMIT),
                 .group_max_jobs = (uint64_t)figures->flow[SQL_FLOW_GROUP_JOBS_MAX],
                 .group_order = (enum flow_order)figures->flow[SQL_FLOW_GROUP_ORDER],
                 .one_shard = figures->flow[SQL_FLOW_ONE_SHARD] != 0},
    };
    if (settings.policy.backoff.kind == BACKOFF_LIST)
        sql_steps_read(figures->steps, &settings.policy.backoff);
    return settings;
}

static uint64_t difference(int64_t all, int64_t part)
{
    return all > part ? (uint64_t)(all - part) : 0;
}

/* Combines the stored count of waiting jobs with the measured count of ready jobs. */
static struct queue_counts counts_of(const struct sql_topic_figures *figures)
{
    const int64_t *counts = figures->counts;
    int64_t fresh = figures->numbers[SQL_FIGURE_READY_FRESH];
    int64_t retry = figures->numbers[SQL_FIGURE_READY_RETRY];
    return (struct queue_counts){
        .delayed = difference(counts[SQL_COUNT_FRESH], fresh),
        .retrying = difference(counts[SQL_COUNT_RETRY], retry),
        .ready = (uint64_t)(fresh + retry),
        .leased = difference(counts[SQL_COUNT_LEASED], 0),
        .dead = difference(counts[SQL_COUNT_DEAD], 0),
        .dead_bytes = difference(counts[SQL_COUNT_DEAD_BYTES], 0),
        .finished = difference(counts[SQL_COUNT_KEPT], 0),
    };
}

static struct topic_totals totals_of(const int64_t counts[SQL_COUNTS])
{
    return (struct topic_totals){
        .pushed = (uint64_t)counts[SQL_COUNT_PUSHED],
        .acked = (uint64_t)counts[SQL_COUNT_ACKED],
        .cancelled = (uint64_t)counts[SQL_COUNT_CANCELLED],
        .expired = (uint64_t)counts[SQL_COUNT_EXPIRED],
        .replaced = (uint64_t)counts[SQL_COUNT_REPLACED],
        .delivered = (uint64_t)counts[SQL_COUNT_DELIVERED],
        .nacked = (uint64_t)counts[SQL_COUNT_NACKED],
        .lease_ended = (uint64_t)counts[SQL_COUNT_LEASE_ENDED],
        .died = (uint64_t)counts[SQL_COUNT_DIED],
        .redriven = (uint64_t)counts[SQL_COUNT_REDRIVEN],
    };
}

void sql_topic_figures_fill(const struct sql_topic_figures *figures, struct queue_topic *out)
{
    *out = (struct queue_topic){
        .name = figures->name,
        .paused = figures->numbers[SQL_FIGURE_PAUSED] != 0,
        .paused_until_ms = figures->numbers[SQL_FIGURE_PAUSED_UNTIL],
        .settings = settings_of(figures),
        .counts = counts_of(figures),
        .totals = totals_of(figures->counts),
        .oldest_ready_due_ms = figures->numbers[SQL_FIGURE_OLDEST],
        .groups = (uint64_t)figures->flow[SQL_FLOW_GROUPS],
    };
    for (size_t i = 1; i < FLOW_HELD_REASONS; i++) {
        out->held_by[i] = (uint64_t)figures->flow[SQL_FLOW_HELD_BY + i - 1];
        out->counts.held += out->held_by[i];
    }
}

struct queue_group sql_group_of(struct slice name, const int64_t numbers[SQL_GROUP_FIGURES])
{
    return (struct queue_group){
        .name = name,
        .has_settings = numbers[SQL_GROUP_IS_SET] != 0,
        .settings = {.weight = (uint32_t)numbers[SQL_GROUP_WEIGHT],
                     .limits = {.limit = (uint32_t)numbers[SQL_GROUP_LIMIT],
                                .rate = {(uint32_t)numbers[SQL_GROUP_RATE_COUNT],
                                         (enum frequency_unit)numbers[SQL_GROUP_RATE_UNIT]},
                                .burst = (uint32_t)numbers[SQL_GROUP_BURST]},
                     .max_jobs = (uint64_t)numbers[SQL_GROUP_JOBS_MAX],
                     .paused = numbers[SQL_GROUP_PAUSED] != 0,
                     .paused_until_ms = numbers[SQL_GROUP_PAUSED_UNTIL]},
        .ready = (uint64_t)numbers[SQL_GROUP_READY],
        .leased = (uint64_t)numbers[SQL_GROUP_LEASED],
        .held_by = (enum flow_held)numbers[SQL_GROUP_HELD_BY],
        .held_until_ms = numbers[SQL_GROUP_HELD_UNTIL],
        .oldest_ready_due_ms = numbers[SQL_GROUP_OLDEST],
    };
}
