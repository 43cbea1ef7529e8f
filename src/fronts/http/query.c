#include "http/query.h"

#include "base/duration.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "job/job.h"
#include "job/limits.h"

#include <assert.h>
#include <stdio.h>

enum option_kind {
    KIND_DURATION = 1, /* int64_t ms */
    KIND_TIME,         /* int64_t ms */
    KIND_NUMBER,       /* int64_t */
    KIND_ATTEMPTS,     /* uint32_t */
    KIND_ATTEMPTS_MAX, /* the same, or "none" */
    KIND_BACKOFF,
    KIND_FREQUENCY,
    KIND_CONFLICT,
    KIND_STATE,
    KIND_FLAG,
    KIND_BODIES,
    KIND_META, /* a name, a colon, and an optional value */
    KIND_CONSUMER,
    KIND_EVENTS, /* uint32_t, one bit per kind */
    KIND_VIEW,
    KIND_MOMENT, /* int64_t ms, or the next event */
    KIND_IDLE,
    KIND_ORDER, /* bool: by priority */
    KIND_GROUPS_ORDER,
    KIND_GROUP_ORDER, /* bool: strict */
    KIND_GROUP,
    KIND_ON_DEAD,
    KIND_OUTCOME,
    KIND_TEXT,
    KIND_TOPICS, /* may be repeated */
    KIND_LEASES  /* may be repeated */
};

#define FREQUENCY_VALUES "a number per second, minute or hour, such as 100/s, 90/m or 1/h"

