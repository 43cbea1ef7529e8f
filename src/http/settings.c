#include "http/settings.h"

#include "base/duration.h"
#include "base/json_write.h"
#include "http/json_shape.h"
#include "job/record.h"

/* ---- extension ---- */

/* Members of kind JSON_NONE were not given. */
struct extension {
    struct json_value deliver, dead_letter;
};

static bool extension_has(struct slice raw_key)
{
    return json_string_is(raw_key, "deliver") || json_string_is(raw_key, "dead_letter");
}

static bool extension_set(struct extension *extension, struct slice raw_key,
                          struct json_value value, struct http_fault *fault)
{
    bool is_deliver = json_string_is(raw_key, "deliver");
    struct json_value *member = is_deliver ? &extension->deliver : &extension->dead_letter;
    const char *name = is_deliver ? "deliver" : "dead_letter";
    if (member->kind)
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "'%s' is given more than once", name);
    if (value.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "'%s' must be an object such as %s",
                              name,
                              is_deliver ? "{\"to\":\"https://shop.example/close-order\"}"
                                         : "{\"keep\":{\"age\":\"30d\"}}");
    *member = value;
    return true;
}

static void write_extension_member(struct buffer *out, bool follows, const char *key,
                                   struct json_value value)
{
    if (!value.kind)
        return;
    if (follows)
        buffer_append_byte(out, ',');
    json_write_key(out, key);
    json_shape_compact(value.raw, out);
}

static bool extension_write(const struct extension *extension, struct buffer *out,
                            struct http_fault *fault)
{
    size_t start = out->len;
    if (!extension->deliver.kind && !extension->dead_letter.kind)
        return true;
    buffer_append_byte(out, '{');
    write_extension_member(out, false, "deliver", extension->deliver);
    write_extension_member(out, extension->deliver.kind, "dead_letter", extension->dead_letter);
    buffer_append_byte(out, '}');
    if (out->failed)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (out->len - start > TOPIC_EXTENSION_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_BAD_DELIVERY, TOPIC_EXTENSION_BYTES_MAX,
                              "'deliver' and 'dead_letter' take %zu bytes together, but at most %d "
                              "are kept with a topic",
                              out->len - start, TOPIC_EXTENSION_BYTES_MAX);
    return true;
}

bool http_delivery_refuse(struct http_fault *fault, const char *what)
{
    return http_fault_set(fault, PROBLEM_DELIVERY_IS_OFF, 0,
                          "this server delivers nothing by itself, so there is no use in %s: start "
                          "it with --deliver FILE, which says what may be reached",
                          what);
}

static bool begins_with_deliver(struct slice extension)
{
    static const char begin[] = "{\"deliver\":";
    return extension.len >= sizeof begin - 1 && memcmp(extension.at, begin, sizeof begin - 1) == 0;
}

bool http_extension_check(const struct http_hooks *hooks, struct slice topic,
                          struct slice extension, struct http_fault *fault)
{
    char error[HTTP_HOOK_ERROR_BYTES] = "";
    if (!extension.len)
        return true;
    if (!hooks || (begins_with_deliver(extension) && !http_delivery_is_on(hooks)))
        return http_delivery_refuse(fault, "'deliver' and 'dead_letter'");
    return hooks->check_extension(hooks->ctx, topic, extension, error) ||
           http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "%s", error);
}

/* ---- read ---- */

static bool read_settings_members(struct json_value object, struct http_fields *fields,
                                  struct extension *extension, struct buffer *scratch,
                                  struct http_fault *fault)
{
    static const char *const beside[] = {"deliver", "dead_letter", NULL};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value))
        if (!(extension_has(key) ? extension_set(extension, key, value, fault)
                                 : http_option_set_member(fields, OPTIONS_TOPIC, beside, key, value,
                                                          scratch, fault)))
            return false;
    return true;
}

bool http_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                        struct buffer *extension, struct http_fault *fault)
{
    struct extension members = {0};
    struct json_value object;
    size_t error_at;
    if (!json_check(json, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object of settings such as "
                              "{\"max_attempts\":5,\"backoff\":\"exp:1s..10m\"}");
    return read_settings_members(object, fields, &members, scratch, fault) &&
           extension_write(&members, extension, fault);
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

void http_fields_settings(const struct http_fields *fields, struct topic_settings *settings)
{
    *settings = (struct topic_settings){
        .policy = fields->policy,
        .on_conflict = fields->on_conflict,
        .priority = (int32_t)fields->priority,
        .has_priority = http_fields_have(fields, OPTION_PRIORITY),
        .dead_letter_expired = fields->dead_letter_expired,
        .dedup_window_ms = fields->dedup_window_ms,
    };
}
