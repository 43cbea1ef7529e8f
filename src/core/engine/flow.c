#include "engine/flow.h"

#include "engine/state.h"

#include <assert.h>
#include <stdlib.h>

static const struct group_settings no_settings;

struct group *flow_group_at(const struct engine *engine, uint32_t number)
{
    return slab_at(&engine->flows->groups, number);
}

static const struct group_settings *group_settings_of(const struct group *group)
{
    return group->settings ? group->settings : &no_settings;
}

static struct slice group_name(const struct group *group)
{
    return slice_make(group->name, group->name_bytes);
}

struct slice flow_group_name(const struct engine *engine, uint32_t number)
{
    return group_name(flow_group_at(engine, number));
}

/* ---- the table of groups by topic and name ---- */

static uint32_t *table_chain(const struct flows *flows, uint32_t topic, struct slice name)
{
    uint64_t hash = hash_64(name.at, name.len) + topic * UINT64_C(0x9e3779b97f4a7c15);
    return &flows->table[(hash ^ hash >> 32) & (flows->table_size - 1)];
}

static uint32_t table_find(const struct engine *engine, uint32_t topic, struct slice name)
{
    const struct flows *flows = engine->flows;
    if (!flows || !flows->table_size)
        return 0;
    for (uint32_t at = *table_chain(flows, topic, name); at; at = flow_group_at(engine, at)->next) {
        const struct group *group = flow_group_at(engine, at);
        if (group->topic == topic && slice_equals(group_name(group), name))
            return at;
    }
    return 0;
}

static void table_add(struct engine *engine, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    uint32_t *chain = table_chain(engine->flows, group->topic, group_name(group));
    group->next = *chain;
    *chain = number;
}

static void table_remove(struct engine *engine, uint32_t number)
{
    const struct group *group = flow_group_at(engine, number);
    uint32_t *at = table_chain(engine->flows, group->topic, group_name(group));
    while (*at != number)
        at = &flow_group_at(engine, *at)->next;
    *at = group->next;
    engine->flows->named--;
}

/* Reserves room for one more group, without chains that grow long. */
static bool table_reserve(struct engine *engine)
{
    struct flows *flows = engine->flows;
    if (flows->named < flows->table_size)
        return true;
    uint32_t old_size = flows->table_size, *old = flows->table;
    uint32_t size = old_size ? old_size * 2 : 64;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    flows->table = table;
    flows->table_size = size;
    for (uint32_t i = 0; i < old_size; i++)
        for (uint32_t at = old[i], next; at; at = next) {
            next = flow_group_at(engine, at)->next;
            table_add(engine, at);
        }
    free(old);
    return true;
}

/* ---- the list of the groups of a topic: first those with settings ---- */

static bool list_reserve(struct flow *flow)
{
    if (flow->group_count < flow->group_cap)
        return true;
    uint32_t cap = flow->group_cap ? flow->group_cap * 2 : 4;
    uint32_t *groups = realloc(flow->groups, cap * sizeof *groups);
    if (!groups)
        return false;
    flow->groups = groups;
    uint32_t *runnable = realloc(flow->runnable, cap * sizeof *runnable);
    if (!runnable)
        return false;
    flow->runnable = runnable;
    flow->group_cap = cap;
    return true;
}

static void list_put(struct engine *engine, struct flow *flow, uint32_t at, uint32_t number)
{
    flow->groups[at] = number;
    flow_group_at(engine, number)->list_at = at;
}

static void list_swap(struct engine *engine, struct flow *flow, uint32_t a, uint32_t b)
{
    uint32_t number = flow->groups[a];
    list_put(engine, flow, a, flow->groups[b]);
    list_put(engine, flow, b, number);
}

/* ---- why a group may not deliver ---- */

uint32_t flow_topic_shares(const struct engine *engine, const struct topic *topic)
{
    return flow_is_one_shard(&topic->settings.flow) ? 1 : engine->shards;
}

/* Returns the share of this shard in the limits of a group, or of the topic. */
static struct flow_limits limits_of(const struct engine *engine, const struct topic *topic,
                                    const struct group *group)
{
    uint32_t shares = flow_topic_shares(engine, topic);
    struct flow_limits limits =
        group->is_topic ? topic->settings.flow.topic
                        : flow_group_limits(&topic->settings.flow, group_settings_of(group));
    if (__builtin_expect(shares > 1, 0)) {
        limits.limit = (uint32_t)flow_share(limits.limit, shares);
        limits.rate = flow_rate_share(limits.rate, shares);
    }
    return limits;
}

static int64_t ms_of_us(int64_t us)
{
    return (us + 999) / 1000;
}

/* Returns whether an earlier job of a group of a strict topic has not ended, so none of its ready jobs may be delivered. */
static bool group_waits_in_order(const struct topic *topic, const struct group *group)
{
    if (topic->settings.flow.group_order != FLOW_STRICT || group->is_topic)
        return false;
    bool first_is_tried = group->ready.count && group->ready.items[0].is_tried;
    return flow_waits_in_order(group->leased, group->tried, first_is_tried);
}