static const struct option {
    const char *name;
    uint8_t name_len;
    uint8_t kind;
    uint16_t offset; /* in struct http_fields */
    int64_t min, max;
    const char *values; /* description of valid values */
    uint8_t limit;   /* an option of a job or topic: the row of job/limits.h, in place of these */
    bool has_blanks; /* valid values may contain blanks, so '+' in a query is a blank */
} options[OPTION_COUNT] = {
#define NAME(TEXT) .name = TEXT, .name_len = sizeof TEXT - 1
#define INTO(FIELD) .offset = offsetof(struct http_fields, FIELD)
    [OPTION_DELAY] = {NAME("delay"), KIND_DURATION, INTO(delay_ms), .limit = LIMIT_DELAY},
    [OPTION_AT] = {NAME("at"), KIND_TIME, INTO(at_ms), .limit = LIMIT_AT},
    [OPTION_PRIORITY] = {NAME("priority"), KIND_NUMBER, INTO(priority), .limit = LIMIT_PRIORITY},
    [OPTION_TTL] = {NAME("ttl"), KIND_DURATION, INTO(policy.ttl_ms), .limit = LIMIT_TTL},
    [OPTION_LEASE_FOR] = {NAME("lease_for"), KIND_DURATION, INTO(policy.lease_ms),
                          .limit = LIMIT_LEASE_FOR},
    [OPTION_MAX_ATTEMPTS] = {NAME("max_attempts"), KIND_ATTEMPTS_MAX, INTO(policy.max_attempts),
                             .limit = LIMIT_MAX_ATTEMPTS},
    [OPTION_BACKOFF] =
        {NAME("backoff"), KIND_BACKOFF, INTO(policy.backoff), 0, 0,
         "fixed:10s, exp:1s..10m, none, or up to 16 waits of up to 30 days each, such as "
         "list:10s,1m,1h"},
    [OPTION_ON_CONFLICT] = {NAME("on_conflict"), KIND_CONFLICT, INTO(on_conflict), 0, 0,
                            RECORD_CONFLICT_VALUES},
    [OPTION_LEASE] = {NAME("lease"), KIND_LEASES, 0, 1, QUEUE_BATCH_MAX,
                      "a lease from a take; at most 1000"},
    [OPTION_MAX] = {NAME("max"), KIND_NUMBER, INTO(max), 1, QUEUE_TAKE_MAX,
                    "a number from 1 to 1000"},
    [OPTION_WAIT] = {NAME("wait"), KIND_DURATION, INTO(wait_ms), 0, HTTP_WAIT_MS_MAX,
                     "a duration up to 4m"},
    [OPTION_TOPIC] = {NAME("topic"), KIND_TOPICS, 0, 1, QUEUE_TAKE_TOPICS_MAX,
                      "a topic's name; at most 64"},
    [OPTION_ERROR] = {NAME("error"), KIND_TEXT, INTO(error), 0, 8192, "a text", .has_blanks = true},
    [OPTION_STATE] = {NAME("state"), KIND_STATE, INTO(state), 0, 0,
                      "delayed, ready, leased, dead or finished"},
    [OPTION_LIMIT] = {NAME("limit"), KIND_NUMBER, INTO(limit), 1, QUEUE_LIST_MAX,
                      "a number from 1 to 1000"},
    [OPTION_CURSOR] = {NAME("cursor"), KIND_TEXT, INTO(cursor), 1, 512,
                       "the cursor of an earlier answer"},
    [OPTION_ID] = {NAME("id"), KIND_TEXT, INTO(id), 1, JOB_ID_BYTES_MAX, "the id of a job"},
    [OPTION_DEDUP_WINDOW] = {NAME("dedup_window"), KIND_DURATION, INTO(dedup_window_ms),
                             .limit = LIMIT_DEDUP_WINDOW},
    [OPTION_HISTORY] = {NAME("history"), KIND_DURATION, INTO(history_ms), .limit = LIMIT_HISTORY},
    [OPTION_KEEP_FINISHED] = {NAME("keep_finished"), KIND_DURATION, INTO(keep_finished_ms),
                              .limit = LIMIT_KEEP_FINISHED},
    [OPTION_KEEP_FINISHED_MAX] = {NAME("keep_finished_max"), KIND_NUMBER, INTO(keep_finished_max),
                                  .limit = LIMIT_KEEP_FINISHED_MAX},
    [OPTION_KEEP_FINISHED_BYTES] = {NAME("keep_finished_bytes"), KIND_NUMBER,
                                    INTO(keep_finished_bytes), .limit = LIMIT_KEEP_FINISHED_BYTES},
    [OPTION_KEEP_BODY] = {NAME("keep_body"), KIND_FLAG, INTO(keep_body), 0, 0, "true or false"},
    [OPTION_PROGRESS] = {NAME("progress"), KIND_TEXT, INTO(progress), 1, JOB_PROGRESS_BYTES_MAX,
                         "a text of at most 256 bytes", .has_blanks = true},
    [OPTION_UNTIL] = {NAME("until"), KIND_TEXT, INTO(until), 1, 16, "finished"},
    [OPTION_DEAD_LETTER_EXPIRED] = {NAME("dead_letter_expired"), KIND_FLAG,
                                    INTO(dead_letter_expired), 0, 0, "true or false"},
    [OPTION_ATTEMPT] = {NAME("attempt"), KIND_ATTEMPTS, INTO(attempt), .limit = LIMIT_ATTEMPT},
    [OPTION_BODY] = {NAME("body"), KIND_BODIES, INTO(bodies), 0, 0, "true, base64 or false"},
    [OPTION_FINAL] = {NAME("final"), KIND_FLAG, INTO(final), 0, 0, "true or false"},
    [OPTION_CALLBACK] = {NAME("callback"), KIND_TEXT, INTO(callback), 1, HTTP_CALLBACK_BYTES_MAX,
                         "a URL of http or https, up to 1024 bytes"},
    [OPTION_ID_PREFIX] = {NAME("id_prefix"), KIND_TEXT, INTO(id_prefix), 1, JOB_ID_BYTES_MAX,
                          "the beginning of the ids"},
    [OPTION_DIED_AFTER] = {NAME("died_after"), KIND_TIME, INTO(died_after_ms), 0, JOB_AT_MS_MAX,
                           "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since "
                           "1970"},
    [OPTION_DIED_BEFORE] = {NAME("died_before"), KIND_TIME, INTO(died_before_ms), 0, JOB_AT_MS_MAX,
                            "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since "
                            "1970"},
    [OPTION_DUE_AFTER] = {NAME("due_after"), KIND_TIME, INTO(due_after_ms), 0, JOB_AT_MS_MAX,
                          "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since "
                          "1970"},
    [OPTION_DUE_BEFORE] = {NAME("due_before"), KIND_TIME, INTO(due_before_ms), 0, JOB_AT_MS_MAX,
                           "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since "
                           "1970"},
    [OPTION_DRY_RUN] = {NAME("dry_run"), KIND_FLAG, INTO(dry_run), 0, 0, "true or false"},
    [OPTION_RESTORE] = {NAME("restore"), KIND_FLAG, INTO(restore), 0, 0, "true or false"},
    [OPTION_ONCE] = {NAME("once"), KIND_TEXT, INTO(once), 1, JOB_ONCE_BYTES_MAX,
                     "1 to 128 printable ASCII characters without blanks"},
    [OPTION_ONCE_FOR] = {NAME("once_for"), KIND_DURATION, INTO(once_for_ms),
                         .limit = LIMIT_ONCE_FOR},
    [OPTION_PREFIX] = {NAME("prefix"), KIND_TEXT, INTO(prefix), 1, JOB_ID_BYTES_MAX,
                       "the beginning of the names"},
    [OPTION_OWNER] = {NAME("owner"), KIND_TEXT, INTO(owner), 1, 100,
                      "the owner of schedules, at most 100 bytes"},
    [OPTION_PRUNE] = {NAME("prune"), KIND_FLAG, INTO(prune), 0, 0, "true or false"},
    [OPTION_TAKE_OVER] = {NAME("take_over"), KIND_FLAG, INTO(take_over), 0, 0, "true or false"},
    [OPTION_N] = {NAME("n"), KIND_NUMBER, INTO(n), 1, 1000, "a number from 1 to 1000"},
    [OPTION_FROM] = {NAME("from"), KIND_TIME, INTO(from_ms), 0, JOB_AT_MS_MAX,
                     "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since 1970"},
    [OPTION_PACE] = {NAME("pace"), KIND_DURATION, INTO(pace_ms), 0, 3600 * 1000,
                     "a duration up to 1h, such as 1s"},
    [OPTION_FOR] = {NAME("for"), KIND_DURATION, INTO(for_ms), 1000, POLICY_DELAY_MS_MAX,
                    "a duration from 1s to 10 years"},
    [OPTION_CONSUMER] = {NAME("consumer"), KIND_CONSUMER, INTO(consumer), 1, JOB_CONSUMER_BYTES_MAX,
                         "1 to 64 bytes of printable ASCII without a blank at either end",
                         .has_blanks = true},
    [OPTION_REQUEST] = {NAME("request"), KIND_FLAG, INTO(request), 0, 0, "true or false"},
    [OPTION_MAX_JOBS] = {NAME("max_jobs"), KIND_NUMBER, INTO(max_jobs), .limit = LIMIT_MAX_JOBS},
    [OPTION_PUSH_RATE] = {NAME("push_rate"), KIND_FREQUENCY, INTO(push_rate), 0, 0,
                          FREQUENCY_VALUES},
    [OPTION_META] = {NAME("meta"), KIND_META, INTO(meta), 2, 64 + 1 + 1024,
                     "NAME:VALUE or only NAME:, with a name of a-z, 0-9 and '-'",
                     .has_blanks = true},
    [OPTION_EVENT] =
        {NAME("event"), KIND_EVENTS, INTO(events), 0, 0,
         "kinds of events, separated by commas: pushed, replaced, due, delivered, acked, nacked, "
         "extended, returned, lease_ended, expired, cancelled, rescheduled, run, dead, redriven, "
         "purged, paused, resumed, settings, deleted, fire_skipped, progress"},
    [OPTION_ORDER] = {NAME("order"), KIND_ORDER, INTO(by_priority), 0, 0,
                      "named (the first named topic first) or priority (the best of all)"},
    [OPTION_VIEW] = {NAME("view"), KIND_VIEW, INTO(view), 0, 0, "overview, topic or server"},
    [OPTION_BY] = {NAME("by"), KIND_DURATION, INTO(by_ms), 0, POLICY_DELAY_MS_MAX,
                   "a duration up to 10 years, such as 1500ms, 30s, 2h30m or PT30M"},
    [OPTION_TO] =
        {NAME("to"), KIND_MOMENT, INTO(to_ms), 0, 1LL << 46,
         "next, an RFC 3339 time such as 2026-11-20T09:00:00Z, or milliseconds since 1970"},
    [OPTION_WAIT_IDLE] = {NAME("wait"), KIND_IDLE, INTO(wait_idle), 0, 0, "idle"},
    [OPTION_TIMEOUT] = {NAME("timeout"), KIND_DURATION, INTO(timeout_ms), 1, HTTP_IDLE_MS_MAX,
                        "a duration up to 10m"},
    [OPTION_GROUP] = {NAME("group"), KIND_GROUP, INTO(group), 1, JOB_GROUP_BYTES_MAX,
                      "1 to 64 printable ASCII characters without blanks"},
    [OPTION_HOLD] = {NAME("hold"), KIND_DURATION, INTO(hold_ms), .limit = LIMIT_HOLD},
    [OPTION_GROUPS_ORDER] = {NAME("order"), KIND_GROUPS_ORDER, INTO(groups_order), 0, 0,
                             "name, ready, leased or held"},
    [OPTION_FLOW_LIMIT] = {NAME("limit"), KIND_NUMBER, INTO(flow_limit), .limit = LIMIT_LIMIT},
    [OPTION_RATE] = {NAME("rate"), KIND_FREQUENCY, INTO(rate), 0, 0, FREQUENCY_VALUES},
    [OPTION_BURST] = {NAME("burst"), KIND_NUMBER, INTO(burst), .limit = LIMIT_BURST},
    [OPTION_GROUP_LIMIT] = {NAME("group_limit"), KIND_NUMBER, INTO(group_limit),
                            .limit = LIMIT_GROUP_LIMIT},
    [OPTION_GROUP_RATE] = {NAME("group_rate"), KIND_FREQUENCY, INTO(group_rate), 0, 0,
                           FREQUENCY_VALUES},
    [OPTION_GROUP_BURST] = {NAME("group_burst"), KIND_NUMBER, INTO(group_burst),
                            .limit = LIMIT_GROUP_BURST},
    [OPTION_GROUP_MAX_JOBS] = {NAME("group_max_jobs"), KIND_NUMBER, INTO(group_max_jobs),
                               .limit = LIMIT_GROUP_MAX_JOBS},
    [OPTION_GROUP_ORDER] = {NAME("group_order"), KIND_GROUP_ORDER, INTO(is_strict), 0, 0,
                            "free or strict"},
    [OPTION_ONE_SHARD] = {NAME("one_shard"), KIND_FLAG, INTO(one_shard), 0, 0, "true or false"},
    [OPTION_WEIGHT] = {NAME("weight"), KIND_NUMBER, INTO(weight), .limit = LIMIT_WEIGHT},
    [OPTION_PAUSED] = {NAME("paused"), KIND_FLAG, INTO(paused), 0, 0, "true or false"},
    [OPTION_PAUSED_UNTIL] = {NAME("paused_until"), KIND_TIME, INTO(paused_until_ms), 1,
                             JOB_AT_MS_MAX,
                             "an RFC 3339 time such as 2026-11-20T09:00:00Z or milliseconds since "
                             "1970"},
    [OPTION_BATCH_TOPIC] = {NAME("batch_topic"), KIND_TEXT, INTO(batch.topic), 1,
                            JOB_TOPIC_BYTES_MAX, "the topic of a waiting job"},
    [OPTION_BATCH_ID] = {NAME("batch_id"), KIND_TEXT, INTO(batch.id), 1, JOB_ID_BYTES_MAX,
                         "the id of a waiting job"},
    [OPTION_PARENT] = {NAME("parent"), KIND_TEXT, INTO(batch.parent), 1, QUEUE_LEASE_TEXT_BYTES_MAX,
                       "the lease of a member of the batch"},
    [OPTION_WAITS] = {NAME("waits"), KIND_FLAG, INTO(batch.waits), 0, 0, "true or false"},
    [OPTION_ON_DEAD] = {NAME("on_dead"), KIND_ON_DEAD, INTO(batch.on_dead), 0, 0,
                        BATCH_ON_DEAD_VALUES},
    [OPTION_MEMBERS] = {NAME("members"), KIND_NUMBER, INTO(members), .limit = LIMIT_MEMBERS},
    [OPTION_WAIT_AT_MOST] = {NAME("wait_at_most"), KIND_DURATION, INTO(batch.wait_at_most_ms),
                             .limit = LIMIT_WAIT_AT_MOST},
    [OPTION_CLOSE_WITHIN] = {NAME("close_within"), KIND_DURATION, INTO(batch.close_within_ms),
                             .limit = LIMIT_CLOSE_WITHIN},
    [OPTION_CANCEL_MEMBERS] = {NAME("members"), KIND_FLAG, INTO(cancel_members), 0, 0,
                               "true or false"},
    [OPTION_OUTCOME] = {NAME("outcome"), KIND_OUTCOME, INTO(outcome), 0, 0,
                        "unfinished, acked, dead, cancelled or expired"},
    [OPTION_RESULTS] = {NAME("results"), KIND_FLAG, INTO(results), 0, 0, "true or false"},
    [OPTION_AUTO] = {NAME("auto"), KIND_FLAG, INTO(is_auto), 0, 0, "true or false"},
#undef INTO
#undef NAME
};

