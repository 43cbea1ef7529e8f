/*
 * query: the options of a call, from its query string, from Tarry-* headers, or from members of a
 * JSON object. Pure.
 *
 * One table (query.c): an option `lease_for` is the query parameter `lease_for`, the header
 * `Tarry-Lease-For` and the member "lease_for". Each option may be given once over all places,
 * except `topic` and `lease`, which may be repeated. In a query '+' means '+', as in times; %20 is
 * a blank.
 *
 * Errors: an option that the call does not have (the message names the nearest one that it has), an
 * invalid value, a repeated option, and two options that exclude each other.
 */
#ifndef TARRY_HTTP_QUERY_H
#define TARRY_HTTP_QUERY_H

#include "base/buffer.h"
#include "base/json_read.h"
#include "http/fault.h"
#include "http/request.h"
#include "job/record.h"
#include "queue/queue.h"

enum http_option_id {
    OPTION_DELAY = 0,
    OPTION_AT,
    OPTION_PRIORITY,
    OPTION_TTL,
    OPTION_LEASE_FOR,
    OPTION_MAX_ATTEMPTS,
    OPTION_BACKOFF,
    OPTION_ON_CONFLICT,
    OPTION_LEASE,
    OPTION_MAX,
    OPTION_WAIT,
    OPTION_TOPIC,
    OPTION_ERROR,
    OPTION_STATE,
    OPTION_LIMIT,
    OPTION_CURSOR,
    OPTION_ID,
    OPTION_DEDUP_WINDOW,
    OPTION_HISTORY,
    OPTION_DEAD_LETTER_EXPIRED,
    OPTION_ATTEMPT,
    OPTION_BODY,
    OPTION_FINAL,
    OPTION_CALLBACK,
    OPTION_ID_PREFIX,
    OPTION_DIED_AFTER,
    OPTION_DIED_BEFORE,
    OPTION_DRY_RUN,
    OPTION_MAX_JOBS,
    OPTION_PUSH_RATE,
    OPTION_META,
    OPTION_EVENT,
    OPTION_VIEW,
    OPTION_FOR,
    OPTION_CONSUMER,
    OPTION_REQUEST,
    OPTION_BY,
    OPTION_TO,
    OPTION_WAIT_IDLE,
    OPTION_TIMEOUT,
    OPTION_AUTO,
    OPTION_ORDER,
    OPTION_RESTORE,
    OPTION_ONCE,
    OPTION_ONCE_FOR,
    OPTION_PREFIX,
    OPTION_OWNER,
    OPTION_PRUNE,
    OPTION_TAKE_OVER,
    OPTION_N,
    OPTION_FROM,
    OPTION_PACE,
    OPTION_DUE_AFTER,
    OPTION_DUE_BEFORE,
    OPTION_KEEP_FINISHED,
    OPTION_KEEP_FINISHED_MAX,
    OPTION_KEEP_FINISHED_BYTES,
    OPTION_KEEP_BODY,
    OPTION_PROGRESS,
    OPTION_UNTIL,
    OPTION_GROUP,
    OPTION_HOLD,
    OPTION_GROUPS_ORDER,
    OPTION_FLOW_LIMIT,
    OPTION_RATE,
    OPTION_BURST,
    OPTION_GROUP_LIMIT,
    OPTION_GROUP_RATE,
    OPTION_GROUP_BURST,
    OPTION_GROUP_MAX_JOBS,
    OPTION_GROUP_ORDER,
    OPTION_ONE_SHARD,
    OPTION_WEIGHT,
    OPTION_PAUSED,
    OPTION_PAUSED_UNTIL,
    OPTION_BATCH_TOPIC,
    OPTION_BATCH_ID,
    OPTION_PARENT,
    OPTION_WAITS,
    OPTION_ON_DEAD,
    OPTION_MEMBERS,
    OPTION_WAIT_AT_MOST,
    OPTION_CLOSE_WITHIN,
    OPTION_CANCEL_MEMBERS,
    OPTION_OUTCOME,
    OPTION_RESULTS,
    OPTION_COUNT
};
/* Marks calls of another API: unknown names are left to their handlers. */
enum { OPTION_FOREIGN = 127 };
_Static_assert((int)OPTION_COUNT < (int)OPTION_FOREIGN, "sets of options have 128 bits");

/* A set of options. */
typedef unsigned __int128 http_options;
#define OPTION_BIT(ID) ((http_options)1 << (ID))
#define OPTIONS_POLICY                                                                             \
    (OPTION_BIT(OPTION_PRIORITY) | OPTION_BIT(OPTION_TTL) | OPTION_BIT(OPTION_LEASE_FOR) |         \
     OPTION_BIT(OPTION_MAX_ATTEMPTS) | OPTION_BIT(OPTION_BACKOFF) |                                \
     OPTION_BIT(OPTION_ON_CONFLICT))
