/* The stored form of topics, and of policies, which topics and jobs have. */
#include "job/record_private.h"

/*
 * TOPIC: form · fields · topic · sequence, then what `fields` say is there: policy · priority ·
 * dedup_window · extension; then the totals.
 */

/* Of a policy: in bits POLICY_SHIFT and up of a job's fields, in the lowest of a topic's. */
enum { HAS_LEASE = 1 << 0, HAS_TTL = 1 << 1, HAS_BACKOFF = 1 << 2, HAS_MAX_ATTEMPTS = 1 << 3 };

/* A topic's fields: those of its policy, and these. */
enum {
    HAS_TOPIC_PRIORITY = 1 << 4,
    HAS_DEDUP_WINDOW = 1 << 5,
    HAS_EXTENSION = 1 << 6,
    TOPIC_FIELDS = (1 << 7) - 1
};

/* The byte `form`: on_conflict and these. */
enum {
    FORM_CONFLICT = 3,
    FORM_EXISTS = 1 << 2,
    FORM_PAUSED = 1 << 3,
    FORM_TOPIC_CARRIED = 1 << 4,
    FORM_DEAD_LETTER = 1 << 5,
    FORM_DELETING = 1 << 6,
    FORM_ALL = (1 << 7) - 1
};

enum { TOTALS = sizeof(struct topic_totals) / sizeof(uint64_t) };

/* ---- policy ---- */

unsigned record_policy_fields(const struct policy *policy)
{
    return (policy->lease_ms ? HAS_LEASE : 0u) | (policy->ttl_ms ? HAS_TTL : 0u) |
           (policy->backoff.kind ? HAS_BACKOFF : 0u) |
           (policy->max_attempts ? HAS_MAX_ATTEMPTS : 0u);
}

static char *put_backoff(char *at, const struct backoff *backoff)
{
    assert(backoff->first_ms > 0 && backoff->first_ms <= backoff->max_ms);
    at = wire_put_byte(at, backoff->kind);
    at = wire_put_ms(at, backoff->first_ms);
    if (backoff->kind == BACKOFF_FIXED)
        assert(backoff->max_ms == backoff->first_ms);
    else
        at = wire_put_ms(at, backoff->max_ms);
    return at;
}

char *record_put_policy(char *at, const struct policy *policy, unsigned fields)
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

    if (kind != BACKOFF_FIXED && kind != BACKOFF_EXPONENTIAL)
        wire_fail(in);
    out->kind = (enum backoff_kind)kind;
    out->first_ms = wire_take_ms(in, 1);
    out->max_ms = kind == BACKOFF_FIXED ? out->first_ms : wire_take_ms(in, out->first_ms);
}

void record_take_policy(struct wire_in *in, unsigned fields, struct policy *out)
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

/* ---- TOPIC ---- */

bool topic_settings_equal(const struct topic_settings *a, const struct topic_settings *b)
{
    const struct policy *p = &a->policy, *q = &b->policy;

    return p->lease_ms == q->lease_ms && p->ttl_ms == q->ttl_ms &&
           p->max_attempts == q->max_attempts && p->backoff.kind == q->backoff.kind &&
           p->backoff.first_ms == q->backoff.first_ms && p->backoff.max_ms == q->backoff.max_ms &&
           a->on_conflict == b->on_conflict && a->has_priority == b->has_priority &&
           (!a->has_priority || a->priority == b->priority) &&
           a->dead_letter_expired == b->dead_letter_expired &&
           a->dedup_window_ms == b->dedup_window_ms && slice_equals(a->extension, b->extension);
}

static unsigned topic_form(const struct record_topic *topic)
{
    assert(topic->settings.on_conflict <= CONFLICT_REJECT);
    return topic->settings.on_conflict | (topic->exists ? FORM_EXISTS : 0u) |
           (topic->paused ? FORM_PAUSED : 0u) | (topic->carried ? FORM_TOPIC_CARRIED : 0u) |
           (topic->settings.dead_letter_expired ? FORM_DEAD_LETTER : 0u) |
           (topic->deleting ? FORM_DELETING : 0u);
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

char *record_put_topic(char *at, const struct record_topic *topic)
{
    const struct topic_settings *settings = &topic->settings;
    unsigned fields = record_policy_fields(&settings->policy) |
                      (settings->has_priority ? HAS_TOPIC_PRIORITY : 0u) |
                      (settings->dedup_window_ms ? HAS_DEDUP_WINDOW : 0u) |
                      (settings->extension.len ? HAS_EXTENSION : 0u);

    assert(job_topic_is_valid(topic->topic));
    at = wire_put_byte(at, topic_form(topic));
    at = wire_put_varint(at, fields);
    at = wire_put_text(at, topic->topic, JOB_TOPIC_BYTES_MAX);
    at = wire_put_varint(at, topic->sequence);
    at = record_put_policy(at, &settings->policy, fields);
    if (settings->has_priority) {
        assert(settings->priority >= 0 && settings->priority <= JOB_PRIORITY_MAX);
        at = wire_put_varint(at, (uint64_t)settings->priority);
    }
    if (settings->dedup_window_ms)
        at = wire_put_ms(at, settings->dedup_window_ms);
    if (fields & HAS_EXTENSION)
        at = wire_put_text(at, settings->extension, TOPIC_EXTENSION_BYTES_MAX);
    return put_totals(at, &topic->totals);
}

void record_take_topic(struct wire_in *in, struct record_topic *topic)
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
    topic->topic = wire_take_text(in, 1, JOB_TOPIC_BYTES_MAX);
    if (!job_topic_is_valid(topic->topic))
        wire_fail(in);
    topic->sequence = wire_take_varint(in, 0, UINT64_MAX);
    record_take_policy(in, fields & POLICY_FIELDS, &settings->policy);
    settings->has_priority = fields & HAS_TOPIC_PRIORITY;
    if (settings->has_priority)
        settings->priority = record_take_priority(in);
    if (fields & HAS_DEDUP_WINDOW)
        settings->dedup_window_ms = wire_take_ms(in, 1);
    if (fields & HAS_EXTENSION)
        settings->extension = wire_take_text(in, 1, TOPIC_EXTENSION_BYTES_MAX);
    take_totals(in, &topic->totals);
}
