#include "job/record.h"

#include "job/wire.h"

#include <assert.h>
#include <stddef.h>

/* ---- names ---- */

static const char *const conflicts[] = {[CONFLICT_REPLACE] = "replace",
                                        [CONFLICT_KEEP] = "keep",
                                        [CONFLICT_REJECT] = "reject",
                                        [CONFLICT_AFTER] = "after"};
static const size_t conflicts_end = sizeof conflicts / sizeof conflicts[0];

const char *record_conflict_name(enum record_conflict conflict)
{
    assert(conflict > 0 && (size_t)conflict < conflicts_end);
    return conflicts[conflict];
}

bool record_conflict_parse(struct slice name, enum record_conflict *out)
{
    for (size_t i = CONFLICT_REPLACE; i < conflicts_end; i++)
        if (slice_is(name, conflicts[i])) {
            *out = (enum record_conflict)i;
            return true;
        }
    return false;
}

/*
 * A field with its usual value takes no space: the varint `fields` lists the present fields. A
 * content has one stored form: a field that is present with its usual value is refused, so decoding
 * and encoding again gives the same bytes.
 *
 *   JOB    fields · form · due · sequence · [fields, in the order of their bits] · [from] · topic ·
 *          id · body (the rest)
 *   STATE  fields · form · key · due · [fields] · [from]
 *   DONE   form · key · sequence · [remember_until] · [keep_until · kept] · [topic] · [from]
 *   TOPIC  see below
 *
 * `from` is present if FORM_FROM of `form` is set: run · slot · bytes.
 */
enum {
    HAS_PRIORITY = 1 << 0, /* other than JOB_PRIORITY */
    HAS_ATTEMPT = 1 << 1,
    HAS_FIRST_DUE = 1 << 2, /* other than due */
    HAS_LEASE_UNTIL = 1 << 3,
    HAS_DELIVERY = 1 << 4,
    HAS_ERROR = 1 << 5,
    STATE_FIELDS = (1 << 6) - 1,

    HAS_CONTENT_TYPE = 1 << 6,
    HAS_META = 1 << 7,
    POLICY_SHIFT = 8,
    HAS_HISTORY = 1 << 12,
    HAS_TAKEN = 1 << 13, /* duration before lease_until */
    HAS_CONSUMER = 1 << 14,
    CANCEL_REQUESTED = 1 << 15, /* the bit alone, without a value */
    HAS_NEXT = 1 << 16,
    HAS_PROGRESS = 1 << 17,
    HAS_KEEP = 1 << 18,
    HAS_GROUP = 1 << 19,
    HAS_BATCH = 1 << 20,
    JOB_FIELDS = (1 << 21) - 1,

    /* Bits in STATE, chosen so that the fields of every delivery fit in one byte. */
    HAS_STATE_TAKEN = 1 << 6,
    HAS_ENDED = 1 << 7,
    HAS_STATE_CONSUMER = 1 << 8,
    STATE_CANCEL_REQUESTED = 1 << 9,
    HAS_STATE_NEXT = 1 << 10,
    HAS_STATE_PROGRESS = 1 << 11,
    STATE_RECORD_FIELDS = (1 << 12) - 1
};

/* The byte `form` of JOB and STATE: state, due_is_wall, origin (0 in STATE). */
enum { FORM_STATE = 7, FORM_DUE_IS_WALL = 1 << 3, FORM_ORIGIN_SHIFT = 4, FORM_ORIGIN = 3 };
/* The byte `form` of DONE: the reason and these flags. */
enum {
    FORM_REASON = 7,
    FORM_CARRIED = 1 << 3,
    FORM_REMEMBERED = 1 << 4,
    FORM_TOPIC = 1 << 5,
    FORM_KEPT = 1 << 7
};
/* FORM_FROM: a flag of JOB, STATE and DONE. FORM_END: no form of JOB and STATE is as high. */
enum { FORM_FROM = 1 << 6, FORM_END = 1 << 7 };
enum { HEAD_BYTES = 5 };
enum { FLOW_BYTES_MAX = 60 }; /* of FLOW, and of the settings of a group */

/* ---- sizes ---- */

/* Returns the most bytes that the waits of a list need. */
static size_t steps_bytes_max(const struct policy *policy)
{
    return policy->backoff.kind == BACKOFF_LIST ? RECORD_STEPS_BYTES_MAX : 0;
}

size_t record_bytes_max(const struct record *record)
{
    const struct job *job = &record->job;

    switch (record->kind) {
    case RECORD_JOB: /* at most 26 varints and 10 other bytes in addition to the text */
        return 250 + steps_bytes_max(&job->policy) + job->topic.len + job->id.len +
               job->content_type.len + job->meta.len + job->error.len + job->consumer.len +
               job->progress.len + job->history.len + job->body.len + job->next.len +
               job->group.len + job->batch.len;
    case RECORD_STATE:
        return 144 + record->state.error.len + record->state.consumer.len +
               record->state.progress.len;
    case RECORD_DONE:
        return 80 + record->done.topic.len + record->done.kept.len;
    case RECORD_TOPIC:
        return 330 + FLOW_BYTES_MAX + steps_bytes_max(&record->topic.settings.policy) +
               record->topic.topic.len + record->topic.settings.extension.len;
    case RECORD_GROUP:
        return 20 + FLOW_BYTES_MAX + record->group.topic.len + record->group.group.len;
    case RECORD_BATCH:
        return 140;
    }
    assert(false && "record of no kind");
    return 0;
}

size_t record_next(struct slice bytes)
{
    struct wire_in in = wire_in_make(bytes);
    size_t size = wire_take_u32(&in);
    unsigned kind = wire_take_byte(&in);

    if (in.bad || size <= HEAD_BYTES || size > bytes.len || kind < RECORD_JOB ||
        kind > RECORD_BATCH)
        return 0;
    return size;
}

bool record_is_read_again(struct slice bytes)
{
    struct wire_in in = wire_in_make(bytes);
    unsigned kind;

    wire_take_u32(&in);
    kind = wire_take_byte(&in);
    return kind == RECORD_JOB ||
           (kind == RECORD_DONE && wire_take_byte(&in) & (FORM_REMEMBERED | FORM_KEPT));
}

/* ---- the slot of a job ---- */

/* The fields of a policy: in bits POLICY_SHIFT and up of a job's fields, in the lowest bits of a
 * topic's. */
enum { POLICY_FIELDS = (1 << 4) - 1 };

static uint16_t take_priority(struct wire_in *in)
{
    return (uint16_t)wire_take_varint(in, 0, JOB_PRIORITY_MAX);
}

/* ---- topics, and the policies of topics and jobs ---- */

/*
 * TOPIC  form · fields · topic · sequence, then the fields present in `fields`: policy · priority ·
 * dedup_window · extension · max_jobs · count and unit of push_rate · paused_until ·
 * keep_finished · keep_finished_max · keep_finished_bytes · flow; then the totals.
 */

/* The bits of a policy: in bits POLICY_SHIFT and up of a job's fields, in the lowest bits of a
 * topic's. */
enum { HAS_LEASE = 1 << 0, HAS_TTL = 1 << 1, HAS_BACKOFF = 1 << 2, HAS_MAX_ATTEMPTS = 1 << 3 };