/* Returns what holds a group, or the topic. *until_ms: inner clock; 0: unknown. */
static enum flow_held group_held(const struct engine *engine, const struct topic *topic,
                                 const struct group *group, int64_t now_ms, int64_t *until_ms)
{
    const struct group_settings *settings = group_settings_of(group);
    const struct flow_limits limits = limits_of(engine, topic, group);
    uint64_t leased = group->is_topic ? topic->counts.leased : group->leased;
    *until_ms = 0;
    if (settings->paused && (!settings->paused_until_ms || settings->paused_until_ms > now_ms)) {
        *until_ms = settings->paused_until_ms;
        return FLOW_HELD_GROUP_PAUSED;
    }
    if (group->hold_until_ms > now_ms) {
        *until_ms = group->hold_until_ms;
        return FLOW_HELD_HOLD;
    }
    if (group_waits_in_order(topic, group))
        return FLOW_HELD_GROUP_ORDER;
    if (limits.limit && leased >= limits.limit)
        return group->is_topic ? FLOW_HELD_LIMIT : FLOW_HELD_GROUP_LIMIT;
    if (limits.rate.count) {
        int64_t token_us =
            flow_token_us(group->full_us, flow_interval_us(limits.rate), flow_burst(&limits));
        if (token_us > now_ms * 1000) {
            *until_ms = ms_of_us(token_us);
            return group->is_topic ? FLOW_HELD_RATE : FLOW_HELD_GROUP_RATE;
        }
    }
    return FLOW_NOT_HELD;
}

/* ---- the groups that may deliver: a binary heap ---- */

static bool group_comes_before(const struct group *a, const struct group *b)
{
    const struct ready_item *first_a = &a->ready.items[0], *first_b = &b->ready.items[0];
    if (first_a->priority != first_b->priority)
        return first_a->priority < first_b->priority;
    uint64_t load_a = flow_load(a->leased, flow_weight(group_settings_of(a)));
    uint64_t load_b = flow_load(b->leased, flow_weight(group_settings_of(b)));
    if (load_a != load_b)
        return load_a < load_b;
    if (a->pass != b->pass)
        return a->pass < b->pass;
    return ready_comes_before(first_a, first_b);
}

static void runnable_put(const struct engine *engine, struct flow *flow, uint32_t at,
                         uint32_t number)
{
    flow->runnable[at] = number;
    flow_group_at(engine, number)->runnable_at = at + 1;
}

/* Moves a group to its place, from a place in the heap. */
static void runnable_sift(const struct engine *engine, struct flow *flow, uint32_t at,
                          uint32_t number)
{
    const struct group *group = flow_group_at(engine, number);
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!group_comes_before(group, flow_group_at(engine, flow->runnable[parent])))
            break;
        runnable_put(engine, flow, at, flow->runnable[parent]);
        at = parent;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= flow->runnable_count)
            break;
        if (child + 1 < flow->runnable_count &&
            group_comes_before(flow_group_at(engine, flow->runnable[child + 1]),
                               flow_group_at(engine, flow->runnable[child])))
            child++;
        if (!group_comes_before(flow_group_at(engine, flow->runnable[child]), group))
            break;
        runnable_put(engine, flow, at, flow->runnable[child]);
        at = child;
    }
    runnable_put(engine, flow, at, number);
}

static void runnable_add(const struct engine *engine, struct flow *flow, uint32_t number)
{
    assert(flow->runnable_count < flow->group_cap);
    runnable_sift(engine, flow, flow->runnable_count++, number);
}

static void runnable_remove(const struct engine *engine, struct flow *flow, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    uint32_t at = group->runnable_at - 1, last = flow->runnable[--flow->runnable_count];
    group->runnable_at = 0;
    if (last != number)
        runnable_sift(engine, flow, at, last);
}

/* ---- timers ---- */

/* Has the group checked at this time; 0: not. */
static void group_wake_at(struct engine *engine, uint32_t number, int64_t when_ms)
{
    const struct group *group = flow_group_at(engine, number);
    if (group->timer.place && (int64_t)group->timer.when_ms == when_ms)
        return;
    wheel_remove(&engine->flows->wheel, number);
    if (when_ms)
        wheel_add(&engine->flows->wheel, number, when_ms);
}

/* ---- making and freeing ---- */

static uint32_t group_new(struct engine *engine, uint32_t topic)
{
    uint32_t number = slab_add(&engine->flows->groups);
    if (number)
        *flow_group_at(engine, number) = (struct group){.topic = topic};
    return number;
}

static void group_free(struct engine *engine, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    wheel_remove(&engine->flows->wheel, number);
    if (group->name)
        table_remove(engine, number);
    free(group->name);
    free(group->settings);
    free(group->ready.items);
    slab_remove(&engine->flows->groups, number);
}

static bool flows_need(struct engine *engine)
{
    if (engine->flows)
        return true;
    struct flows *flows = calloc(1, sizeof *flows);
    if (!flows)
        return false;
    slab_init(&flows->groups, sizeof(struct group));
    int64_t now_ms = engine->recovering ? engine->recovery.inner_ms : engine->wheel.now_ms;
    wheel_init(&flows->wheel, &flows->groups, now_ms);
    engine->flows = flows;
    if (engine->flow_now_ms < now_ms)
        engine->flow_now_ms = now_ms;
    return true;
}

