#include "api/settings.h"

#include "api/groups.h"
#include "api/json_shape.h"
#include "base/duration.h"
#include "base/json_write.h"
#include "base/url.h"
#include "job/json.h"

#include <stddef.h>

/* ---- extension: the settings of delivery ---- */

/* The members of an extension; kind JSON_NONE if not given. */
struct extension {
    struct json_value deliver, dead_letter, sqs;
};

static const struct extension_row {
    const char *name;
    size_t offset; /* offset in struct extension */
    const char *example;
} extension_rows[] = {
    {"deliver", offsetof(struct extension, deliver),
     "{\"to\":\"https://shop.example/close-order\"}"},
    {"dead_letter", offsetof(struct extension, dead_letter), "{\"keep\":{\"age\":\"30d\"}}"},
    {"sqs", offsetof(struct extension, sqs), "{\"delay\":60}"},
};
enum { EXTENSION_ROWS = sizeof extension_rows / sizeof extension_rows[0] };

static struct json_value *extension_member(const struct extension *extension,
                                           const struct extension_row *row)
{
    return (struct json_value *)(uintptr_t)((const char *)extension + row->offset);
}

/* Returns the row of a member, or NULL if the extension has no such member. */
static const struct extension_row *extension_find(struct slice raw_key)
{
    for (size_t i = 0; i < EXTENSION_ROWS; i++)
        if (json_string_is(raw_key, extension_rows[i].name))
            return &extension_rows[i];
    return NULL;
}

static bool extension_set(struct extension *extension, const struct extension_row *row,
                          struct json_value value, struct http_fault *fault)
{
    struct json_value *member = extension_member(extension, row);
    if (member->kind)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "'%s' is given more than once",
                              row->name);
    if (value.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "'%s' must be an object such as %s",
                              row->name, row->example);
    *member = value;
    return true;
}

static bool extension_write(const struct extension *extension, struct buffer *out,
                            struct http_fault *fault)
{
    size_t start = out->len;
    for (size_t i = 0; i < EXTENSION_ROWS; i++) {
        const struct json_value *member = extension_member(extension, &extension_rows[i]);
        if (!member->kind)
            continue;
        buffer_append_byte(out, out->len == start ? '{' : ',');
        json_write_key(out, extension_rows[i].name);
        json_shape_compact(member->raw, out);
    }
    if (out->len == start)
        return true;
    buffer_append_byte(out, '}');
    if (out->failed)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (out->len - start > TOPIC_EXTENSION_BYTES_MAX)
        return http_fault_set(
            fault, PROBLEM_BAD_DELIVERY, TOPIC_EXTENSION_BYTES_MAX,
            "'deliver' and 'dead_letter' have %zu bytes together, but a topic stores at most %d",
            out->len - start, TOPIC_EXTENSION_BYTES_MAX);
    return true;
}

static bool begins_with_deliver(struct slice extension)
{
    static const char begin[] = "{\"deliver\":";
    return extension.len >= sizeof begin - 1 && memcmp(extension.at, begin, sizeof begin - 1) == 0;
}

bool api_extension_check(const struct http_hooks *hooks, struct slice topic, struct slice extension,
                         struct http_fault *fault)
{
    char error[HTTP_HOOK_ERROR_BYTES] = "";
    if (!extension.len)
        return true;
    if (!hooks || (begins_with_deliver(extension) && !http_delivery_is_on(hooks)))
        return http_delivery_refuse(fault,
                                    begins_with_deliver(extension) ? "'deliver'" : "'dead_letter'");
    return hooks->check_extension(hooks->ctx, topic, extension, error) ||
           http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "%s", error);
}

/* ---- settings: parsing ---- */

static bool read_settings_members(struct json_value object, struct http_fields *fields,
                                  struct extension *extension, struct buffer *scratch,
                                  struct http_fault *fault)
{
    static const char *const beside[] = {"deliver", "dead_letter", NULL};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value)) {
        const struct extension_row *row = extension_find(key);
        if (!(row ? extension_set(extension, row, value, fault)
                  : http_option_set_member(fields, OPTIONS_TOPIC, beside, key, value, scratch,
                                           fault)))
            return false;
    }
    return true;
}