/* The fields of a topic in addition to those of its policy. */
enum {
    HAS_TOPIC_PRIORITY = 1 << 4,
    HAS_DEDUP_WINDOW = 1 << 5,
    HAS_EXTENSION = 1 << 6,
    HAS_MAX_JOBS = 1 << 7,
    HAS_PUSH_RATE = 1 << 8,
    HAS_PAUSED_UNTIL = 1 << 9, /* only if paused */
    HAS_KEEP_FINISHED = 1 << 10,
    HAS_KEEP_FINISHED_MAX = 1 << 11,
    HAS_KEEP_FINISHED_BYTES = 1 << 12,
    HAS_FLOW = 1 << 13,
    TOPIC_FIELDS = (1 << 14) - 1
};

/* The byte `form`: on_conflict and these flags. */
enum {
    FORM_CONFLICT = 3,
    FORM_EXISTS = 1 << 2,
    FORM_PAUSED = 1 << 3,
    FORM_TOPIC_CARRIED = 1 << 4,
    FORM_DEAD_LETTER = 1 << 5,
    FORM_DELETING = 1 << 6,
    FORM_KEEP_BODY = 1 << 7,
    FORM_ALL = (1 << 8) - 1
};

enum { TOTALS = sizeof(struct topic_totals) / sizeof(uint64_t) };

/* ---- policy ---- */

static unsigned policy_fields(const struct policy *policy)
{
    return (policy->lease_ms ? HAS_LEASE : 0u) | (policy->ttl_ms ? HAS_TTL : 0u) |
           (policy->backoff.kind ? HAS_BACKOFF : 0u) |
           (policy->max_attempts ? HAS_MAX_ATTEMPTS : 0u);
}

/* Writes the waits of a list: their number, then each. */
static char *put_steps(char *at, const struct backoff *backoff)
{
    assert(policy_backoff_is_valid(backoff));
    at = wire_put_byte(at, backoff->step_count);
    for (uint32_t i = 0; i < backoff->step_count; i++)
        at = wire_put_varint(at, backoff->steps_ms[i]);
    return at;
}

static void take_steps(struct wire_in *in, struct backoff *out)
{
    unsigned count = wire_take_byte(in);

    if (!count || count > BACKOFF_STEPS_MAX) {
        wire_fail(in);
        return;
    }
    out->step_count = count;
    for (unsigned i = 0; i < count; i++)
        out->steps_ms[i] = (uint32_t)wire_take_varint(in, 1, BACKOFF_STEP_MS_MAX);
}

static char *put_backoff(char *at, const struct backoff *backoff)
{
    at = wire_put_byte(at, backoff->kind);
    if (backoff->kind == BACKOFF_NONE)
        return at;
    if (__builtin_expect(backoff->kind == BACKOFF_LIST, 0))
        return put_steps(at, backoff);
    assert(backoff->first_ms > 0 && backoff->first_ms <= backoff->max_ms);
    at = wire_put_ms(at, backoff->first_ms);
    if (backoff->kind == BACKOFF_FIXED)
        assert(backoff->max_ms == backoff->first_ms);
    else
        at = wire_put_ms(at, backoff->max_ms);
    return at;
}

static char *put_policy(char *at, const struct policy *policy, unsigned fields)
{
    if (fields & HAS_LEASE)
        at = wire_put_ms(at, policy->lease_ms);
    if (fields & HAS_TTL)
        at = wire_put_ms(at, policy->ttl_ms);
    if (fields & HAS_BACKOFF)
        at = put_backoff(at, &policy->backoff);
    if (fields & HAS_MAX_ATTEMPTS)
        at = wire_put_varint(at, policy->max_attempts);
    return at;
}

static void take_backoff(struct wire_in *in, struct backoff *out)
{
    unsigned kind = wire_take_byte(in);

    if (kind < BACKOFF_FIXED || kind > BACKOFF_LIST)
        wire_fail(in);
    out->kind = (enum backoff_kind)kind;
    if (kind == BACKOFF_NONE)
        return;
    if (kind == BACKOFF_LIST) {
        take_steps(in, out);
        return;
    }
    out->first_ms = wire_take_ms(in, 1);
    out->max_ms = kind == BACKOFF_FIXED ? out->first_ms : wire_take_ms(in, out->first_ms);
}

static void take_policy(struct wire_in *in, unsigned fields, struct policy *out)
{
    if (fields & HAS_LEASE)
        out->lease_ms = wire_take_ms(in, 1);
    if (fields & HAS_TTL)
        out->ttl_ms = wire_take_ms(in, 1);
    if (fields & HAS_BACKOFF)
        take_backoff(in, &out->backoff);
    if (fields & HAS_MAX_ATTEMPTS)
        out->max_attempts = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);
}

/* ---- limits and rates ---- */

static char *put_frequency(char *at, struct frequency frequency)
{
    assert(frequency_is_valid(frequency));
    at = wire_put_varint(at, frequency.count);
    return wire_put_byte(at, frequency.unit);
}

static void take_frequency(struct wire_in *in, struct frequency *out)
{
    out->count = (uint32_t)wire_take_varint(in, 1, FREQUENCY_COUNT_MAX);
    out->unit = (enum frequency_unit)wire_take_byte(in);
    if (!frequency_is_valid(*out))
        wire_fail(in);
}

/*
 * LIMITS  fields · limit · count and unit of the rate · burst, if present in `fields`
 * FLOW    form · LIMITS of the topic · LIMITS of each group · group_max_jobs, if present
 * GROUP   form · topic · group · [weight] · [LIMITS] · [max_jobs] · [paused_until]
 */
enum { HAS_LIMIT = 1 << 0, HAS_RATE = 1 << 1, HAS_BURST = 1 << 2, LIMITS_FIELDS = (1 << 3) - 1 };
enum {
    FLOW_IS_STRICT = 1 << 0,
    FLOW_ONE_SHARD = 1 << 1,
    FLOW_HAS_MAX_JOBS = 1 << 2,
    FLOW_FORM = (1 << 3) - 1
};

static bool limits_are_set(const struct flow_limits *limits)
{
    return limits->limit || limits->rate.count || limits->burst;
}

static bool flow_is_set(const struct topic_flow *flow)
{
    return limits_are_set(&flow->topic) || limits_are_set(&flow->group) || flow->group_max_jobs ||
           flow->group_order || flow->one_shard;
}

static char *put_limits(char *at, const struct flow_limits *limits)
{
    unsigned fields = (limits->limit ? HAS_LIMIT : 0u) | (limits->rate.count ? HAS_RATE : 0u) |
                      (limits->burst ? HAS_BURST : 0u);

    at = wire_put_byte(at, fields);
    if (fields & HAS_LIMIT)
        at = wire_put_varint(at, limits->limit);
    if (fields & HAS_RATE)
        at = put_frequency(at, limits->rate);
    if (fields & HAS_BURST)
        at = wire_put_varint(at, limits->burst);
    return at;
}

static void take_limits(struct wire_in *in, struct flow_limits *out)
{
    unsigned fields = wire_take_byte(in);

    if (fields > LIMITS_FIELDS)
        wire_fail(in);
    if (fields & HAS_LIMIT)
        out->limit = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);
    if (fields & HAS_RATE)
        take_frequency(in, &out->rate);
    if (fields & HAS_BURST)
        out->burst = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);
}