/* Makes the flow of a topic. False: out of memory. */
static bool flow_need(struct engine *engine, struct topic *topic)
{
    if (topic->flow)
        return true;
    struct flow *flow = calloc(1, sizeof *flow);
    if (flow && flows_need(engine) && list_reserve(flow) &&
        (flow->own = group_new(engine, topic->id))) {
        if ((flow->none = group_new(engine, topic->id))) {
            flow_group_at(engine, flow->own)->is_topic = true;
            flow_group_at(engine, flow->none)->waiting = (uint32_t)topic->waiting;
            flow_group_at(engine, flow->none)->unfinished =
                (uint32_t)(topic->counts.delayed + topic->counts.retrying + topic->counts.ready +
                           topic->counts.leased);
            list_put(engine, flow, flow->group_count++, flow->none);
            topic->flow = flow;
            flow->is_open = topic->ready.count && !topic->paused;
            return true;
        }
        group_free(engine, flow->own);
    }
    if (flow) {
        free(flow->groups);
        free(flow->runnable);
    }
    free(flow);
    return false;
}

void flow_free(struct engine *engine, struct topic *topic)
{
    struct flow *flow = topic->flow;
    if (!flow)
        return;
    for (uint32_t i = 0; i < flow->group_count; i++)
        group_free(engine, flow->groups[i]);
    group_free(engine, flow->own);
    free(flow->groups);
    free(flow->runnable);
    free(flow);
    topic->flow = NULL;
}

void flows_free(struct engine *engine)
{
    if (!engine->flows)
        return;
    slab_fini(&engine->flows->groups);
    free(engine->flows->table);
    free(engine->flows);
}

/* ---- following changes ---- */

/* Frees a group that nothing needs, or has it checked when its bucket and its hold allow that. Returns whether it was freed. */
static bool group_release(struct engine *engine, struct flow *flow, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    int64_t until_ms = ms_of_us(group->full_us);
    if (until_ms < group->hold_until_ms)
        until_ms = group->hold_until_ms;
    if (group->jobs || group->settings || group->is_topic || number == flow->none)
        return false;
    if (until_ms > engine->flow_now_ms) {
        group_wake_at(engine, number, until_ms);
        return false;
    }
    assert(!group->leased && !group->ready.count && !group->runnable_at);
    list_swap(engine, flow, group->list_at, flow->group_count - 1);
    flow->group_count--;
    group_free(engine, number);
    return true;
}

/* Counts the group and its ready jobs by what holds them. */
static void group_count(struct flow *flow, struct group *group, enum flow_held held)
{
    bool is_active = group->ready.count || group->leased;
    flow->active = flow->active + is_active - group->is_active;
    group->is_active = is_active;
    flow->ready_by[group->held] -= group->ready.count;
    flow->ready_by[held] += group->ready.count;
    group->held = (uint8_t)held;
}

/* Puts the group among those that may deliver, or removes it, after any change of it. */
static void group_settle(struct engine *engine, struct topic *topic, uint32_t number)
{
    struct flow *flow = topic->flow;
    struct group *group = flow_group_at(engine, number);
    int64_t until_ms = 0;
    enum flow_held held = group->ready.count
                              ? group_held(engine, topic, group, engine->flow_now_ms, &until_ms)
                              : FLOW_NOT_HELD;
    group_count(flow, group, held);
    if (!group->ready.count) {
        if (group->runnable_at)
            runnable_remove(engine, flow, number);
        if (group_release(engine, flow, number) || group->timer.place)
            return;
    } else if (held) {
        if (group->runnable_at)
            runnable_remove(engine, flow, number);
    } else if (group->runnable_at) {
        runnable_sift(engine, flow, group->runnable_at - 1, number);
    } else {
        runnable_add(engine, flow, number);
    }
    if (until_ms || group->timer.place)
        group_wake_at(engine, number, until_ms);
}

/* Finds out whether a job of the topic can be taken, after any change, and reports it. */
static void topic_settle(struct engine *engine, struct topic *topic)
{
    struct flow *flow = topic->flow;
    bool has_jobs = flow->is_grouped ? flow->runnable_count : topic->ready.count;
    int64_t until_ms;
    flow->held = (uint8_t)group_held(engine, topic, flow_group_at(engine, flow->own),
                                     engine->flow_now_ms, &until_ms);
    bool was_open = flow->is_open;
    flow->is_open = has_jobs && !flow->held && !topic->paused;
    group_wake_at(engine, flow->own, has_jobs && flow->held ? until_ms : 0);
    if (flow->is_open && !was_open && topic->exists && !engine->recovering)
        engine->sink.ready(engine->sink.ctx, topic->name);
}

static uint32_t number_in(const struct flow *flow, uint32_t number)
{
    return number ? number : flow->none;
}

void flow_settle(struct engine *engine, struct topic *topic, uint32_t number)
{
    if (topic->flow->is_grouped)
        group_settle(engine, topic, number_in(topic->flow, number));
    topic_settle(engine, topic);
}

static void settle_unless_busy(struct engine *engine, struct topic *topic, uint32_t number)
{
    if (!engine->flow_is_busy)
        flow_settle(engine, topic, number);
}