/* Returns the range of an option and its words. */
static struct job_limit range_of(const struct option *option)
{
    return option->limit
               ? job_limits[option->limit]
               : (struct job_limit){option->name, option->min, option->max, option->values};
}

static bool has_name(const struct option *option, struct slice name)
{
    return option->name_len == name.len && option->name[0] == name.at[0] &&
           memcmp(option->name, name.at, name.len) == 0;
}

/* Returns the option of that name, found among the few allowed ones first. Several have the name `wait`, `limit`, `members` or `order`, at most one of them in each call. */
static const struct option *find_option(http_options allowed, struct slice name)
{
    for (size_t half = 0; half < 2; half++)
        for (uint64_t left = (uint64_t)(allowed >> 64 * half); left; left &= left - 1) {
            size_t i = 64 * half + (size_t)__builtin_ctzll(left);
            if (i < OPTION_COUNT && has_name(&options[i], name))
                return &options[i];
        }
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (has_name(&options[i], name))
            return &options[i];
    return NULL;
}

bool http_option_is_allowed(http_options allowed, struct slice name)
{
    const struct option *option = find_option(allowed, name);
    return option && allowed & OPTION_BIT(option - options);
}

const char *http_option_values(const char *name)
{
    const struct option *option = find_option(0, slice_of(name));
    return option ? range_of(option).values : NULL;
}