static char *put_flow(char *at, const struct topic_flow *flow)
{
    at = wire_put_byte(at, (flow->group_order == FLOW_STRICT ? FLOW_IS_STRICT : 0u) |
                               (flow->one_shard ? FLOW_ONE_SHARD : 0u) |
                               (flow->group_max_jobs ? FLOW_HAS_MAX_JOBS : 0u));
    at = put_limits(put_limits(at, &flow->topic), &flow->group);
    return flow->group_max_jobs ? wire_put_varint(at, flow->group_max_jobs) : at;
}

static void take_flow(struct wire_in *in, struct topic_flow *out)
{
    unsigned form = wire_take_byte(in);

    if (form > FLOW_FORM)
        wire_fail(in);
    out->group_order = form & FLOW_IS_STRICT ? FLOW_STRICT : FLOW_FREE;
    out->one_shard = form & FLOW_ONE_SHARD;
    take_limits(in, &out->topic);
    take_limits(in, &out->group);
    if (form & FLOW_HAS_MAX_JOBS)
        out->group_max_jobs = wire_take_varint(in, 1, UINT64_MAX);
    if (!flow_is_set(out))
        wire_fail(in);
}

/* ---- TOPIC ---- */

bool topic_settings_equal(const struct topic_settings *a, const struct topic_settings *b)
{
    const struct policy *p = &a->policy, *q = &b->policy;

    return p->lease_ms == q->lease_ms && p->ttl_ms == q->ttl_ms &&
           p->max_attempts == q->max_attempts && policy_backoff_equal(&p->backoff, &q->backoff) &&
           a->on_conflict == b->on_conflict && a->has_priority == b->has_priority &&
           (!a->has_priority || a->priority == b->priority) &&
           a->dead_letter_expired == b->dead_letter_expired &&
           a->dedup_window_ms == b->dedup_window_ms && a->history_ms == b->history_ms &&
           a->keep_finished_ms == b->keep_finished_ms &&
           a->keep_finished_max == b->keep_finished_max &&
           a->keep_finished_bytes == b->keep_finished_bytes && a->keep_body == b->keep_body &&
           a->max_jobs == b->max_jobs && frequency_equal(a->push_rate, b->push_rate) &&
           topic_flow_equal(&a->flow, &b->flow) && slice_equals(a->extension, b->extension);
}

static unsigned topic_form(const struct record_topic *topic)
{
    assert(topic->settings.on_conflict <= CONFLICT_REJECT);
    return topic->settings.on_conflict | (topic->exists ? FORM_EXISTS : 0u) |
           (topic->paused ? FORM_PAUSED : 0u) | (topic->carried ? FORM_TOPIC_CARRIED : 0u) |
           (topic->settings.dead_letter_expired ? FORM_DEAD_LETTER : 0u) |
           (topic->deleting ? FORM_DELETING : 0u) |
           (topic->settings.keep_body ? FORM_KEEP_BODY : 0u);
}

static char *put_totals(char *at, const struct topic_totals *totals)
{
    uint64_t sums[TOTALS];

    memcpy(sums, totals, sizeof sums);
    for (int i = 0; i < TOTALS; i++)
        at = wire_put_varint(at, sums[i]);
    return at;
}

static void take_totals(struct wire_in *in, struct topic_totals *totals)
{
    uint64_t sums[TOTALS];

    for (int i = 0; i < TOTALS; i++)
        sums[i] = wire_take_varint(in, 0, UINT64_MAX);
    memcpy(totals, sums, sizeof sums);
}

/* Writes a TOPIC (see the layout above). */
static char *put_topic(char *at, const struct record_topic *topic)
{
    const struct topic_settings *settings = &topic->settings;
    unsigned fields =
        policy_fields(&settings->policy) | (settings->has_priority ? HAS_TOPIC_PRIORITY : 0u) |
        (settings->dedup_window_ms ? HAS_DEDUP_WINDOW : 0u) |
        (settings->extension.len ? HAS_EXTENSION : 0u) | (settings->max_jobs ? HAS_MAX_JOBS : 0u) |
        (settings->push_rate.count ? HAS_PUSH_RATE : 0u) |
        (topic->paused_until_ms ? HAS_PAUSED_UNTIL : 0u) |
        (settings->keep_finished_ms ? HAS_KEEP_FINISHED : 0u) |
        (settings->keep_finished_max ? HAS_KEEP_FINISHED_MAX : 0u) |
        (settings->keep_finished_bytes ? HAS_KEEP_FINISHED_BYTES : 0u) |
        (flow_is_set(&settings->flow) ? HAS_FLOW : 0u);

    assert(topic->paused || !topic->paused_until_ms);
    assert(job_topic_is_valid(topic->topic));
    at = wire_put_byte(at, topic_form(topic));
    at = wire_put_varint(at, fields);
    at = wire_put_text(at, topic->topic, JOB_TOPIC_BYTES_MAX);
    at = wire_put_varint(at, topic->sequence);
    at = put_policy(at, &settings->policy, fields);
    if (settings->has_priority) {
        assert(settings->priority >= 0 && settings->priority <= JOB_PRIORITY_MAX);
        at = wire_put_varint(at, (uint64_t)settings->priority);
    }
    if (settings->dedup_window_ms)
        at = wire_put_ms(at, settings->dedup_window_ms);
    if (fields & HAS_EXTENSION)
        at = wire_put_text(at, settings->extension, TOPIC_EXTENSION_BYTES_MAX);
    if (fields & HAS_MAX_JOBS)
        at = wire_put_varint(at, settings->max_jobs);
    if (fields & HAS_PUSH_RATE)
        at = put_frequency(at, settings->push_rate);
    if (fields & HAS_PAUSED_UNTIL)
        at = wire_put_ms(at, topic->paused_until_ms);
    if (fields & HAS_KEEP_FINISHED)
        at = wire_put_ms(at, settings->keep_finished_ms);
    if (fields & HAS_KEEP_FINISHED_MAX)
        at = wire_put_varint(at, settings->keep_finished_max);
    if (fields & HAS_KEEP_FINISHED_BYTES)
        at = wire_put_varint(at, settings->keep_finished_bytes);
    if (fields & HAS_FLOW)
        at = put_flow(at, &settings->flow);
    return put_totals(at, &topic->totals);
}