/* Options of a member of a batch, and of a waiting job. */
#define OPTIONS_BATCH                                                                              \
    (OPTION_BIT(OPTION_BATCH_TOPIC) | OPTION_BIT(OPTION_BATCH_ID) | OPTION_BIT(OPTION_PARENT) |    \
     OPTION_BIT(OPTION_WAITS) | OPTION_BIT(OPTION_ON_DEAD) | OPTION_BIT(OPTION_MEMBERS) |          \
     OPTION_BIT(OPTION_WAIT_AT_MOST) | OPTION_BIT(OPTION_CLOSE_WITHIN))
#define OPTIONS_PUSH                                                                               \
    (OPTIONS_POLICY | OPTIONS_BATCH | OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) |           \
     OPTION_BIT(OPTION_CALLBACK) | OPTION_BIT(OPTION_ONCE) | OPTION_BIT(OPTION_ONCE_FOR) |         \
     OPTION_BIT(OPTION_KEEP_FINISHED) | OPTION_BIT(OPTION_GROUP))
/* Options of an item of a batch, which may contain its history on another server. */
#define OPTIONS_ITEM                                                                               \
    (OPTIONS_PUSH | OPTION_BIT(OPTION_ATTEMPT) | OPTION_BIT(OPTION_STATE) |                        \
     OPTION_BIT(OPTION_ERROR))
#define OPTIONS_LIMITS                                                                             \
    (OPTION_BIT(OPTION_FLOW_LIMIT) | OPTION_BIT(OPTION_RATE) | OPTION_BIT(OPTION_BURST))
#define OPTIONS_TOPIC                                                                              \
    (OPTIONS_POLICY | OPTION_BIT(OPTION_DEDUP_WINDOW) | OPTION_BIT(OPTION_DEAD_LETTER_EXPIRED) |   \
     OPTION_BIT(OPTION_MAX_JOBS) | OPTION_BIT(OPTION_PUSH_RATE) | OPTION_BIT(OPTION_HISTORY) |     \
     OPTION_BIT(OPTION_KEEP_FINISHED) | OPTION_BIT(OPTION_KEEP_FINISHED_MAX) |                     \
     OPTION_BIT(OPTION_KEEP_FINISHED_BYTES) | OPTION_BIT(OPTION_KEEP_BODY) | OPTIONS_LIMITS |      \
     OPTION_BIT(OPTION_GROUP_LIMIT) | OPTION_BIT(OPTION_GROUP_RATE) |                              \
     OPTION_BIT(OPTION_GROUP_BURST) | OPTION_BIT(OPTION_GROUP_MAX_JOBS) |                          \
     OPTION_BIT(OPTION_GROUP_ORDER) | OPTION_BIT(OPTION_ONE_SHARD))
/* Options of the settings of one group. */
#define OPTIONS_GROUP                                                                              \
    (OPTIONS_LIMITS | OPTION_BIT(OPTION_WEIGHT) | OPTION_BIT(OPTION_MAX_JOBS) |                    \
     OPTION_BIT(OPTION_PAUSED) | OPTION_BIT(OPTION_PAUSED_UNTIL))
/* Options that select dead jobs for a purge or a redrive. */
#define OPTIONS_FILTER                                                                             \
    (OPTION_BIT(OPTION_ERROR) | OPTION_BIT(OPTION_ID_PREFIX) | OPTION_BIT(OPTION_DIED_AFTER) |     \
     OPTION_BIT(OPTION_DIED_BEFORE))

/* Options that select waiting jobs for a cancel, reschedule or run. */
#define OPTIONS_WAITING                                                                            \
    (OPTION_BIT(OPTION_ID_PREFIX) | OPTION_BIT(OPTION_META) | OPTION_BIT(OPTION_DUE_AFTER) |       \
     OPTION_BIT(OPTION_DUE_BEFORE) | OPTION_BIT(OPTION_STATE))

/* Options that select the jobs of a list. */
#define OPTIONS_SEARCH                                                                             \
    (OPTION_BIT(OPTION_ERROR) | OPTION_BIT(OPTION_ID_PREFIX) | OPTION_BIT(OPTION_META))

#define HTTP_WAIT_MS_MAX                                                                           \
    (4LL * 60 * 1000) /* shorter than the timeout of many clients, which is 5 minutes */
enum { HTTP_CALLBACK_BYTES_MAX = 1024 }; /* as the limit of a meta value */

#define HTTP_IDLE_MS_MAX (10LL * 60 * 1000) /* maximum wait of a call that moves the test clock */