/* Parses an object of `what`, which is for the error. */
static bool read_object(struct slice json, struct json_value *object, const char *what,
                        struct http_fault *fault)
{
    size_t error_at;
    if (!json_check(json, object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object->kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "the body must be an object of %s", what);
    return true;
}

bool api_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                       struct buffer *extension, struct http_fault *fault)
{
    struct extension members = {0};
    struct json_value object;
    return read_object(json, &object,
                       "settings such as {\"max_attempts\":5,\"backoff\":\"exp:1s..10m\"}",
                       fault) &&
           read_settings_members(object, fields, &members, scratch, fault) &&
           extension_write(&members, extension, fault);
}

/* ---- settings: writing ---- */

void api_settings_write(struct buffer *out, const struct topic_settings *settings)
{
    struct slice extension = settings->extension;
    buffer_append_byte(out, '{');
    json_write_member_bool(out, "dead_letter_expired", settings->dead_letter_expired);
    if (settings->dedup_window_ms) {
        buffer_append_text(out, ",\"dedup_window\":\"");
        duration_emit(out, settings->dedup_window_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->history_ms) {
        buffer_append_text(out, ",\"history\":\"");
        duration_emit(out, settings->history_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->keep_finished_ms) {
        buffer_append_text(out, ",\"keep_finished\":\"");
        duration_emit(out, settings->keep_finished_ms);
        buffer_append_byte(out, '"');
    }
    if (settings->keep_finished_max) {
        buffer_append_text(out, ",\"keep_finished_max\":");
        buffer_append_u64(out, settings->keep_finished_max);
    }
    if (settings->keep_finished_bytes) {
        buffer_append_text(out, ",\"keep_finished_bytes\":");
        buffer_append_u64(out, settings->keep_finished_bytes);
    }
    if (settings->keep_body)
        buffer_append_text(out, ",\"keep_body\":true");
    if (settings->has_priority) {
        buffer_append_text(out, ",\"priority\":");
        buffer_append_i64(out, settings->priority);
    }
    if (settings->on_conflict) {
        buffer_append_text(out, ",\"on_conflict\":\"");
        buffer_append_text(out, record_conflict_name(settings->on_conflict));
        buffer_append_byte(out, '"');
    }
    job_json_write_policy(out, &settings->policy);
    if (settings->max_jobs) {
        buffer_append_text(out, ",\"max_jobs\":");
        buffer_append_u64(out, settings->max_jobs);
    }
    if (settings->push_rate.count) {
        buffer_append_text(out, ",\"push_rate\":\"");
        frequency_emit(out, settings->push_rate);
        buffer_append_byte(out, '"');
    }
    job_json_write_flow(out, &settings->flow);
    if (extension.len > 2) { /* append its members without the braces */
        buffer_append_byte(out, ',');
        buffer_append(out, extension.at + 1, extension.len - 2);
    }
    buffer_append_byte(out, '}');
}

/* ---- settings: merge patch ---- */

static bool refuse_patch(struct http_fault *fault, struct slice twice)
{
    if (twice.len)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              http_quotable(twice, 60));
    return http_fault_set(fault, PROBLEM_BAD_JSON, JSON_SHAPE_MEMBERS_MAX,
                          "an object of the patch has more than %d members",
                          JSON_SHAPE_MEMBERS_MAX);
}

bool api_settings_patch(const struct topic_settings *settings, struct slice patch,
                        struct buffer *out, struct http_fault *fault)
{
    struct json_value target, change;
    struct buffer now;
    struct slice twice;
    if (!read_object(patch, &change,
                     "the settings to change such as {\"max_attempts\":5,\"ttl\":null}", fault))
        return false;
    buffer_init(&now, API_PATCH_BYTES_MAX);
    api_settings_write(&now, settings);
    bool done = json_check(buffer_slice(&now), &target, NULL);
    if (!done)
        (void)http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "the topic's settings cannot be read");
    else if (!(done = json_shape_merge(target, change, out, &twice)))
        (void)refuse_patch(fault, twice);
    else if (out->failed)
        done = http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    buffer_fini(&now);
    return done;
}