/* Reads a TOPIC and checks its form. */
static void take_topic(struct wire_in *in, struct record_topic *topic)
{
    struct topic_settings *settings = &topic->settings;
    unsigned form = wire_take_byte(in);
    unsigned fields = (unsigned)wire_take_varint(in, 0, TOPIC_FIELDS);

    if (form > FORM_ALL)
        wire_fail(in);
    settings->on_conflict = (enum record_conflict)(form & FORM_CONFLICT);
    topic->exists = form & FORM_EXISTS;
    topic->paused = form & FORM_PAUSED;
    topic->carried = form & FORM_TOPIC_CARRIED;
    topic->deleting = form & FORM_DELETING;
    settings->dead_letter_expired = form & FORM_DEAD_LETTER;
    settings->keep_body = form & FORM_KEEP_BODY;
    topic->topic = wire_take_text(in, 1, JOB_TOPIC_BYTES_MAX);
    if (!job_topic_is_valid(topic->topic))
        wire_fail(in);
    topic->sequence = wire_take_varint(in, 0, UINT64_MAX);
    take_policy(in, fields & POLICY_FIELDS, &settings->policy);
    settings->has_priority = fields & HAS_TOPIC_PRIORITY;
    if (settings->has_priority)
        settings->priority = take_priority(in);
    if (fields & HAS_DEDUP_WINDOW)
        settings->dedup_window_ms = wire_take_ms(in, 1);
    if (fields & HAS_EXTENSION)
        settings->extension = wire_take_text(in, 1, TOPIC_EXTENSION_BYTES_MAX);
    if (fields & HAS_MAX_JOBS)
        settings->max_jobs = wire_take_varint(in, 1, TOPIC_JOBS_MAX);
    if (fields & HAS_PUSH_RATE)
        take_frequency(in, &settings->push_rate);
    if (fields & HAS_PAUSED_UNTIL) {
        topic->paused_until_ms = wire_take_ms(in, 1);
        if (!topic->paused)
            wire_fail(in);
    }
    if (fields & HAS_KEEP_FINISHED)
        settings->keep_finished_ms = wire_take_ms(in, 1);
    if (fields & HAS_KEEP_FINISHED_MAX)
        settings->keep_finished_max = wire_take_varint(in, 1, TOPIC_JOBS_MAX);
    if (fields & HAS_KEEP_FINISHED_BYTES)
        settings->keep_finished_bytes = wire_take_varint(in, 1, TOPIC_KEEP_BYTES_MAX);
    if (fields & HAS_FLOW)
        take_flow(in, &settings->flow);
    take_totals(in, &topic->totals);
}

/* ---- jobs and their states ---- */

static bool has_from(const struct record *record)
{
    return record->from.bytes != 0;
}

static char *put_from(char *at, struct record_place from)
{
    assert(record_place_is_run(from) && record_place_run(from));
    at = wire_put_varint(at, record_place_run(from));
    at = wire_put_varint(at, from.at);
    return wire_put_varint(at, from.bytes);
}

static struct record_place take_from(struct wire_in *in)
{
    uint32_t run = (uint32_t)wire_take_varint(in, 1, RECORD_IN_RUN - 1);
    uint32_t slot = (uint32_t)wire_take_varint(in, 0, UINT32_MAX);
    uint32_t bytes = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);

    return (struct record_place){.file = run | RECORD_IN_RUN, .at = slot, .bytes = bytes};
}

/* ---- the state of a job, shared by JOB and STATE ---- */

static unsigned state_fields(const struct record_state *state)
{
    return (state->priority != JOB_PRIORITY ? HAS_PRIORITY : 0u) |
           (state->attempt ? HAS_ATTEMPT : 0u) |
           (state->first_due_ms != state->due_ms ? HAS_FIRST_DUE : 0u) |
           (state->lease_until_ms ? HAS_LEASE_UNTIL : 0u) | (state->delivery ? HAS_DELIVERY : 0u) |
           (state->error.len ? HAS_ERROR : 0u);
}

static unsigned state_form(const struct record_state *state)
{
    assert(state->state >= JOB_DELAYED && state->state <= JOB_FINISHED);
    return state->state | (state->due_is_wall ? FORM_DUE_IS_WALL : 0u);
}

static char *put_state_fields(char *at, const struct record_state *state, unsigned fields)
{
    if (fields & HAS_PRIORITY)
        at = wire_put_varint(at, state->priority);
    if (fields & HAS_ATTEMPT)
        at = wire_put_varint(at, state->attempt);
    if (fields & HAS_FIRST_DUE)
        at = wire_put_ms(at, state->first_due_ms);
    if (fields & HAS_LEASE_UNTIL)
        at = wire_put_ms(at, state->lease_until_ms);
    if (fields & HAS_DELIVERY)
        at = wire_put_varint(at, state->delivery);
    if (fields & HAS_ERROR)
        at = wire_put_text(at, state->error, JOB_ERROR_BYTES_MAX);
    return at;
}

static void take_state_form(struct wire_in *in, unsigned form, struct record_state *out)
{
    unsigned state = form & FORM_STATE;

    if (state < JOB_DELAYED || state > JOB_FINISHED)
        wire_fail(in);
    out->state = (enum job_state)state;
    out->due_is_wall = form & FORM_DUE_IS_WALL;
}

/* Reads the state fields. out->due_ms is already set. */
static void take_state_fields(struct wire_in *in, unsigned fields, struct record_state *out)
{
    out->priority = fields & HAS_PRIORITY ? take_priority(in) : JOB_PRIORITY;
    if (fields & HAS_ATTEMPT)
        out->attempt = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);
    out->first_due_ms = fields & HAS_FIRST_DUE ? wire_take_ms(in, 0) : out->due_ms;
    if (fields & HAS_LEASE_UNTIL)
        out->lease_until_ms = wire_take_ms(in, 1);
    if (fields & HAS_DELIVERY)
        out->delivery = wire_take_varint(in, 1, UINT64_MAX);
    if (fields & HAS_ERROR)
        out->error = wire_take_text(in, 1, JOB_ERROR_BYTES_MAX);
    if ((fields & STATE_FIELDS) != state_fields(out))
        wire_fail(in);
}

/* Writes when a leased job was taken, which is always before the end of the lease. */
static char *put_taken(char *at, int64_t taken_ms, int64_t lease_until_ms)
{
    assert(taken_ms > 0 && taken_ms < lease_until_ms);
    return wire_put_ms(at, lease_until_ms - taken_ms);
}

static int64_t take_taken(struct wire_in *in, int64_t lease_until_ms)
{
    int64_t held_ms = wire_take_ms(in, 1);

    if (held_ms >= lease_until_ms)
        wire_fail(in);
    return in->bad ? 0 : lease_until_ms - held_ms;
}

/* Returns whether the holder's fields are allowed for a job in this state. */
static bool holder_is_storable(enum job_state state, struct slice consumer, bool cancel_requested)
{
    if (state != JOB_LEASED)
        return !consumer.len && !cancel_requested;
    return !consumer.len || job_consumer_is_valid(consumer);
}

/* ---- JOB ---- */

/* Returns the state of a job. `key` stays unset. */
static struct record_state state_of(const struct job *job)
{
    return (struct record_state){
        .state = job->state,
        .due_is_wall = job->due_is_wall,
        .priority = job->priority,
        .attempt = job->attempt,
        .due_ms = job->due_ms,
        .first_due_ms = job->first_due_ms,
        .lease_until_ms = job->lease_until_ms,
        .delivery = job->delivery,
        .error = job->error,
    };
}

static void set_state(struct job *job, const struct record_state *state)
{
    job->state = state->state;
    job->due_is_wall = state->due_is_wall;
    job->priority = state->priority;
    job->attempt = state->attempt;
    job->due_ms = state->due_ms;
    job->first_due_ms = state->first_due_ms;
    job->lease_until_ms = state->lease_until_ms;
    job->delivery = state->delivery;
    job->error = state->error;
}

/* Returns whether `meta` consists of whole pairs and nothing else. Names and values were validated
 * on input. */
static bool meta_is_whole(struct slice meta)
{
    struct slice name, value;
    size_t at = 0;

    while (job_meta_next(meta, &at, &name, &value))
        if (name.len == 0)
            return false;
    return at == meta.len;
}