/* Gives the jobs without a group their own heap, when the topic gets its first group. */
static void flow_begin_groups(struct engine *engine, struct topic *topic)
{
    struct flow *flow = topic->flow;
    if (flow->is_grouped)
        return;
    struct group *none = flow_group_at(engine, flow->none);
    flow->is_grouped = true;
    none->ready = topic->ready;
    none->leased = (uint32_t)topic->counts.leased;
    none->tried = (uint32_t)topic->counts.retrying;
    for (uint32_t i = 0; i < none->ready.count; i++)
        none->tried += entry_attempt(engine, entry_at(engine, none->ready.items[i].id)) != 0;
    topic->ready = (struct ready_heap){0};
    flow->ready = none->ready.count;
    flow->ready_by[none->held] = none->ready.count;
    settle_unless_busy(engine, topic, 0);
}

/* Finds or makes a group. 0: out of memory. */
static uint32_t group_need(struct engine *engine, struct topic *topic, struct slice name)
{
    if (!flow_need(engine, topic))
        return 0;
    flow_begin_groups(engine, topic);
    struct flow *flow = topic->flow;
    uint32_t number = name.len ? table_find(engine, topic->id, name) : flow->none;
    if (number)
        return number;
    char *copy = malloc(name.len);
    if (!copy || !list_reserve(flow) || !table_reserve(engine) ||
        !(number = group_new(engine, topic->id))) {
        free(copy);
        return 0;
    }
    struct group *group = flow_group_at(engine, number);
    memcpy(copy, name.at, name.len);
    group->name = copy;
    group->name_bytes = (uint8_t)name.len;
    list_put(engine, flow, flow->group_count++, number);
    table_add(engine, number);
    engine->flows->named++;
    return number;
}

uint32_t flow_group_hold(struct engine *engine, struct topic *topic, struct slice name)
{
    uint32_t number = group_need(engine, topic, name);
    if (number)
        flow_group_at(engine, number)->jobs++;
    return number;
}

void flow_group_drop(struct engine *engine, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    assert(group->jobs);
    if (!--group->jobs && !group->ready.count)
        group_release(engine, engine->topics[group->topic]->flow, number);
}

/* ---- jobs ---- */

struct ready_heap *flow_heap(struct engine *engine, struct topic *topic, uint32_t number)
{
    struct flow *flow = topic->flow;
    return flow->is_grouped ? &flow_group_at(engine, number_in(flow, number))->ready
                            : &topic->ready;
}

void flow_ready_added(struct engine *engine, struct topic *topic, uint32_t number)
{
    struct flow *flow = topic->flow;
    if (flow->is_grouped) {
        struct group *group = flow_group_at(engine, number_in(flow, number));
        flow->ready++;
        flow->ready_by[group->held]++;
        if (group->ready.count == 1 && group->pass < flow->pass)
            group->pass = flow->pass;
    }
    settle_unless_busy(engine, topic, number);
}

void flow_ready_removed(struct engine *engine, struct topic *topic, uint32_t number)
{
    struct flow *flow = topic->flow;
    if (flow->is_grouped) {
        flow->ready--;
        flow->ready_by[flow_group_at(engine, number_in(flow, number))->held]--;
    }
    settle_unless_busy(engine, topic, number);
}

void flow_leased(struct engine *engine, struct topic *topic, uint32_t number, bool begins)
{
    struct flow *flow = topic->flow;
    if (flow->is_grouped) {
        struct group *group = flow_group_at(engine, number_in(flow, number));
        assert(begins || group->leased);
        group->leased = begins ? group->leased + 1 : group->leased - 1;
    }
    settle_unless_busy(engine, topic, number);
}

void flow_waits(struct engine *engine, struct topic *topic, uint32_t number, bool begins)
{
    struct group *group = flow_group_at(engine, number_in(topic->flow, number));
    assert(begins || group->waiting);
    group->waiting = begins ? group->waiting + 1 : group->waiting - 1;
}

bool flow_waiting_next(const struct engine *engine, const struct topic *topic, uint32_t *at,
                       struct slice *group, uint64_t *waiting)
{
    const struct flow *flow = topic->flow;
    *group = (struct slice){0};
    *waiting = topic->waiting;
    if (!flow)
        return !(*at)++ && topic->waiting;
    while (*at < flow->group_count) {
        const struct group *next = flow_group_at(engine, flow->groups[(*at)++]);
        *group = group_name(next);
        *waiting = next->waiting;
        if (next->waiting)
            return true;
    }
    return false;
}

void flow_tried(struct engine *engine, struct topic *topic, uint32_t number, bool begins)
{
    struct flow *flow = topic->flow;
    if (!flow->is_grouped)
        return;
    struct group *group = flow_group_at(engine, number_in(flow, number));
    assert(begins || group->tried);
    group->tried = begins ? group->tried + 1 : group->tried - 1;
    settle_unless_busy(engine, topic, number);
}

void flow_unfinished(struct engine *engine, struct topic *topic, uint32_t number, bool begins)
{
    struct group *group = flow_group_at(engine, number_in(topic->flow, number));
    assert(begins || group->unfinished);
    group->unfinished = begins ? group->unfinished + 1 : group->unfinished - 1;
}

bool flow_group_is_full(const struct engine *engine, const struct topic *topic, struct slice name)
{
    uint32_t number = name.len ? table_find(engine, topic->id, name) : topic->flow->none;
    const struct group *group = number ? flow_group_at(engine, number) : NULL;
    uint64_t max_jobs = group ? group_settings_of(group)->max_jobs : 0;
    if (!max_jobs)
        max_jobs = topic->settings.flow.group_max_jobs;
    return group && max_jobs &&
           group->unfinished >= flow_share(max_jobs, flow_topic_shares(engine, topic));
}

