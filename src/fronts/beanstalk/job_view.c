#include "beanstalk/job_view.h"

#include "beanstalk/session.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers by which clients address jobs ---- */

enum { ALIASES_MAX = 4096 };
#define ALIAS_FIRST (UINT64_C(1) << 52)

struct beanstalk_alias {
    uint64_t number; /* 0: unused */
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
};

bool beanstalk_aliases_init(struct beanstalk_front *front)
{
    front->aliases = calloc(ALIASES_MAX, sizeof *front->aliases);
    return front->aliases != NULL;
}

void beanstalk_aliases_fini(struct beanstalk_front *front)
{
    free(front->aliases);
}

/* Returns true for a canonical decimal number below the first alias. */
static bool is_number(struct slice id, uint64_t *number)
{
    return id.len && *id.at != '0' && text_parse_u64(id, ALIAS_FIRST - 1, number);
}

static uint64_t number_of(struct beanstalk_front *front, struct slice topic, struct slice id)
{
    uint64_t number;
    if (is_number(id, &number))
        return number;
    for (size_t i = 0; i < ALIASES_MAX; i++) {
        const struct beanstalk_alias *known = &front->aliases[i];
        if (known->number && slice_equals(slice_make(known->id, known->id_bytes), id) &&
            slice_equals(slice_make(known->topic, known->topic_bytes), topic))
            return known->number;
    }
    struct beanstalk_alias *alias = &front->aliases[front->alias_count % ALIASES_MAX];
    alias->number = ALIAS_FIRST + front->alias_count++;
    alias->topic_bytes = (uint8_t)topic.len;
    memcpy(alias->topic, topic.at, topic.len);
    alias->id_bytes = (uint8_t)id.len;
    memcpy(alias->id, id.at, id.len);
    return alias->number;
}

struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic)
{
    *topic = (struct slice){0};
    if (number < ALIAS_FIRST)
        return slice_make(room, (size_t)snprintf(room, JOB_ID_BYTES_MAX, "%" PRIu64, number));
    const struct beanstalk_alias *alias = &front->aliases[(number - ALIAS_FIRST) % ALIASES_MAX];
    if (alias->number != number)
        return (struct slice){0};
    *topic = slice_make(alias->topic, alias->topic_bytes);
    return slice_make(alias->id, alias->id_bytes);
}

/* ---- priorities ---- */

enum { EXACT_END = 1 << 12, MANTISSA_BITS = 11, MANTISSA_MASK = (1 << MANTISSA_BITS) - 1 };

/* Packs numbers from EXACT_END upwards as 1.mantissa times a power of two, beginning with 2^12. */
uint16_t beanstalk_priority_pack(uint32_t priority)
{
    if (priority < EXACT_END)
        return (uint16_t)priority;
    uint32_t exponent = 31 - (uint32_t)__builtin_clz(priority);
    uint32_t mantissa = priority >> (exponent - MANTISSA_BITS) & MANTISSA_MASK;
    return (uint16_t)(EXACT_END + ((exponent - 12) << MANTISSA_BITS) + mantissa);
}

uint32_t beanstalk_priority_unpack(uint16_t packed)
{
    if (packed < EXACT_END)
        return packed;
    uint32_t exponent = ((uint32_t)packed - EXACT_END) >> MANTISSA_BITS;
    uint32_t mantissa = ((uint32_t)packed - EXACT_END) & MANTISSA_MASK;
    if (exponent > 31 - 12) /* no priority has this packed value */
        return UINT32_MAX;
    return (1u << MANTISSA_BITS | mantissa) << (exponent + 1);
}

/* ---- views ---- */

enum { META_BYTES = 128 };
#define META_NAME JOB_META_OWN "beanstalk" /* "PRIORITY DELAY TTR WHEN" */

void beanstalk_put_meta(struct buffer *meta, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
                        int64_t now_ms)
{
    char text[META_BYTES];
    int len = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRId64, priority,
                       delay_s, ttr_s, now_ms);
    (void)job_meta_add(meta, slice_of(META_NAME), slice_make(text, (size_t)len));
}

/* Reads the numbers of the put. Returns false if the job was not put by this protocol. */
static bool read_meta(struct slice meta, struct beanstalk_job_view *out, int64_t *put_ms)
{
    struct slice name, value;
    size_t at = 0;
    char text[META_BYTES];
    while (job_meta_next(meta, &at, &name, &value))
        if (slice_is(name, META_NAME) && value.len < sizeof text) {
            memcpy(text, value.at, value.len);
            text[value.len] = '\0';
            return sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNd64, &out->priority,
                          &out->delay_s, &out->ttr_s, put_ms) == 4;
        }
    return false;
}