/* Refuses an unknown option. `beside` lists other members of the JSON object that are not options,
 * or is NULL. */
static bool refuse_unknown_option(http_options allowed, const char *const *beside,
                                  struct slice name, struct http_fault *fault)
{
    const char *candidates[OPTION_COUNT + HTTP_MEMBERS_BESIDE_MAX + 1];
    size_t count = 0, len = 0;
    if (allowed & OPTION_BIT(OPTION_FOREIGN))
        return true; /* left to its handler */
    for (; beside && *beside; beside++)
        candidates[count++] = *beside;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (allowed & OPTION_BIT(i))
            candidates[count++] = options[i].name;
    candidates[count] = NULL;

    const char *quoted = http_quotable(name, 40);
    const char *nearest = text_nearest(quoted, candidates);
    if (count == 0)
        return http_fault_set(fault, PROBLEM_UNKNOWN_OPTION, 0,
                              "unknown option '%s': this call has no options", quoted);
    (void)http_fault_set(
        fault, PROBLEM_UNKNOWN_OPTION, 0, "unknown option '%s'%s%s%s; this call has ", quoted,
        nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'" : "");
    for (size_t i = 0; i < count; i++) {
        len = strlen(fault->detail);
        (void)snprintf(fault->detail + len, sizeof fault->detail - len, "%s%s", i ? ", " : "",
                       candidates[i]);
    }
    return false;
}

static bool refuse_value(const struct option *option, struct slice value, struct http_fault *fault)
{
    int64_t seconds;
    if (option->kind == KIND_TIME && timestamp_is_in_seconds(value) &&
        timestamp_parse(value, &seconds) && seconds >= TIMESTAMP_BARE_MS_MIN / 1000)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'%s' is '%s', which as milliseconds is before 1973; did you mean "
                              "seconds? write '%s000', or an RFC 3339 time",
                              option->name, http_quotable(value, 40), http_quotable(value, 40));
    if (option->kind == KIND_TIME && timestamp_lacks_zone(value))
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'%s' is '%s' but a time needs a time zone: add Z or an offset such "
                              "as +01:00",
                              option->name, http_quotable(value, 40));
    if ((option->kind == KIND_DURATION || option->kind == KIND_BACKOFF) &&
        duration_lacks_unit(value))
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'%s' is '%s' but a duration needs a unit: write one such as 1500ms, "
                              "30s or 30m",
                              option->name, http_quotable(value, 40));
    return http_fault_set(fault, PROBLEM_BAD_OPTION, 0, "'%s' is '%s' but must be %s", option->name,
                          http_quotable(value, 40), range_of(option).values);
}