void api_fields_settings(const struct http_fields *fields, struct topic_settings *settings)
{
    *settings = (struct topic_settings){
        .policy = fields->policy,
        .on_conflict = fields->on_conflict,
        .priority = (int32_t)fields->priority,
        .has_priority = http_fields_have(fields, OPTION_PRIORITY),
        .dead_letter_expired = fields->dead_letter_expired,
        .dedup_window_ms = fields->dedup_window_ms,
        .history_ms = fields->history_ms,
        .keep_finished_ms = fields->keep_finished_ms,
        .keep_finished_max = (uint64_t)fields->keep_finished_max,
        .keep_finished_bytes = (uint64_t)fields->keep_finished_bytes,
        .keep_body = fields->keep_body,
        .max_jobs = (uint64_t)fields->max_jobs,
        .push_rate = fields->push_rate,
        .flow = {.topic = api_fields_limits(fields),
                 .group = {.limit = (uint32_t)fields->group_limit,
                           .rate = fields->group_rate,
                           .burst = (uint32_t)fields->group_burst},
                 .group_max_jobs = (uint64_t)fields->group_max_jobs,
                 .group_order = fields->is_strict ? FLOW_STRICT : FLOW_FREE,
                 .one_shard = fields->one_shard},
    };
}

/* ---- topics that are FIFO queues of SQS ---- */

/* Returns whether the topic with this extension is a FIFO queue, by the mark that the calls of SQS keep there. */
static bool is_fifo(struct slice extension)
{
    struct json_value members = {0};
    if (extension.len)
        (void)json_check(extension, &members, NULL);
    return json_member(json_member(members, "sqs"), "fifo").kind == JSON_TRUE;
}

/* Rejects settings that would end a FIFO queue. */
static bool check_fifo(const struct topic_settings *held, const struct topic_settings *settings,
                       struct http_fault *fault)
{
    return !is_fifo(held->extension) ||
           (is_fifo(settings->extension) && settings->flow.group_order == held->flow.group_order) ||
           http_fault_set(fault, PROBLEM_FIFO_QUEUE, 0,
                          "the topic is a FIFO queue of SQS: 'group_order' and the mark in 'sqs' "
                          "cannot be changed, delete the queue instead; nothing was changed");
}

bool api_settings_keep_fifo(const struct topic_settings *held, struct topic_settings *settings,
                            bool has_order, struct buffer *out, struct http_fault *fault)
{
    struct extension members = {0};
    struct json_value given = {0}, before = {0};
    if (!is_fifo(held->extension))
        return true;
    if (!has_order)
        settings->flow.group_order = held->flow.group_order;
    if (settings->extension.len)
        (void)json_check(settings->extension, &given, NULL);
    (void)json_check(held->extension, &before, NULL);
    for (size_t i = 0; i < EXTENSION_ROWS; i++)
        *extension_member(&members, &extension_rows[i]) =
            json_member(given, extension_rows[i].name);
    if (!members.sqs.kind)
        members.sqs = json_member(before, "sqs");
    bool done = extension_write(&members, out, fault);
    settings->extension = buffer_slice(out);
    return done && check_fifo(held, settings, fault);
}

/* ---- merging ---- */

bool api_settings_merge(const struct topic_settings *held, struct slice patch,
                        struct buffer *extension, struct topic_settings *out,
                        struct http_fault *fault)
{
    struct http_fields fields = {0};
    struct buffer scratch, merged;
    buffer_init(&merged, 2 * API_PATCH_BYTES_MAX);
    buffer_init(&scratch, 2 * API_PATCH_BYTES_MAX);
    bool done = buffer_reserve(&scratch, 2 * API_PATCH_BYTES_MAX) != NULL ||
                http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    done = done && api_settings_patch(held, patch, &merged, fault) &&
           api_settings_read(buffer_slice(&merged), &fields, &scratch, extension, fault);
    if (done) {
        api_fields_settings(&fields, out);
        out->extension = buffer_slice(extension);
    }
    buffer_fini(&scratch);
    buffer_fini(&merged);
    return done && check_fifo(held, out, fault);
}