/* Takes a token from a bucket, if it has a rate. */
static void group_spend(const struct engine *engine, const struct topic *topic, struct group *group,
                        struct engine_now now)
{
    const struct flow_limits limits = limits_of(engine, topic, group);
    if (limits.rate.count)
        group->full_us =
            flow_spend(group->full_us, now.inner_ms * 1000, flow_interval_us(limits.rate));
}

void flow_delivered(struct engine *engine, struct topic *topic, uint32_t number,
                    struct engine_now now)
{
    struct flow *flow = topic->flow;
    group_spend(engine, topic, flow_group_at(engine, flow->own), now);
    if (!flow->is_grouped)
        return;
    struct group *group = flow_group_at(engine, number_in(flow, number));
    flow->pass = group->pass;
    group->pass += flow_step(flow_weight(group_settings_of(group)));
    group_spend(engine, topic, group, now);
}

static void follow_time(struct engine *engine, struct engine_now now)
{
    if (engine->flow_now_ms < now.inner_ms)
        engine->flow_now_ms = now.inner_ms;
}

const struct ready_item *flow_first(struct engine *engine, struct topic *topic,
                                    struct engine_now now)
{
    struct flow *flow = topic->flow;
    if (!flow)
        return topic->ready.count && !topic->paused ? topic->ready.items : NULL;
    if (flow_next_ms(engine) <= now.inner_ms)
        (void)flow_advance(engine, now, SIZE_MAX);
    follow_time(engine, now);
    topic_settle(engine, topic);
    if (!flow->is_open)
        return NULL;
    return flow->is_grouped ? flow_group_at(engine, flow->runnable[0])->ready.items
                            : topic->ready.items;
}

const struct ready_item *flow_any(const struct engine *engine, const struct topic *topic)
{
    const struct flow *flow = topic->flow;
    if (!flow || !flow->is_grouped)
        return topic->ready.count ? topic->ready.items : NULL;
    if (flow->runnable_count)
        return flow_group_at(engine, flow->runnable[0])->ready.items;
    for (uint32_t i = 0; flow->ready && i < flow->group_count; i++)
        if (flow_group_at(engine, flow->groups[i])->ready.count)
            return flow_group_at(engine, flow->groups[i])->ready.items;
    return NULL;
}

bool flow_hold(struct engine *engine, struct topic *topic, uint32_t number, int64_t hold_ms,
               struct engine_now now)
{
    if (!flow_need(engine, topic))
        return false;
    struct group *group = flow_group_at(engine, number ? number : topic->flow->own);
    const int64_t until_ms = now.inner_ms + 1 + hold_ms; /* rounded up, as due times are */
    if (group->hold_until_ms < until_ms)
        group->hold_until_ms = until_ms;
    flow_settle(engine, topic, number);
    return true;
}

void flow_end_hold(struct engine *engine, struct topic *topic)
{
    flow_group_at(engine, topic->flow->own)->hold_until_ms = 0;
    topic_settle(engine, topic);
}

void flow_show(const struct topic *topic, struct queue_topic *out)
{
    const struct flow *flow = topic->flow;
    out->groups = flow->active;
    if (flow->held) /* also cold jobs */
        out->held_by[flow->held] = out->counts.ready;
    for (size_t i = 1; i < FLOW_HELD_REASONS; i++) {
        if (!flow->held)
            out->held_by[i] = flow->ready_by[i];
        out->counts.held += out->held_by[i];
    }
}

uint64_t flow_ready_count(const struct topic *topic)
{
    return topic->flow && topic->flow->is_grouped ? topic->flow->ready : topic->ready.count;
}

bool flow_has_over(const struct engine *engine, const struct topic *topic, uint32_t number,
                   uint64_t max)
{
    const struct flow *flow = topic->flow;
    if (flow_ready_count(topic) <= max)
        return false;
    return !flow || !flow->is_grouped ||
           flow_group_at(engine, number_in(flow, number))->ready.count > max / flow->group_count;
}

/* ---- time ---- */

size_t flow_advance(struct engine *engine, struct engine_now now, size_t max)
{
    enum { AT_ONCE = 64 };
    uint32_t numbers[AT_ONCE];
    size_t done = 0;
    follow_time(engine, now);
    while (engine->flows && done < max && flow_next_ms(engine) <= now.inner_ms) {
        size_t want = max - done < AT_ONCE ? max - done : AT_ONCE;
        size_t got = wheel_take_due(&engine->flows->wheel, now.inner_ms, numbers, want);
        for (size_t i = 0; i < got; i++) {
            struct topic *topic = engine->topics[flow_group_at(engine, numbers[i])->topic];
            if (!flow_group_at(engine, numbers[i])->is_topic)
                group_settle(engine, topic, numbers[i]);
            topic_settle(engine, topic);
        }
        done += got;
    }
    return done;
}

int64_t flow_next_ms(const struct engine *engine)
{
    return wheel_next_ms(&engine->flows->wheel);
}

/* ---- settings ---- */