/* ---- values ---- */

static bool parse_bodies(struct slice value, enum http_bodies *out)
{
    if (slice_is(value, "true"))
        *out = HTTP_BODIES_SHOWN;
    else if (slice_is(value, "base64"))
        *out = HTTP_BODIES_BASE64;
    else if (slice_is(value, "false"))
        *out = HTTP_BODIES_NONE;
    else
        return false;
    return true;
}

/* Parses a list of events such as "pushed,dead". */
static bool parse_events(struct slice value, uint32_t *out)
{
    *out = 0;
    for (;;) {
        const char *comma = value.len ? memchr(value.at, ',', value.len) : NULL;
        size_t len = comma ? (size_t)(comma - value.at) : value.len;
        enum job_event_kind kind = job_event_find(slice_make(value.at, len));
        if (!kind)
            return false;
        *out |= job_event_bit(kind);
        if (!comma)
            return true;
        value = slice_make(comma + 1, value.len - len - 1);
    }
}

static bool parse_view(struct slice value, enum http_live_view *out)
{
    if (slice_is(value, "overview"))
        *out = HTTP_LIVE_OVERVIEW;
    else if (slice_is(value, "topic"))
        *out = HTTP_LIVE_TOPIC;
    else if (slice_is(value, "server"))
        *out = HTTP_LIVE_SERVER;
    else
        return false;
    return true;
}

static bool parse_groups_order(struct slice value, enum queue_groups_order *out)
{
    static const char *const names[] = {[QUEUE_GROUPS_BY_NAME] = "name",
                                        [QUEUE_GROUPS_BY_READY] = "ready",
                                        [QUEUE_GROUPS_BY_LEASED] = "leased",
                                        [QUEUE_GROUPS_HELD] = "held"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (slice_is(value, names[i])) {
            *out = (enum queue_groups_order)i;
            return true;
        }
    }
    return false;
}

static bool parse_number(struct slice value, const struct job_limit *range, int64_t *out)
{
    uint64_t number;
    if (!text_parse_u64(value, (uint64_t)range->most, &number) || (int64_t)number < range->least)
        return false;
    *out = (int64_t)number;
    return true;
}