/* Format of bodies in a list. */
enum http_bodies {
    HTTP_BODIES_NONE = 1,
    HTTP_BODIES_SHOWN, /* as a get shows them */
    HTTP_BODIES_BASE64 /* in base64, exact */
};

/* The view of a live stream, see live.h. */
enum http_live_view { HTTP_LIVE_OVERVIEW = 1, HTTP_LIVE_TOPIC, HTTP_LIVE_SERVER };

/* The options given; zeroed if not given, as `set` shows. */
struct http_fields {
    http_options set; /* OPTION_BIT of each option given */
    int64_t delay_ms, at_ms, wait_ms, for_ms, dedup_window_ms, history_ms, died_after_ms,
        died_before_ms, once_for_ms, due_after_ms, due_before_ms, keep_finished_ms, hold_ms,
        paused_until_ms;
    struct policy policy; /* lease_for, ttl, max_attempts, backoff */
    int64_t priority;
    int64_t max, limit, max_jobs, keep_finished_max, keep_finished_bytes;
    int64_t by_ms, to_ms, timeout_ms; /* to_ms INT64_MAX: to the next event */
    int64_t from_ms, pace_ms, n;
    int64_t flow_limit, burst, group_limit, group_burst, group_max_jobs, weight;
    struct frequency push_rate, rate, group_rate;
    enum record_conflict on_conflict;
    enum job_state state;
    enum http_bodies bodies;
    uint32_t events; /* one bit per kind */
    uint32_t attempt;
    bool dead_letter_expired, final, dry_run, request, wait_idle, is_auto, by_priority, restore,
        prune, take_over, keep_body, one_shard, paused, is_strict;
    enum queue_groups_order groups_order;
    enum http_live_view view;
    struct slice error, cursor, id, id_prefix, callback, meta, consumer, once, prefix, owner,
        progress, until, group;
    struct queue_batch batch;
    int64_t members;
    enum batch_outcome outcome;
    bool cancel_members, results;
};

struct http_query {
    struct http_fields fields;
    struct slice topics[QUEUE_TAKE_TOPICS_MAX];
    struct slice leases[QUEUE_BATCH_MAX];
    uint32_t topic_count, lease_count;
    struct buffer *meta; /* receives the pairs of Tarry-Meta-*; NULL: the call has no meta */
};

/* Reads one option from a member of a JSON object: the text of a string, number, true or false.
 * `allowed` holds the options of the call. `beside` lists other members of the object, for the
 * suggestion in an error message (at most HTTP_MEMBERS_BESIDE_MAX, terminated by NULL; or NULL).
 * Unescapes into `scratch`. */
enum { HTTP_MEMBERS_BESIDE_MAX = 8 };
bool http_option_set_member(struct http_fields *fields, http_options allowed,
                            const char *const *beside, struct slice raw_key,
                            struct json_value value, struct buffer *scratch,
                            struct http_fault *fault);

/* Sets an option of another format from its text, which must outlive `fields` as far as they hold text. */
bool http_option_set(struct http_fields *fields, enum http_option_id id, struct slice text,
                     struct http_fault *fault);

/* Returns whether `allowed` holds an option of this name. */
bool http_option_is_allowed(http_options allowed, struct slice name);

/* Refuses a body of a call without one, since options in it would be ignored silently. Returns true
 * if the body is an empty object. */
bool http_query_refuse_body(struct slice body, http_options allowed, struct buffer *scratch,
                            struct http_fault *fault);

/* Reads all options of a request. Empties `out` first, except `meta`. Decoded text goes to
 * `scratch`, which must outlive `out` and have room for the length of the query. */
bool http_query_parse(const struct http_request *request, http_options allowed,
                      struct http_query *out, struct buffer *scratch, struct http_fault *fault);

/* Checks the `error` of a search or a sweep: an empty one would match any job. */
bool http_error_filter_check(const struct http_fields *fields, struct http_fault *fault);

/* Checks the rules between options. */
bool http_fields_check(const struct http_fields *fields, struct http_fault *fault);

static inline bool http_fields_have(const struct http_fields *fields, enum http_option_id id)
{
    return fields->set & OPTION_BIT(id);
}

/* Returns when a job is due by `delay` or `at`, or `otherwise` if neither was given. */
struct queue_when http_fields_when(const struct http_fields *fields, enum queue_due otherwise);

/* Returns a description of valid values of the option, or NULL if the option does not exist. */
const char *http_option_values(const char *name);

/* ---- meta: the string map of a job ---- */

/* Adds a name and a value given by a client. */
bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault);

/* Splits `NAME:VALUE` or `NAME:` of an option. Returns false for other text. */
bool http_meta_split(struct slice text, struct slice *name, struct slice *value);

#endif