/* Follows a change of the rate or burst of a group, or of the topic. */
static void group_fit(const struct engine *engine, const struct topic *topic, uint32_t number)
{
    struct group *group = flow_group_at(engine, number);
    const struct flow_limits limits = limits_of(engine, topic, group);
    group->full_us = flow_fit(group->full_us, engine->flow_now_ms * 1000,
                              flow_interval_us(limits.rate), flow_burst(&limits));
}

bool flow_prepare(struct engine *engine, struct topic *topic, const struct topic_flow *settings)
{
    return !topic_flow_is_set(settings) || flow_need(engine, topic);
}

static int by_ready(const void *a, const void *b)
{
    const struct ready_item *first = a, *second = b;
    return ready_comes_before(first, second) ? -1 : ready_comes_before(second, first);
}

/* Puts the ready jobs of a group in order again, after the order of its topic was changed. */
static void group_reorder(struct engine *engine, uint32_t number)
{
    struct ready_heap *heap = &flow_group_at(engine, number)->ready;
    for (uint32_t i = 0; i < heap->count; i++)
        heap->items[i] = entry_ready_item(engine, heap->items[i].id, engine->skew_ms);
    if (heap->count)
        qsort(heap->items, heap->count, sizeof *heap->items, by_ready);
    for (uint32_t i = 0; i < heap->count; i++)
        entry_at(engine, heap->items[i].id)->ready_at = i;
}

void flow_set(struct engine *engine, struct topic *topic, enum flow_order order_before)
{
    const struct topic_flow *settings = &topic->settings.flow;
    struct flow *flow = topic->flow;
    const struct flow_limits *limits = &settings->group;
    if (limits->limit || limits->rate.count || settings->group_order == FLOW_STRICT)
        flow_begin_groups(engine, topic);
    group_fit(engine, topic, flow->own);
    bool reorders = flow->is_grouped && settings->group_order != order_before;
    for (uint32_t i = flow->group_count; reorders && i; i--)
        group_reorder(engine, flow->groups[i - 1]);
    for (uint32_t i = flow->group_count; flow->is_grouped && i; i--) {
        group_fit(engine, topic, flow->groups[i - 1]);
        group_settle(engine, topic, flow->groups[i - 1]);
    }
    topic_settle(engine, topic);
}

/* Sets the settings of a group, or removes them (NULL). False: out of memory. */
static bool group_set(struct engine *engine, struct topic *topic, uint32_t number,
                      const struct group_settings *settings)
{
    struct flow *flow = topic->flow;
    struct group *group = flow_group_at(engine, number);
    bool had_max_jobs = group_settings_of(group)->max_jobs;
    if (settings && !group->settings) {
        if (!(group->settings = malloc(sizeof *settings)))
            return false;
        list_swap(engine, flow, group->list_at, flow->settings_count++);
    }
    if (settings) {
        *group->settings = *settings;
    } else if (group->settings) {
        free(group->settings);
        group->settings = NULL;
        list_swap(engine, flow, group->list_at, --flow->settings_count);
        if (engine->carry_group > 1) /* another one has moved to a place that was passed */
            engine->carry_group = 1;
    }
    bool has_max_jobs = group_settings_of(group)->max_jobs;
    if (has_max_jobs != had_max_jobs)
        flow->own_max_jobs += has_max_jobs ? 1u : UINT32_MAX;
    group_fit(engine, topic, number);
    return true;
}

void flow_forget(struct engine *engine, struct topic *topic)
{
    struct flow *flow = topic->flow;
    if (!flow)
        return;
    flow_group_at(engine, flow->own)->hold_until_ms = 0;
    for (uint32_t i = flow->group_count; i; i--) {
        uint32_t number = flow->groups[i - 1];
        flow_group_at(engine, number)->hold_until_ms = 0;
        group_set(engine, topic, number, NULL);
    }
    for (uint32_t i = flow->group_count; i; i--)
        group_settle(engine, topic, flow->groups[i - 1]);
    topic_settle(engine, topic);
}

bool flow_replay(struct engine *engine, struct topic *topic, const struct record_group *record)
{
    uint32_t number = record->exists ? group_need(engine, topic, record->group)
                      : topic->flow && record->group.len
                          ? table_find(engine, topic->id, record->group)
                      : topic->flow ? topic->flow->none
                                    : 0;
    if (!number)
        return !record->exists;
    if (!group_set(engine, topic, number, record->exists ? &record->settings : NULL))
        return false;
    flow_settle(engine, topic, number);
    return true;
}

static void group_append(struct engine *engine, const struct topic *topic, uint32_t number,
                         bool carried)
{
    const struct group *group = flow_group_at(engine, number);
    struct record record = {.kind = RECORD_GROUP,
                            .group = {.topic = topic->name,
                                      .group = group_name(group),
                                      .exists = group->settings != NULL,
                                      .carried = carried,
                                      .settings = *group_settings_of(group)}};
    engine->sink.append(engine->sink.ctx, &record);
}

bool flow_carry(struct engine *engine, const struct topic *topic)
{
    const struct flow *flow = topic->flow;
    if (!flow || engine->carry_group > flow->settings_count)
        return false;
    group_append(engine, topic, flow->groups[engine->carry_group++ - 1], true);
    return true;
}

/* Finds a topic, or creates it. */
static enum queue_status topic_need(struct engine *engine, struct slice name, struct topic **out)
{
    if ((*out = engine_topic_find(engine, name)))
        return QUEUE_OK;
    enum queue_status status = engine_topic_put(engine, name, &(struct topic_settings){0});
    *out = engine_topic_find(engine, name);
    return status == QUEUE_CREATED ? QUEUE_OK : status;
}