static bool parse_value(const struct option *option, struct slice value, void *into)
{
    const struct job_limit range = range_of(option);
    int64_t number = 0;
    switch (option->kind) {
    case KIND_DURATION:
        if (!duration_parse(value, range.most, &number) || number < range.least)
            return false;
        *(int64_t *)into = number;
        return true;
    case KIND_TIME:
        if (timestamp_is_in_seconds(value) || !timestamp_parse(value, &number) ||
            number > range.most)
            return false;
        *(int64_t *)into = number;
        return true;
    case KIND_MOMENT:
        number = INT64_MAX;
        if (!slice_is(value, "next") && (timestamp_is_in_seconds(value) ||
                                         !timestamp_parse(value, &number) || number > range.most))
            return false;
        *(int64_t *)into = number;
        return true;
    case KIND_IDLE:
        *(bool *)into = slice_is(value, "idle");
        return *(bool *)into;
    case KIND_NUMBER:
        return parse_number(value, &range, into);
    case KIND_ATTEMPTS_MAX:
        if (slice_is(value, "none")) {
            *(uint32_t *)into = POLICY_ATTEMPTS_NONE;
            return true;
        }
        __attribute__((fallthrough));
    case KIND_ATTEMPTS:
        if (!parse_number(value, &range, &number))
            return false;
        *(uint32_t *)into = (uint32_t)number;
        return true;
    case KIND_BACKOFF:
        return policy_parse_backoff(value, into);
    case KIND_FREQUENCY:
        return frequency_parse(value, into);
    case KIND_CONFLICT:
        return record_conflict_parse(value, into);
    case KIND_BODIES:
        return parse_bodies(value, into);
    case KIND_EVENTS:
        return parse_events(value, into);
    case KIND_VIEW:
        return parse_view(value, into);
    case KIND_STATE: {
        enum job_state state = job_state_parse(value);
        *(enum job_state *)into = state;
        return state != 0;
    }
    case KIND_FLAG:
        *(bool *)into = slice_is(value, "true");
        return *(bool *)into || slice_is(value, "false");
    case KIND_ORDER:
        *(bool *)into = slice_is(value, "priority");
        return *(bool *)into || slice_is(value, "named");
    case KIND_GROUPS_ORDER:
        return parse_groups_order(value, into);
    case KIND_GROUP_ORDER:
        *(bool *)into = slice_is(value, "strict");
        return *(bool *)into || slice_is(value, "free");
    case KIND_GROUP:
        *(struct slice *)into = value;
        return flow_group_is_valid(value);
    case KIND_ON_DEAD:
        return batch_on_dead_parse(value, into);
    case KIND_OUTCOME:
        return batch_outcome_parse(value, into);
    case KIND_CONSUMER:
        *(struct slice *)into = value;
        return job_consumer_is_valid(value);
    case KIND_META: {
        struct slice meta_name, meta_value;
        *(struct slice *)into = value;
        return value.len <= (size_t)range.most && http_meta_split(value, &meta_name, &meta_value);
    }
    default:
        assert(option->kind == KIND_TEXT);
        *(struct slice *)into = value;
        return value.len >= (size_t)range.least && value.len <= (size_t)range.most;
    }
}

static bool add_repeated(const struct option *option, struct http_query *values, struct slice value,
                         struct http_fault *fault)
{
    bool is_lease = option->kind == KIND_LEASES;
    uint32_t *count = is_lease ? &values->lease_count : &values->topic_count;
    if (*count == (uint32_t)option->max)
        return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, (uint64_t)option->max,
                              "'%s' may be given at most %u times", option->name,
                              (unsigned)option->max);
    (is_lease ? values->leases : values->topics)[(*count)++] = value;
    return true;
}

/* Sets an option that the call has. */
static bool set_option(const struct option *option, struct http_fields *fields,
                       struct http_query *values, struct slice value, struct http_fault *fault)
{
    http_options bit = OPTION_BIT(option - options);
    bool repeats = option->kind >= KIND_TOPICS;
    if ((fields->set & bit) && !repeats)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "'%s' is given more than once",
                              option->name);
    fields->set |= bit;
    if (repeats)
        return add_repeated(option, values, value, fault);
    if (!parse_value(option, value, (char *)fields + option->offset))
        return refuse_value(option, value, fault);
    return true;
}

/* Sets the option, which has this name, or is NULL. */
static bool set_named_option(const struct option *option, struct http_fields *fields,
                             struct http_query *values, http_options allowed, struct slice name,
                             struct slice value, struct http_fault *fault)
{
    if (!option || !(allowed & OPTION_BIT(option - options)))
        return refuse_unknown_option(allowed, NULL, name, fault);
    return set_option(option, fields, values, value, fault);
}

bool http_option_set(struct http_fields *fields, enum http_option_id id, struct slice text,
                     struct http_fault *fault)
{
    assert(id < OPTION_COUNT && options[id].kind < KIND_TOPICS);
    return set_option(&options[id], fields, NULL, text, fault);
}

/* Returns whether a JSON value of this kind is allowed for the option; a text must be a string. */
static bool option_takes(const struct option *option, enum json_kind kind)
{
    if (option->kind == KIND_TEXT || option->kind == KIND_META || option->kind == KIND_CONSUMER ||
        option->kind == KIND_GROUP)
        return kind == JSON_STRING;
    return kind != JSON_ARRAY && kind != JSON_OBJECT && kind != JSON_NULL;
}