/* Returns whether the job can be stored. Checked when encoding and decoding: what cannot be read
 * back must never be written. */
static bool job_is_storable(const struct job *job)
{
    struct job_batch batch;

    return job_topic_is_valid(job->topic) && job_id_is_valid(job->id) && meta_is_whole(job->meta) &&
           (!job->history.len || job_history_check(job->history)) &&
           (!job->next.len || job->state == JOB_LEASED) &&
           (!job->progress.len || job->state == JOB_LEASED) &&
           (!job->group.len || flow_group_is_valid(job->group)) &&
           (!job->batch.len || job_batch_decode(job->batch, &batch)) &&
           holder_is_storable(job->state, job->consumer, job->cancel_requested);
}

/* Writes a JOB. Omits fields with their usual value; `fields` lists the present ones. */
static char *put_job(char *at, const struct record *record)
{
    const struct job *job = &record->job;
    const struct record_state state = state_of(job);
    unsigned policy = policy_fields(&job->policy);
    unsigned fields = state_fields(&state) | (job->content_type.len ? HAS_CONTENT_TYPE : 0u) |
                      (job->meta.len ? HAS_META : 0u) | policy << POLICY_SHIFT |
                      (job->history.len ? HAS_HISTORY : 0u) | (job->taken_ms ? HAS_TAKEN : 0u) |
                      (job->consumer.len ? HAS_CONSUMER : 0u) |
                      (job->cancel_requested ? CANCEL_REQUESTED : 0u) |
                      (job->next.len ? HAS_NEXT : 0u) | (job->progress.len ? HAS_PROGRESS : 0u) |
                      (job->has_keep ? HAS_KEEP : 0u) | (job->group.len ? HAS_GROUP : 0u) |
                      (job->batch.len ? HAS_BATCH : 0u);

    assert(record->origin >= RECORD_PUSHED && record->origin <= RECORD_CARRIED);
    assert(job_is_storable(job));
    at = wire_put_varint(at, fields);
    at = wire_put_byte(at, state_form(&state) | record->origin << FORM_ORIGIN_SHIFT |
                               (has_from(record) ? FORM_FROM : 0u));
    at = wire_put_ms(at, job->due_ms);
    at = wire_put_varint(at, job->sequence);
    at = put_state_fields(at, &state, fields);
    if (fields & HAS_CONTENT_TYPE)
        at = wire_put_text(at, job->content_type, JOB_CONTENT_TYPE_BYTES_MAX);
    if (fields & HAS_META)
        at = wire_put_text(at, job->meta, JOB_META_BYTES_MAX);
    at = put_policy(at, &job->policy, policy);
    if (fields & HAS_HISTORY)
        at = wire_put_text(at, job->history, JOB_HISTORY_BYTES_MAX);
    if (fields & HAS_TAKEN)
        at = put_taken(at, job->taken_ms, job->lease_until_ms);
    if (fields & HAS_CONSUMER)
        at = wire_put_text(at, job->consumer, JOB_CONSUMER_BYTES_MAX);
    if (fields & HAS_NEXT)
        at = wire_put_text(at, job->next, UINT32_MAX);
    if (fields & HAS_PROGRESS)
        at = wire_put_text(at, job->progress, JOB_PROGRESS_BYTES_MAX);
    if (fields & HAS_KEEP)
        at = wire_put_ms(at, job->keep_ms);
    if (fields & HAS_GROUP)
        at = wire_put_text(at, job->group, JOB_GROUP_BYTES_MAX);
    if (fields & HAS_BATCH)
        at = wire_put_text(at, job->batch, JOB_BATCH_BYTES_MAX);
    if (has_from(record))
        at = put_from(at, record->from);
    at = wire_put_text(at, job->topic, JOB_TOPIC_BYTES_MAX);
    at = wire_put_text(at, job->id, JOB_ID_BYTES_MAX);
    return wire_put_bytes(at, job->body);
}

/* Returns whether the successor is a valid record of the same job, one that was just pushed. */
static bool next_is_storable(const struct job *job)
{
    struct job next;

    return record_next_decode(job, &next) && next.state == JOB_DELAYED && !next.attempt &&
           slice_equals(next.topic, job->topic) && slice_equals(next.id, job->id);
}

/* Reads a JOB. Refuses a field that is present with its usual value. `is_next`: the job is a successor, which has no
 * successor itself. */
static void take_job(struct wire_in *in, struct record *record, bool is_next)
{
    struct job *job = &record->job;
    struct record_state state = {0};
    unsigned fields = (unsigned)wire_take_varint(in, 0, JOB_FIELDS);
    unsigned form = wire_take_byte(in);

    record->origin = (enum record_job_origin)(form >> FORM_ORIGIN_SHIFT & FORM_ORIGIN);
    if (record->origin < RECORD_PUSHED || form >= FORM_END)
        wire_fail(in);
    take_state_form(in, form, &state);
    state.due_ms = wire_take_ms(in, 0);
    job->sequence = wire_take_varint(in, 0, UINT64_MAX);
    take_state_fields(in, fields, &state);
    set_state(job, &state);
    if (fields & HAS_CONTENT_TYPE)
        job->content_type = wire_take_text(in, 1, JOB_CONTENT_TYPE_BYTES_MAX);
    if (fields & HAS_META)
        job->meta = wire_take_text(in, 1, JOB_META_BYTES_MAX);
    take_policy(in, fields >> POLICY_SHIFT, &job->policy);
    if (fields & HAS_HISTORY)
        job->history = wire_take_text(in, 1, JOB_HISTORY_BYTES_MAX);
    if (fields & HAS_TAKEN)
        job->taken_ms = take_taken(in, job->lease_until_ms);
    if (fields & HAS_CONSUMER)
        job->consumer = wire_take_text(in, 1, JOB_CONSUMER_BYTES_MAX);
    job->cancel_requested = fields & CANCEL_REQUESTED;
    if (fields & HAS_NEXT)
        job->next = wire_take_text(in, 1, UINT32_MAX);
    if (fields & HAS_PROGRESS)
        job->progress = wire_take_text(in, 1, JOB_PROGRESS_BYTES_MAX);
    job->has_keep = fields & HAS_KEEP;
    if (fields & HAS_KEEP)
        job->keep_ms = wire_take_ms(in, 0);
    if (fields & HAS_GROUP)
        job->group = wire_take_text(in, 1, JOB_GROUP_BYTES_MAX);
    if (fields & HAS_BATCH)
        job->batch = wire_take_text(in, 1, JOB_BATCH_BYTES_MAX);
    if (form & FORM_FROM)
        record->from = take_from(in);
    job->topic = wire_take_text(in, 1, JOB_TOPIC_BYTES_MAX);
    job->id = wire_take_text(in, 1, JOB_ID_BYTES_MAX);
    job->body = wire_take_bytes(in, wire_left(in));
    if (!job_is_storable(job) || (job->next.len && (is_next || !next_is_storable(job))))
        wire_fail(in);
}

void record_next_start(struct job *job)
{
    struct job next;

    if (record_next_decode(job, &next))
        *job = next;
    job->next = (struct slice){0};
}