enum queue_status engine_group_put(struct engine *engine, struct slice name, struct slice group,
                                   const struct group_settings *settings)
{
    struct topic *topic;
    enum queue_status status = topic_need(engine, name, &topic);
    if (status != QUEUE_OK)
        return status;
    uint32_t shares = flow_topic_shares(engine, topic);
    if ((settings->limits.limit && settings->limits.limit < shares) ||
        (settings->limits.rate.count && settings->limits.rate.count < shares))
        return QUEUE_BAD_OPTION; /* a share of less than 1 would be none */
    uint32_t number = group_need(engine, topic, group);
    if (!number)
        return QUEUE_NO_MEMORY;
    if (!flow_group_at(engine, number)->settings &&
        topic->flow->settings_count >= GROUP_SETTINGS_MAX)
        status = QUEUE_TOO_MANY_GROUPS;
    else if (!group_set(engine, topic, number, settings))
        status = QUEUE_NO_MEMORY;
    else
        group_append(engine, topic, number, false);
    flow_settle(engine, topic, number);
    return status;
}

/* Finds a group of a topic that has a flow. Returns 0 if the group is unknown. */
static uint32_t group_find(const struct engine *engine, const struct topic *topic,
                           struct slice name)
{
    if (!topic->flow || !topic->flow->is_grouped)
        return 0;
    return name.len ? table_find(engine, topic->id, name) : topic->flow->none;
}

enum queue_status engine_group_hold(struct engine *engine, struct slice name, struct slice group,
                                    int64_t hold_ms, struct engine_now now)
{
    struct topic *topic;
    enum queue_status status = topic_need(engine, name, &topic);
    if (status != QUEUE_OK)
        return status;
    uint32_t number = group.len ? group_need(engine, topic, group) : 0;
    bool is_held = (!group.len || number) && flow_hold(engine, topic, number, hold_ms, now);
    return is_held ? QUEUE_OK : QUEUE_NO_MEMORY;
}

enum queue_status engine_group_delete(struct engine *engine, struct slice name, struct slice group)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return QUEUE_NOT_FOUND;
    uint32_t number = group_find(engine, topic, group);
    if (!number)
        return QUEUE_OK;
    bool had_settings = flow_group_at(engine, number)->settings != NULL;
    group_set(engine, topic, number, NULL);
    flow_group_at(engine, number)->hold_until_ms = 0;
    if (had_settings)
        group_append(engine, topic, number, false);
    flow_settle(engine, topic, number);
    return QUEUE_OK;
}

/* ---- what is shown ---- */

static int64_t wall_ms(int64_t inner_ms, struct engine_now now)
{
    return inner_ms ? inner_ms + now.skew_ms : 0;
}

/* Returns what holds the jobs of a group: first what holds its topic, as in the other stores. group may be NULL. */
static enum flow_held job_held(const struct engine *engine, const struct topic *topic,
                               const struct group *group, int64_t now_ms, int64_t *until_ms)
{
    enum flow_held held = FLOW_NOT_HELD;
    *until_ms = 0;
    if (topic->flow)
        held = group_held(engine, topic, flow_group_at(engine, topic->flow->own), now_ms, until_ms);
    return held || !group ? held : group_held(engine, topic, group, now_ms, until_ms);
}

static void group_show(const struct engine *engine, const struct topic *topic,
                       const struct group *group, struct engine_now now, struct queue_group *out)
{
    int64_t until_ms;
    enum flow_held own = group_held(engine, topic, group, now.inner_ms, &until_ms);
    enum flow_held held = job_held(engine, topic, group, now.inner_ms, &until_ms);
    bool is_shown = group->ready.count || own == FLOW_HELD_GROUP_PAUSED || own == FLOW_HELD_HOLD;
    *out = (struct queue_group){.name = group_name(group),
                                .has_settings = group->settings != NULL,
                                .settings = *group_settings_of(group),
                                .ready = group->ready.count,
                                .leased = group->leased,
                                .held_by = is_shown ? held : FLOW_NOT_HELD,
                                .held_until_ms = is_shown ? wall_ms(until_ms, now) : 0};
    out->settings.paused_until_ms = wall_ms(out->settings.paused_until_ms, now);
    if (out->settings.paused && out->settings.paused_until_ms && own != FLOW_HELD_GROUP_PAUSED) {
        out->settings.paused = false;
        out->settings.paused_until_ms = 0;
    }
    if (group->ready.count)
        out->oldest_ready_due_ms =
            entry_due_wall_ms(entry_at(engine, group->ready.items[0].id), now.skew_ms);
}

bool engine_group_show(struct engine *engine, struct slice name, struct slice group,
                       struct engine_now now, struct queue_group *out)
{
    const struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return false;
    uint32_t number = group_find(engine, topic, group);
    *out = (struct queue_group){0};
    if (number) {
        group_show(engine, topic, flow_group_at(engine, number), now, out);
    } else if (!group.len) {
        const struct ready_item *first = flow_any(engine, topic);
        out->ready = topic->counts.ready;
        out->leased = topic->counts.leased;
        if (first) {
            out->held_by = job_held(engine, topic, NULL, now.inner_ms, &out->held_until_ms);
            out->held_until_ms = wall_ms(out->held_until_ms, now);
            out->oldest_ready_due_ms = entry_due_wall_ms(entry_at(engine, first->id), now.skew_ms);
        }
    }
    out->name = group;
    return true;
}