bool http_option_set_member(struct http_fields *fields, http_options allowed,
                            const char *const *beside, struct slice raw_key,
                            struct json_value value, struct buffer *scratch,
                            struct http_fault *fault)
{
    struct slice name, text = value.raw;
    if (!json_string_bytes(raw_key, scratch, &name))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    const struct option *option = find_option(allowed, name);
    if (!option || !(allowed & OPTION_BIT(option - options)))
        return refuse_unknown_option(allowed, beside, name, fault);
    if (value.kind == JSON_STRING && !json_string_bytes(value.raw, scratch, &text))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!option_takes(option, value.kind))
        return option->kind == KIND_TEXT
                   ? http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                                    "'%s' is %s but must be a string, in quotes", option->name,
                                    http_quotable(value.raw, 40))
                   : refuse_value(option, text, fault);
    return set_option(option, fields, NULL, text, fault);
}

bool http_query_refuse_body(struct slice body, http_options allowed, struct buffer *scratch,
                            struct http_fault *fault)
{
    struct json_value object, value;
    struct json_cursor cursor = {0};
    struct slice key, name;
    bool is_json = json_check(body, &object, NULL);
    if (is_json && object.kind == JSON_NULL)
        return true; /* treated as {} */
    if (!is_json || object.kind != JSON_OBJECT)
        return http_fault_set(
            fault, PROBLEM_BAD_REQUEST, 0,
            "this call takes no body: leave it out, its options are in the query");
    if (!json_next_member(object, &cursor, &key, &value))
        return true; /* {}, which some clients send for an empty body */
    if (!json_string_bytes(key, scratch, &name))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    const struct option *option = find_option(allowed, name);
    if (!option || !(allowed & OPTION_BIT(option - options)))
        return refuse_unknown_option(allowed, NULL, name, fault);
    return http_fault_set(fault, PROBLEM_UNKNOWN_OPTION, 0,
                          "this call takes no body: give '%s' in the query, as in ?%s=...",
                          option->name, option->name);
}

bool http_error_filter_check(const struct http_fields *fields, struct http_fault *fault)
{
    return !http_fields_have(fields, OPTION_ERROR) || fields->error.len ||
           http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                          "'error' is empty but must be a part of the jobs' last error");
}

bool http_fields_check(const struct http_fields *fields, struct http_fault *fault)
{
    if (http_fields_have(fields, OPTION_DELAY) && http_fields_have(fields, OPTION_AT))
        return http_fault_set(fault, PROBLEM_OPTION_CLASH, 0,
                              "'delay' and 'at' are both given: choose one");
    if (fields->final && http_fields_have(fields, OPTION_DELAY))
        return http_fault_set(fault, PROBLEM_OPTION_CLASH, 0,
                              "'final' and 'delay' are both given: a final failure is not retried");
    if (http_fields_have(fields, OPTION_ONCE_FOR) && !http_fields_have(fields, OPTION_ONCE))
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                              "'once' is missing: 'once_for' is the time for which it is "
                              "remembered");
    return true;
}

struct queue_when http_fields_when(const struct http_fields *fields, enum queue_due otherwise)
{
    if (http_fields_have(fields, OPTION_DELAY))
        return (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = fields->delay_ms};
    if (http_fields_have(fields, OPTION_AT))
        return (struct queue_when){.due = QUEUE_DUE_AT, .ms = fields->at_ms};
    return (struct queue_when){.due = otherwise};
}

/* ---- a whole request ---- */

static bool holds(struct slice text, char byte)
{
    return text.len && memchr(text.at, byte, text.len);
}

static bool decode_text(struct slice text, bool plus_is_space, struct buffer *scratch,
                        struct slice *out, struct http_fault *fault)
{
    if (!holds(text, '%') && !(plus_is_space && holds(text, '+'))) {
        *out = text;
        return true;
    }
    size_t start = scratch->len;
    assert(scratch->cap - scratch->len >= text.len); /* growing would invalidate earlier slices */
    if (!text_percent_decode(text, plus_is_space, scratch))
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                              "'%s' contains a %% that is not followed by two hex digits",
                              http_quotable(text, 40));
    *out = slice_make(scratch->at + start, scratch->len - start);
    return true;
}

/* Decodes a value of the query. '+' is a blank for options with blanks, as in forms, and itself in
 * a time. Elsewhere '+' is ambiguous and refused. */
static bool decode_value(const struct option *option, struct slice text, struct buffer *scratch,
                         struct slice *out, struct http_fault *fault)
{
    bool has_plus = option && holds(text, '+');
    if (has_plus && !option->has_blanks && option->kind != KIND_TIME && option->kind != KIND_MOMENT)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'%s' is '%s', in which '+' means a blank; write %%2B for a plus",
                              option->name, http_quotable(text, 40));
    return decode_text(text, has_plus && option->has_blanks, scratch, out, fault);
}

static bool parse_pair(struct slice pair, http_options allowed, struct http_query *out,
                       struct buffer *scratch, struct http_fault *fault)
{
    const char *equals = memchr(pair.at, '=', pair.len);
    size_t name_len = equals ? (size_t)(equals - pair.at) : pair.len;
    struct slice name, value = {0};
    if (!decode_text(slice_make(pair.at, name_len), false, scratch, &name, fault))
        return false;
    const struct option *option = find_option(allowed, name);
    if (equals && !decode_value(option, slice_make(equals + 1, pair.len - name_len - 1), scratch,
                                &value, fault))
        return false;
    return set_named_option(option, &out->fields, out, allowed, name, value, fault);
}