void record_next_count(struct topic_totals *totals, enum record_next next)
{
    totals->acked += next == RECORD_NEXT_AFTER_ACK;
    totals->cancelled += next == RECORD_NEXT_AFTER_CANCEL;
    totals->pushed += next == RECORD_NEXT_AFTER_ACK || next == RECORD_NEXT_AFTER_CANCEL;
    totals->nacked += next == RECORD_NEXT_AFTER_NACK;
    totals->lease_ended += next == RECORD_NEXT_AFTER_LEASE;
    totals->replaced += next >= RECORD_NEXT_AFTER_NACK;
}

/* ---- STATE ---- */

static char *put_key(char *at, struct hash128 key)
{
    return wire_put_u64(wire_put_u64(at, key.high), key.low);
}

static struct hash128 take_key(struct wire_in *in)
{
    uint64_t high = wire_take_u64(in);

    return (struct hash128){.high = high, .low = wire_take_u64(in)};
}

static char *put_ended(char *at, const struct record_ended *ended)
{
    assert(ended->outcome <= JOB_OUTCOME_REFUSED);
    at = wire_put_byte(at, ended->outcome);
    at = wire_put_ms(at, ended->started_ms);
    return wire_put_ms(at, ended->duration_ms);
}

static void take_ended(struct wire_in *in, struct record_ended *out)
{
    unsigned outcome = wire_take_byte(in);

    if (outcome < JOB_OUTCOME_FAILED || outcome > JOB_OUTCOME_REFUSED)
        wire_fail(in);
    out->outcome = (enum job_outcome)outcome;
    out->started_ms = wire_take_ms(in, 0);
    out->duration_ms = wire_take_ms(in, 0);
}

static char *put_state(char *at, const struct record *record)
{
    const struct record_state *state = &record->state;
    unsigned fields =
        state_fields(state) | (state->taken_ms ? HAS_STATE_TAKEN : 0u) |
        (state->ended.outcome ? HAS_ENDED : 0u) | (state->consumer.len ? HAS_STATE_CONSUMER : 0u) |
        (state->cancel_requested ? STATE_CANCEL_REQUESTED : 0u) |
        (state->next ? HAS_STATE_NEXT : 0u) | (state->progress.len ? HAS_STATE_PROGRESS : 0u);

    assert(state->attempt || !state->ended.outcome);
    assert(holder_is_storable(state->state, state->consumer, state->cancel_requested));
    at = wire_put_varint(at, fields);
    at = wire_put_byte(at, state_form(state) | (has_from(record) ? FORM_FROM : 0u));
    at = put_key(at, state->key);
    at = wire_put_ms(at, state->due_ms);
    at = put_state_fields(at, state, fields);
    if (fields & HAS_STATE_TAKEN)
        at = put_taken(at, state->taken_ms, state->lease_until_ms);
    if (fields & HAS_ENDED)
        at = put_ended(at, &state->ended);
    if (fields & HAS_STATE_CONSUMER)
        at = wire_put_text(at, state->consumer, JOB_CONSUMER_BYTES_MAX);
    if (fields & HAS_STATE_NEXT)
        at = wire_put_byte(at, state->next);
    if (fields & HAS_STATE_PROGRESS)
        at = wire_put_text(at, state->progress, JOB_PROGRESS_BYTES_MAX);
    return has_from(record) ? put_from(at, record->from) : at;
}

static void take_state(struct wire_in *in, struct record *record)
{
    struct record_state *state = &record->state;
    unsigned fields = (unsigned)wire_take_varint(in, 0, STATE_RECORD_FIELDS);
    unsigned form = wire_take_byte(in);

    if (form >> FORM_ORIGIN_SHIFT & FORM_ORIGIN || form >= FORM_END)
        wire_fail(in);
    take_state_form(in, form, state);
    state->key = take_key(in);
    state->due_ms = wire_take_ms(in, 0);
    take_state_fields(in, fields, state);
    if (fields & HAS_STATE_TAKEN)
        state->taken_ms = take_taken(in, state->lease_until_ms);
    if (fields & HAS_ENDED)
        take_ended(in, &state->ended);
    if (fields & HAS_ENDED && !state->attempt)
        wire_fail(in);
    if (fields & HAS_STATE_CONSUMER)
        state->consumer = wire_take_text(in, 1, JOB_CONSUMER_BYTES_MAX);
    state->cancel_requested = fields & STATE_CANCEL_REQUESTED;
    if (fields & HAS_STATE_NEXT) {
        unsigned next = wire_take_byte(in);

        if (next < RECORD_NEXT_DROPPED || next > RECORD_NEXT_AFTER_LEASE)
            wire_fail(in);
        state->next = (enum record_next)next;
    }
    if (fields & HAS_STATE_PROGRESS)
        state->progress = wire_take_text(in, 1, JOB_PROGRESS_BYTES_MAX);
    if (!holder_is_storable(state->state, state->consumer, state->cancel_requested) ||
        (state->progress.len && state->state != JOB_LEASED))
        wire_fail(in);
    if (form & FORM_FROM)
        record->from = take_from(in);
}

/* ---- a finished job that is kept ---- */

/*
 * KEPT  fields · attempt · finished · id, then the fields present in `fields`: duration · consumer ·
 *       meta · history · progress · result type · result · content type · group · batch · body
 */
enum {
    KEPT_DURATION = 1 << 0,
    KEPT_CONSUMER = 1 << 1,
    KEPT_META = 1 << 2,
    KEPT_HISTORY = 1 << 3,
    KEPT_PROGRESS = 1 << 4,
    KEPT_RESULT_TYPE = 1 << 5,
    KEPT_RESULT = 1 << 6,
    KEPT_CONTENT_TYPE = 1 << 7,
    KEPT_BODY = 1 << 8,
    KEPT_GROUP = 1 << 9,
    KEPT_BATCH = 1 << 10,
    KEPT_FIELDS = (1 << 11) - 1
};

/* The texts in the order of the record. */
static const struct kept_text {
    unsigned field;
    size_t offset, most;
} kept_texts[] = {
    {KEPT_CONSUMER, offsetof(struct record_kept, consumer), JOB_CONSUMER_BYTES_MAX},
    {KEPT_META, offsetof(struct record_kept, meta), JOB_META_BYTES_MAX},
    {KEPT_HISTORY, offsetof(struct record_kept, history), JOB_HISTORY_BYTES_MAX},
    {KEPT_PROGRESS, offsetof(struct record_kept, progress), JOB_PROGRESS_BYTES_MAX},
    {KEPT_RESULT_TYPE, offsetof(struct record_kept, result_type), JOB_CONTENT_TYPE_BYTES_MAX},
    {KEPT_RESULT, offsetof(struct record_kept, result), JOB_RESULT_BYTES_MAX},
    {KEPT_CONTENT_TYPE, offsetof(struct record_kept, content_type), JOB_CONTENT_TYPE_BYTES_MAX},
    {KEPT_GROUP, offsetof(struct record_kept, group), JOB_GROUP_BYTES_MAX},
    {KEPT_BATCH, offsetof(struct record_kept, batch), JOB_BATCH_BYTES_MAX},
};
enum { KEPT_TEXTS = sizeof kept_texts / sizeof kept_texts[0] };

static struct slice *kept_text_at(const struct record_kept *kept, const struct kept_text *text)
{
    return (struct slice *)((uintptr_t)kept + text->offset);
}