/* ---- numbers from attempts ---- */

static const char release_format[] = "released, priority %" SCNu32 ", delay %" SCNu32 " s";
static const char bury_format[] = "buried, priority %" SCNu32;

struct slice beanstalk_release_reason(uint32_t priority, uint32_t delay_s,
                                      char out[BEANSTALK_REASON_BYTES])
{
    int len = snprintf(out, BEANSTALK_REASON_BYTES, release_format, priority, delay_s);
    return slice_make(out, (size_t)len);
}

struct slice beanstalk_bury_reason(uint32_t priority, char out[BEANSTALK_REASON_BYTES])
{
    int len = snprintf(out, BEANSTALK_REASON_BYTES, bury_format, priority);
    return slice_make(out, (size_t)len);
}

/* Counts an attempt and applies the numbers that its end gave to the job. */
static void note_attempt(struct beanstalk_job_view *view, const struct job_attempt *attempt)
{
    char text[BEANSTALK_REASON_BYTES];
    size_t len = attempt->error.len < sizeof text ? attempt->error.len : sizeof text - 1;
    if (len)
        memcpy(text, attempt->error.at, len);
    text[len] = '\0';
    if (attempt->outcome == JOB_OUTCOME_LEASE_ENDED)
        view->timeouts++;
    else if (sscanf(text, release_format, &view->priority, &view->delay_s) == 2)
        view->releases++;
    else if (sscanf(text, bury_format, &view->priority) == 1)
        view->buries++;
}

static void note_attempts(struct beanstalk_job_view *view, const struct job *job)
{
    bool is_reserved = job->state == JOB_LEASED;
    struct job_attempt attempt;
    uint32_t count = 0, before = 0;
    size_t at = 0;
    while (job_history_next(job->history, &at, &attempt)) {
        view->kicks += attempt.attempt <= before; /* a kick restarts the attempt count */
        before = attempt.attempt;
        note_attempt(view, &attempt);
        count++;
    }
    view->kicks += is_reserved ? job->attempt <= before : job->attempt < before;
    view->reserves = count < JOB_HISTORY_MAX ? count + is_reserved : job->attempt;
}

/* ---- the job ---- */

enum { CLOCKS_APART_MS = 50 };

/* Returns the remaining whole seconds; a second that has begun does not count. `whole_s` is the
 * full duration. A difference between two clocks may exceed it slightly. */
static int64_t seconds_left(int64_t until_ms, int64_t now_ms, uint32_t whole_s)
{
    int64_t left_ms = until_ms - now_ms, whole_ms = (int64_t)whole_s * 1000;
    if (left_ms > whole_ms && left_ms <= whole_ms + CLOCKS_APART_MS)
        left_ms = whole_ms;
    return left_ms > 0 ? (left_ms - 1) / 1000 : 0;
}

struct beanstalk_job_view beanstalk_job_view_of(struct beanstalk_front *front,
                                                const struct job *job)
{
    static const char *const states[] = {[JOB_DELAYED] = "delayed",
                                         [JOB_READY] = "ready",
                                         [JOB_LEASED] = "reserved",
                                         [JOB_DEAD] = "buried",
                                         [JOB_FINISHED] = "ready"};
    int64_t now_ms = queue_wall_ms(front->options.queue), put_ms = now_ms;
    int64_t lease_ms = job->policy.lease_ms ? job->policy.lease_ms : POLICY_LEASE_MS;
    struct beanstalk_job_view view = {.number = number_of(front, job->topic, job->id),
                                      .tube = job->topic,
                                      .state = states[job->state],
                                      .ttr_s = (uint32_t)(lease_ms / 1000)};
    (void)read_meta(job->meta, &view, &put_ms);
    note_attempts(&view, job);
    /* If the priority was changed otherwise, only its 16 bits are known. */
    if (beanstalk_priority_pack(view.priority) != job->priority)
        view.priority = beanstalk_priority_unpack(job->priority);
    view.age_s = (now_ms - put_ms) / 1000;
    view.left_s = job->state == JOB_DELAYED  ? seconds_left(job->due_ms, now_ms, view.delay_s)
                  : job->state == JOB_LEASED ? seconds_left(job->lease_until_ms, now_ms, view.ttr_s)
                                             : 0;
    return view;
}