static bool parse_text(struct slice query, http_options allowed, struct http_query *out,
                       struct buffer *scratch, struct http_fault *fault)
{
    while (query.len) {
        const char *end = memchr(query.at, '&', query.len);
        size_t len = end ? (size_t)(end - query.at) : query.len;
        if (len && !parse_pair(slice_make(query.at, len), allowed, out, scratch, fault))
            return false;
        if (!end)
            break;
        query = slice_make(end + 1, query.len - len - 1);
    }
    return true;
}

/* Converts the name of a header: "Lease-For" to "lease_for"; "Order-Kind" as a name of meta to
 * "order-kind". */
static struct slice lower_name(struct slice name, char dash, char into[64])
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        into[i] = c == '-' ? dash : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return slice_make(into, name.len);
}

static bool add_header_meta(struct http_query *out, struct slice name, struct slice value,
                            struct http_fault *fault)
{
    if (!out->meta)
        return http_fault_set(fault, PROBLEM_UNKNOWN_OPTION, 0,
                              "this call takes no meta, but 'Tarry-Meta-%s' is given",
                              http_quotable(name, 64));
    return http_meta_add(out->meta, name, value, fault);
}

static bool parse_headers(const struct http_request *request, http_options allowed,
                          struct http_query *out, struct http_fault *fault)
{
    static const size_t prefix = sizeof "tarry-" - 1, meta_prefix = sizeof "meta-" - 1;
    char lower[64];
    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        if (!http_begins(header->name, "tarry-"))
            continue;
        struct slice name = slice_make(header->name.at + prefix, header->name.len - prefix);
        bool is_meta = http_begins(name, "meta-");
        if (is_meta)
            name = slice_make(name.at + meta_prefix, name.len - meta_prefix);
        if (name.len > sizeof lower)
            return http_fault_set(fault, PROBLEM_UNKNOWN_OPTION, sizeof lower,
                                  "the name of the header '%s' is too long",
                                  http_quotable(header->name, 80));
        name = lower_name(name, is_meta ? '-' : '_', lower);
        if (is_meta ? !add_header_meta(out, name, header->value, fault)
                    : !set_named_option(find_option(allowed, name), &out->fields, out, allowed,
                                        name, header->value, fault))
            return false;
    }
    return true;
}

bool http_query_parse(const struct http_request *request, http_options allowed,
                      struct http_query *out, struct buffer *scratch, struct http_fault *fault)
{
    out->fields = (struct http_fields){0};
    out->topic_count = out->lease_count = 0;
    if (!parse_text(request->query, allowed, out, scratch, fault))
        return false;
    if (request->has_tarry_headers && !parse_headers(request, allowed, out, fault))
        return false;
    return http_fields_check(&out->fields, fault);
}

/* ---- meta ---- */

bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault)
{
    static const size_t own = sizeof JOB_META_OWN - 1;
    const char *quoted = http_quotable(name, 64);
    if (name.len >= own && memcmp(name.at, JOB_META_OWN, own) == 0)
        return http_fault_set(fault, PROBLEM_BAD_META, 0,
                              "reserved meta name '%s': names that begin with '" JOB_META_OWN
                              "' belong to tarry; give a job's callback in the option 'callback'",
                              quoted);
    switch (job_meta_add(meta, name, value)) {
    case JOB_META_OK:
        return true;
    case JOB_META_BAD_NAME:
        return http_fault_set(fault, PROBLEM_BAD_META, 0,
                              "meta name '%s' is not valid; use 1 to 64 of a-z 0-9 -", quoted);
    case JOB_META_BAD_VALUE:
        return http_fault_set(fault, PROBLEM_BAD_META, 1024,
                              "the value of meta '%s' must be UTF-8 without control characters "
                              "(U+0000 to U+001F, U+007F to U+009F), at most 1024 bytes",
                              quoted);
    case JOB_META_TWICE:
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "meta '%s' is given more than once",
                              quoted);
    case JOB_META_TOO_MUCH:
        break;
    }
    return http_fault_set(fault, PROBLEM_BAD_META, JOB_META_BYTES_MAX,
                          "meta may hold at most %d pairs and %d bytes", JOB_META_PAIRS_MAX,
                          JOB_META_BYTES_MAX);
}

bool http_meta_split(struct slice text, struct slice *name, struct slice *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *colon = text.len ? memchr(text.at, ':', text.len) : NULL;
    if (!colon || colon == text.at)
        return false;
    *name = slice_make(text.at, (size_t)(colon - text.at));
    *value = slice_make(colon + 1, text.len - name->len - 1);
    for (size_t i = 0; i < name->len; i++)
        if (!memchr(letters, name->at[i], sizeof letters - 1))
            return false;
    return true;
}