size_t record_kept_bytes_max(const struct record_kept *kept)
{
    size_t bytes = 60 + kept->id.len + kept->body.len;

    for (size_t i = 0; i < KEPT_TEXTS; i++)
        bytes += 10 + kept_text_at(kept, &kept_texts[i])->len;
    return bytes;
}

size_t record_kept_encode(const struct record_kept *kept, char *into)
{
    unsigned fields = (kept->duration_ms ? KEPT_DURATION : 0u) | (kept->has_body ? KEPT_BODY : 0u);
    char *at = into;

    for (size_t i = 0; i < KEPT_TEXTS; i++)
        if (kept_text_at(kept, &kept_texts[i])->len)
            fields |= kept_texts[i].field;
    assert(job_id_is_valid(kept->id) && (kept->has_body || !kept->body.len));
    at = wire_put_varint(at, fields);
    at = wire_put_varint(at, kept->attempt);
    at = wire_put_ms(at, kept->finished_ms);
    at = wire_put_text(at, kept->id, JOB_ID_BYTES_MAX);
    if (kept->duration_ms)
        at = wire_put_ms(at, kept->duration_ms);
    for (size_t i = 0; i < KEPT_TEXTS; i++)
        if (fields & kept_texts[i].field)
            at = wire_put_text(at, *kept_text_at(kept, &kept_texts[i]), kept_texts[i].most);
    at = wire_put_bytes(at, kept->body);
    return (size_t)(at - into);
}

bool record_kept_decode(struct slice bytes, struct record_kept *out)
{
    struct wire_in in = wire_in_make(bytes);
    unsigned fields = (unsigned)wire_take_varint(&in, 0, KEPT_FIELDS);

    *out = (struct record_kept){.has_body = fields & KEPT_BODY};
    out->attempt = (uint32_t)wire_take_varint(&in, 0, UINT32_MAX);
    out->finished_ms = wire_take_ms(&in, 0);
    out->id = wire_take_text(&in, 1, JOB_ID_BYTES_MAX);
    if (fields & KEPT_DURATION)
        out->duration_ms = wire_take_ms(&in, 1);
    for (size_t i = 0; i < KEPT_TEXTS; i++)
        if (fields & kept_texts[i].field)
            *kept_text_at(out, &kept_texts[i]) = wire_take_text(&in, 1, kept_texts[i].most);
    if (out->has_body)
        out->body = wire_take_bytes(&in, wire_left(&in));
    struct job_batch batch;
    return !in.bad && in.at == in.end && job_id_is_valid(out->id) &&
           (!out->batch.len || job_batch_decode(out->batch, &batch)) &&
           job_history_check(out->history) && (!out->group.len || flow_group_is_valid(out->group));
}

/* ---- DONE ---- */

static char *put_done(char *at, const struct record *record)
{
    const struct record_done *done = &record->done;

    assert(done->reason >= RECORD_ACKED && done->reason <= RECORD_REPLACED);
    at = wire_put_byte(at, done->reason | (done->carried ? FORM_CARRIED : 0u) |
                               (done->remember_until_ms ? FORM_REMEMBERED : 0u) |
                               (done->keep_until_ms ? FORM_KEPT : 0u) |
                               (done->topic.len ? FORM_TOPIC : 0u) |
                               (has_from(record) ? FORM_FROM : 0u));
    at = put_key(at, done->key);
    at = wire_put_varint(at, done->sequence);
    if (done->remember_until_ms)
        at = wire_put_ms(at, done->remember_until_ms);
    if (done->keep_until_ms) {
        at = wire_put_ms(at, done->keep_until_ms);
        at = wire_put_text(at, done->kept, UINT32_MAX);
    }
    if (done->topic.len) {
        assert(job_topic_is_valid(done->topic));
        at = wire_put_text(at, done->topic, JOB_TOPIC_BYTES_MAX);
    }
    return has_from(record) ? put_from(at, record->from) : at;
}

static void take_done(struct wire_in *in, struct record *record)
{
    struct record_done *done = &record->done;
    unsigned form = wire_take_byte(in), reason = form & FORM_REASON;

    if (reason < RECORD_ACKED || reason > RECORD_REPLACED)
        wire_fail(in);
    done->reason = (enum record_reason)reason;
    done->carried = form & FORM_CARRIED;
    done->key = take_key(in);
    done->sequence = wire_take_varint(in, 0, UINT64_MAX);
    if (form & FORM_REMEMBERED)
        done->remember_until_ms = wire_take_ms(in, 1);
    if (form & FORM_KEPT) {
        struct record_kept kept;
        done->keep_until_ms = wire_take_ms(in, 1);
        done->kept = wire_take_text(in, 1, UINT32_MAX);
        if (!record_kept_decode(done->kept, &kept))
            wire_fail(in);
    }
    if (form & FORM_TOPIC) {
        done->topic = wire_take_text(in, 1, JOB_TOPIC_BYTES_MAX);
        if (!job_topic_is_valid(done->topic))
            wire_fail(in);
    }
    if (form & FORM_FROM)
        record->from = take_from(in);
}

/* ---- GROUP ---- */

/* The byte `form`. */
enum {
    GROUP_EXISTS = 1 << 0, /* else it has no settings */
    GROUP_CARRIED = 1 << 1,
    GROUP_PAUSED = 1 << 2,
    GROUP_HAS_PAUSED_UNTIL = 1 << 3,
    GROUP_HAS_WEIGHT = 1 << 4,
    GROUP_HAS_LIMITS = 1 << 5,
    GROUP_HAS_MAX_JOBS = 1 << 6,
    GROUP_FORM = (1 << 7) - 1
};

static unsigned group_form(const struct record_group *group)
{
    const struct group_settings *settings = &group->settings;

    return (group->exists ? GROUP_EXISTS : 0u) | (group->carried ? GROUP_CARRIED : 0u) |
           (settings->paused ? GROUP_PAUSED : 0u) |
           (settings->paused_until_ms ? GROUP_HAS_PAUSED_UNTIL : 0u) |
           (settings->weight ? GROUP_HAS_WEIGHT : 0u) |
           (limits_are_set(&settings->limits) ? GROUP_HAS_LIMITS : 0u) |
           (settings->max_jobs ? GROUP_HAS_MAX_JOBS : 0u);
}

/* Returns whether the record of a group can be stored. The group may be empty: the jobs without a group. */
static bool group_is_storable(const struct record_group *group)
{
    const struct group_settings *settings = &group->settings;

    return job_topic_is_valid(group->topic) &&
           (!group->group.len || flow_group_is_valid(group->group)) &&
           settings->weight <= GROUP_WEIGHT_MAX &&
           (settings->paused || !settings->paused_until_ms) &&
           (group->exists || !(group_form(group) & ~(unsigned)GROUP_CARRIED));
}

static char *put_group(char *at, const struct record_group *group)
{
    const struct group_settings *settings = &group->settings;
    unsigned form = group_form(group);

    assert(group_is_storable(group));
    at = wire_put_byte(at, form);
    at = wire_put_text(at, group->topic, JOB_TOPIC_BYTES_MAX);
    at = wire_put_text(at, group->group, JOB_GROUP_BYTES_MAX);
    if (form & GROUP_HAS_WEIGHT)
        at = wire_put_varint(at, settings->weight);
    if (form & GROUP_HAS_LIMITS)
        at = put_limits(at, &settings->limits);
    if (form & GROUP_HAS_MAX_JOBS)
        at = wire_put_varint(at, settings->max_jobs);
    return form & GROUP_HAS_PAUSED_UNTIL ? wire_put_ms(at, settings->paused_until_ms) : at;
}