bool engine_group_next(struct engine *engine, struct slice name, uint32_t *at,
                       struct engine_now now, struct queue_group *out)
{
    const struct topic *topic = engine_topic_find(engine, name);
    const struct flow *flow = topic ? topic->flow : NULL;
    if (topic && (!flow || !flow->is_grouped))
        return !(*at)++ && engine_group_show(engine, name, (struct slice){.at = ""}, now, out) &&
               (out->ready || out->leased);
    while (flow && *at < flow->group_count) {
        group_show(engine, topic, flow_group_at(engine, flow->groups[(*at)++]), now, out);
        if (out->ready || out->leased || out->has_settings || out->held_by)
            return true;
    }
    return false;
}

enum flow_held engine_held(struct engine *engine, struct slice name, struct slice group,
                           struct engine_now now, int64_t *until_ms)
{
    const struct topic *topic = engine_topic_find(engine, name);
    enum flow_held held = FLOW_NOT_HELD;
    *until_ms = 0;
    if (!topic || !topic->flow)
        return held;
    uint32_t number = group_find(engine, topic, group);
    held = job_held(engine, topic, number ? flow_group_at(engine, number) : NULL, now.inner_ms,
                    until_ms);
    *until_ms = wall_ms(*until_ms, now);
    return held;
}

/* ---- checks ---- */

static void check_group(const struct engine *engine, const struct topic *topic, uint32_t at)
{
    const struct flow *flow = topic->flow;
    uint32_t number = flow->groups[at];
    const struct group *group = flow_group_at(engine, number);
    int64_t until_ms;
    assert(group->list_at == at && group->topic == topic->id);
    assert((group->settings != NULL) == (at < flow->settings_count));
    assert(!group->name == (number == flow->none));
    assert(!group->name || table_find(engine, topic->id, group_name(group)) == number);
    for (uint32_t i = 1; i < group->ready.count; i++)
        assert(ready_comes_before(&group->ready.items[(i - 1) / 2], &group->ready.items[i]));
    if (group->runnable_at)
        assert(flow->runnable[group->runnable_at - 1] == number && group->ready.count);
    if (!flow->is_grouped || !group->ready.count)
        return;
    if (group->timer.place && (int64_t)group->timer.when_ms <= engine->flow_now_ms)
        return; /* it is about to be checked */
    enum flow_held held = group_held(engine, topic, group, engine->flow_now_ms, &until_ms);
    assert((group->runnable_at != 0) == (held == FLOW_NOT_HELD));
    assert(!until_ms || (int64_t)group->timer.when_ms == until_ms);
}

void flow_check(const struct engine *engine, const struct topic *topic)
{
    const struct flow *flow = topic->flow;
    uint64_t ready = 0, leased = 0, jobs = 0, named = 0, waiting = 0, tried = 0, unfinished = 0;
    uint64_t ready_by[FLOW_HELD_REASONS] = {0};
    uint32_t active = 0, own_max_jobs = 0;
    for (uint32_t i = 0; i < flow->group_count; i++) {
        const struct group *group = flow_group_at(engine, flow->groups[i]);
        check_group(engine, topic, i);
        ready += group->ready.count;
        leased += group->leased;
        tried += group->tried;
        jobs += group->jobs;
        waiting += group->waiting;
        unfinished += group->unfinished;
        own_max_jobs += group_settings_of(group)->max_jobs != 0;
        ready_by[group->held] += group->ready.count;
        active += group->is_active;
        assert(!flow->is_grouped || group->is_active == (group->ready.count || group->leased));
        assert(!group->ready.count || !group->runnable_at == (group->held != FLOW_NOT_HELD));
    }
    assert(ready == flow->ready && active == flow->active);
    assert(memcmp(ready_by, flow->ready_by, sizeof ready_by) == 0);
    assert(!flow->is_grouped || leased == topic->counts.leased);
    assert(waiting == topic->waiting && own_max_jobs == flow->own_max_jobs);
    assert(unfinished == topic->counts.delayed + topic->counts.retrying + topic->counts.ready +
                             topic->counts.leased);
    assert(!flow->is_grouped || !topic->ready.count);
    for (uint32_t i = 1; i < flow->runnable_count; i++)
        assert(!group_comes_before(flow_group_at(engine, flow->runnable[i]),
                                   flow_group_at(engine, flow->runnable[(i - 1) / 2])));
    for (uint32_t id = 1; id <= engine->entries.top; id++) {
        const struct entry *entry = entry_at(engine, id);
        const struct extra *extra = entry->state ? entry_extra(engine, entry) : NULL;
        if (!extra || entry->topic != topic->id)
            continue;
        named += extra->policy.group != 0;
        tried -= flow->is_grouped && extra->attempt &&
                 (entry->state == JOB_DELAYED || entry->state == JOB_READY);
        if (extra->successor)
            named += ((const struct successor *)slab_at(&engine->successors, extra->successor))
                         ->policy.group != 0;
    }
    assert(named == jobs && !tried);
}
