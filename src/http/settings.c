#include "http/settings.h"

#include "base/duration.h"
#include "base/json_write.h"
#include "http/delivery.h"
#include "http/json_shape.h"

/* ---- read ---- */

static bool read_members(struct json_value object, struct http_fields *fields,
                         struct http_extension *extension, struct buffer *scratch,
                         struct http_fault *fault)
{
    static const char *const beside[] = {"deliver", "dead_letter", NULL};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value))
        if (!(http_extension_has(key) ? http_extension_set(extension, key, value, fault)
                                      : http_option_set_member(fields, OPTIONS_TOPIC, beside, key,
                                                               value, scratch, fault)))
            return false;
    return true;
}

bool http_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                        struct buffer *extension, struct http_fault *fault)
{
    struct http_extension members = {0};
    struct json_value object;
    size_t error_at;
    if (!json_check(json, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object of settings such as "
                              "{\"max_attempts\":5,\"backoff\":\"exp:1s..10m\"}");
    return read_members(object, fields, &members, scratch, fault) &&
           http_extension_write(&members, extension, fault);
}

/* ---- write ---- */

static void write_duration(struct buffer *out, const char *key, int64_t ms)
{
    if (!ms)
        return;
    buffer_append_byte(out, ',');
    json_write_key(out, key);
    buffer_append_byte(out, '"');
    duration_emit(out, ms);
    buffer_append_byte(out, '"');
}

void http_policy_write(struct buffer *out, const struct policy *policy)
{
    write_duration(out, "lease_for", policy->lease_ms);
    write_duration(out, "ttl", policy->ttl_ms);
    if (policy->max_attempts) {
        buffer_append_text(out, ",\"max_attempts\":");
        buffer_append_u64(out, policy->max_attempts);
    }
    if (policy->backoff.kind) {
        buffer_append_text(out, ",\"backoff\":\"");
        policy_emit_backoff(out, &policy->backoff);
        buffer_append_byte(out, '"');
    }
}

void http_settings_write(struct buffer *out, const struct topic_settings *settings)
{
    static const char *const conflicts[] = {NULL, "replace", "keep", "reject"};
    struct slice extension = settings->extension;
    buffer_append_text(out, "{\"dead_letter_expired\":");
    buffer_append_text(out, settings->dead_letter_expired ? "true" : "false");
    write_duration(out, "dedup_window", settings->dedup_window_ms);
    if (settings->has_priority) {
        buffer_append_text(out, ",\"priority\":");
        buffer_append_i64(out, settings->priority);
    }
    if (settings->on_conflict) {
        buffer_append_text(out, ",\"on_conflict\":\"");
        buffer_append_text(out, conflicts[settings->on_conflict]);
        buffer_append_byte(out, '"');
    }
    http_policy_write(out, &settings->policy);
    if (extension.len > 2) { /* its members, without the braces */
        buffer_append_byte(out, ',');
        buffer_append(out, extension.at + 1, extension.len - 2);
    }
    buffer_append_byte(out, '}');
}

/* ---- patch ---- */

static bool refuse_patch(struct http_fault *fault, struct slice twice)
{
    if (twice.len)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              http_quotable(twice, 60));
    return http_fault_set(fault, PROBLEM_BAD_JSON, JSON_SHAPE_MEMBERS_MAX,
                          "an object of the patch has more than %d members",
                          JSON_SHAPE_MEMBERS_MAX);
}

bool http_settings_patch(const struct topic_settings *settings, struct slice patch,
                         struct buffer *out, struct http_fault *fault)
{
    struct json_value target, change;
    struct buffer now;
    struct slice twice;
    size_t error_at;
    if (!json_check(patch, &change, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (change.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object of the settings to change such as "
                              "{\"max_attempts\":5,\"ttl\":null}");
    buffer_init(&now, HTTP_PATCH_BYTES_MAX);
    http_settings_write(&now, settings);
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