static void take_group(struct wire_in *in, struct record_group *out)
{
    struct group_settings *settings = &out->settings;
    unsigned form = wire_take_byte(in);

    if (form > GROUP_FORM)
        wire_fail(in);
    out->exists = form & GROUP_EXISTS;
    out->carried = form & GROUP_CARRIED;
    settings->paused = form & GROUP_PAUSED;
    out->topic = wire_take_text(in, 1, JOB_TOPIC_BYTES_MAX);
    out->group = wire_take_text(in, 0, JOB_GROUP_BYTES_MAX);
    if (form & GROUP_HAS_WEIGHT)
        settings->weight = (uint32_t)wire_take_varint(in, 1, GROUP_WEIGHT_MAX);
    if (form & GROUP_HAS_LIMITS)
        take_limits(in, &settings->limits);
    if (form & GROUP_HAS_MAX_JOBS)
        settings->max_jobs = wire_take_varint(in, 1, UINT64_MAX);
    if (form & GROUP_HAS_PAUSED_UNTIL)
        settings->paused_until_ms = wire_take_ms(in, 1);
    if (group_form(out) != form || !group_is_storable(out))
        wire_fail(in);
}

/* ---- BATCH: form · key · number · counts · members · depth · wait_until · close_by · due · [stop_sequence · leftovers] ---- */

enum {
    BATCH_FORM_ON_DEAD = 3,
    BATCH_IS_CLOSED = 1 << 2,
    BATCH_HAS_ENDED = 1 << 3,
    BATCH_IS_STOPPED = 1 << 4,
    BATCH_IS_GONE = 1 << 5,
    BATCH_CARRIED = 1 << 6,
    BATCH_DUE_IS_AT = 1 << 7
};

static bool batch_is_storable(const struct record_batch *batch)
{
    return batch->number && batch->on_dead >= BATCH_GO && batch->on_dead <= BATCH_STOP &&
           batch->members <= BATCH_MEMBERS_MAX && batch->depth <= BATCH_DEPTH_MAX &&
           (batch->is_stopped || (!batch->stop_sequence && !batch->leftovers));
}

static char *put_batch(char *at, const struct record_batch *batch)
{
    assert(batch_is_storable(batch));
    at = wire_put_byte(at, batch->on_dead | (batch->is_closed ? BATCH_IS_CLOSED : 0u) |
                               (batch->has_ended ? BATCH_HAS_ENDED : 0u) |
                               (batch->is_stopped ? BATCH_IS_STOPPED : 0u) |
                               (batch->is_gone ? BATCH_IS_GONE : 0u) |
                               (batch->carried ? BATCH_CARRIED : 0u) |
                               (batch->due_is_at ? BATCH_DUE_IS_AT : 0u));
    at = put_key(at, batch->key);
    at = wire_put_varint(at, batch->number);
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        at = wire_put_varint(at, batch->counts.of[i]);
    at = wire_put_varint(at, batch->members);
    at = wire_put_byte(at, batch->depth);
    at = wire_put_ms(at, batch->wait_until_ms);
    at = wire_put_ms(at, batch->close_by_ms);
    at = wire_put_ms(at, batch->due_ms);
    if (batch->is_stopped) {
        at = wire_put_varint(at, batch->stop_sequence);
        at = wire_put_varint(at, batch->leftovers);
    }
    return at;
}

static void take_batch(struct wire_in *in, struct record_batch *out)
{
    unsigned form = wire_take_byte(in);

    out->on_dead = (enum batch_on_dead)(form & BATCH_FORM_ON_DEAD);
    out->is_closed = form & BATCH_IS_CLOSED;
    out->has_ended = form & BATCH_HAS_ENDED;
    out->is_stopped = form & BATCH_IS_STOPPED;
    out->is_gone = form & BATCH_IS_GONE;
    out->carried = form & BATCH_CARRIED;
    out->due_is_at = form & BATCH_DUE_IS_AT;
    out->key = take_key(in);
    out->number = wire_take_varint(in, 1, UINT64_MAX);
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        out->counts.of[i] = (uint32_t)wire_take_varint(in, 0, UINT32_MAX);
    out->members = (uint32_t)wire_take_varint(in, 0, BATCH_MEMBERS_MAX);
    out->depth = (uint8_t)wire_take_byte(in);
    out->wait_until_ms = wire_take_ms(in, 0);
    out->close_by_ms = wire_take_ms(in, 0);
    out->due_ms = wire_take_ms(in, 0);
    if (out->is_stopped) {
        out->stop_sequence = wire_take_varint(in, 0, UINT64_MAX);
        out->leftovers = (uint32_t)wire_take_varint(in, 0, UINT32_MAX);
    }
    if (!in->bad && !batch_is_storable(out))
        wire_fail(in);
}

/* ---- all kinds ---- */

static char *put_payload(char *at, const struct record *record)
{
    switch (record->kind) {
    case RECORD_JOB:
        return put_job(at, record);
    case RECORD_STATE:
        return put_state(at, record);
    case RECORD_DONE:
        return put_done(at, record);
    case RECORD_TOPIC:
        assert(!has_from(record));
        return put_topic(at, &record->topic);
    case RECORD_GROUP:
        assert(!has_from(record));
        return put_group(at, &record->group);
    case RECORD_BATCH:
        assert(!has_from(record));
        return put_batch(at, &record->batch);
    }
    assert(false && "record of no kind");
    return at;
}

size_t record_encode(const struct record *record, char *into)
{
    char *end = put_payload(wire_put_byte(into + sizeof(uint32_t), record->kind), record);
    size_t bytes = (size_t)(end - into);

    assert(bytes <= UINT32_MAX);
    wire_put_u32(into, (uint32_t)bytes);
    return bytes;
}

static bool decode(struct slice bytes, bool is_next, struct record *out)
{
    struct wire_in in = wire_in_make(bytes);

    if (bytes.len == 0 || record_next(bytes) != bytes.len)
        return false;
    in.at += sizeof(uint32_t);
    memset(out, 0, sizeof *out);
    out->kind = (enum record_kind)wire_take_byte(&in);
    switch (out->kind) {
    case RECORD_JOB:
        take_job(&in, out, is_next);
        break;
    case RECORD_STATE:
        take_state(&in, out);
        break;
    case RECORD_DONE:
        take_done(&in, out);
        break;
    case RECORD_TOPIC:
        take_topic(&in, &out->topic);
        break;
    case RECORD_GROUP:
        take_group(&in, &out->group);
        break;
    case RECORD_BATCH:
        take_batch(&in, &out->batch);
        break;
    }
    return !in.bad && in.at == in.end;
}

bool record_decode(struct slice bytes, struct record *out)
{
    return decode(bytes, false, out);
}

bool record_next_decode(const struct job *job, struct job *out)
{
    struct record record;

    if (!job->next.len || !decode(job->next, true, &record) || record.kind != RECORD_JOB)
        return false;
    *out = record.job;
    return true;
}