/* ---- differences ---- */

/* Returns the member of an object by its raw name. */
static struct json_value member_of(struct json_value object, struct slice raw)
{
    struct json_cursor cursor = {0};
    struct slice key;
    struct json_value value;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value))
        if (slice_equals(key, raw))
            return value;
    return (struct json_value){0};
}

/* Returns scheme and hosts of a URL, without what may be secret. Returns an empty slice if there is
 * no value. */
static struct slice origin_of(struct json_value value)
{
    struct url url;
    if (value.kind != JSON_STRING)
        return (struct slice){0};
    if (url_parse(slice_make(value.raw.at + 1, value.raw.len - 2), &url) != URL_OK)
        return slice_of("another target");
    const char *end = url.authority.at + url.authority.len;
    return url.has_user ? url.authority : slice_make(url.scheme.at, (size_t)(end - url.scheme.at));
}

static void append_value(struct buffer *out, struct slice value)
{
    enum { VALUE_BYTES_MAX = 60 };
    if (value.len > VALUE_BYTES_MAX) {
        buffer_append(out, value.at, VALUE_BYTES_MAX);
        buffer_append_text(out, "...");
    } else {
        buffer_append_slice(out, value.len ? value : slice_of("unset"));
    }
}

static void append_difference(struct buffer *out, struct slice group, struct slice name,
                              struct json_value before, struct json_value after)
{
    struct slice from = before.raw, to = after.raw;
    if (out->len)
        buffer_append_text(out, "; ");
    if (group.len) {
        buffer_append_slice(out, group);
        buffer_append_byte(out, '.');
        from = slice_is(name, "to") ? origin_of(before) : (struct slice){0};
        to = slice_is(name, "to") ? origin_of(after) : (struct slice){0};
    }
    buffer_append_slice(out, name);
    buffer_append_text(out, ": ");
    if (slice_equals(from, to)) {
        buffer_append_text(out, "changed");
        return;
    }
    append_value(out, from);
    buffer_append_text(out, " -> ");
    append_value(out, to);
}

/*
 * Appends the members of `object` that differ in `other`, as `name: before -> after`. If
 * `is_before`, `object` has the values before, and only members that `other` lacks are appended.
 * Of the members of an object, called `group`, only the names are appended, and of a URL its
 * scheme and hosts: paths and headers of targets may be secret.
 */
static void append_differences(struct buffer *out, struct slice group, struct json_value object,
                               struct json_value other, bool is_before)
{
    struct json_cursor cursor = {0};
    struct slice key;
    struct json_value value;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        struct json_value held = member_of(other, key);
        struct json_value before = is_before ? value : held, after = is_before ? held : value;
        struct slice name = slice_make(key.at + 1, key.len - 2);
        if (slice_equals(before.raw, after.raw) || (is_before && after.kind))
            continue;
        if (!group.len && (before.kind == JSON_OBJECT || after.kind == JSON_OBJECT)) {
            append_differences(out, name, after, before, false);
            append_differences(out, name, before, after, true);
        } else {
            append_difference(out, group, name, before, after);
        }
    }
}

void api_settings_write_differences(struct buffer *out, const struct topic_settings *held,
                                    const struct topic_settings *settings)
{
    struct buffer before, after;
    struct json_value old = {0}, now = {0};
    buffer_init(&before, API_PATCH_BYTES_MAX);
    buffer_init(&after, API_PATCH_BYTES_MAX);
    api_settings_write(&before, held);
    api_settings_write(&after, settings);
    if (json_check(buffer_slice(&before), &old, NULL) &&
        json_check(buffer_slice(&after), &now, NULL)) {
        append_differences(out, (struct slice){0}, now, old, false);
        append_differences(out, (struct slice){0}, old, now, true);
    }
    buffer_fini(&before);
    buffer_fini(&after);
}
