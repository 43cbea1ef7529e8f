#include "http/delivery.h"

#include "base/json_write.h"
#include "http/json_shape.h"
#include "http/query.h"
#include "job/record.h"

bool http_delivery_is_on(const struct http_hooks *hooks)
{
    return hooks && (!hooks->is_on || hooks->is_on(hooks->ctx));
}

/* ---- extension ---- */

bool http_extension_has(struct slice raw_key)
{
    return json_string_is(raw_key, "deliver") || json_string_is(raw_key, "dead_letter");
}

bool http_extension_set(struct http_extension *extension, struct slice raw_key,
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

static void write_member(struct buffer *out, bool follows, const char *key, struct json_value value)
{
    if (!value.kind)
        return;
    if (follows)
        buffer_append_byte(out, ',');
    json_write_key(out, key);
    json_shape_compact(value.raw, out);
}

bool http_extension_write(const struct http_extension *extension, struct buffer *out,
                          struct http_fault *fault)
{
    size_t start = out->len;
    if (!extension->deliver.kind && !extension->dead_letter.kind)
        return true;
    buffer_append_byte(out, '{');
    write_member(out, false, "deliver", extension->deliver);
    write_member(out, extension->deliver.kind, "dead_letter", extension->dead_letter);
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

static bool refuse_off(struct http_fault *fault, const char *what)
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
        return refuse_off(fault, "'deliver' and 'dead_letter'");
    return hooks->check_extension(hooks->ctx, topic, extension, error) ||
           http_fault_set(fault, PROBLEM_BAD_DELIVERY, 0, "%s", error);
}

/* ---- callback ---- */

bool http_callback_add(struct buffer *meta, struct slice url, const struct http_hooks *hooks,
                       struct http_fault *fault)
{
    char error[HTTP_HOOK_ERROR_BYTES] = "";
    if (!http_delivery_is_on(hooks))
        return refuse_off(fault, "a callback");
    if (!hooks->check_callback(hooks->ctx, url, error))
        return http_fault_set(fault, PROBLEM_BAD_CALLBACK, 0, "%s", error);
    switch (job_meta_add(meta, slice_of(JOB_META_CALLBACK), url)) {
    case JOB_META_OK:
        return true;
    case JOB_META_TOO_MUCH:
        return http_fault_set(fault, PROBLEM_BAD_META, JOB_META_BYTES_MAX,
                              "meta and the callback together may hold at most %d pairs and %d "
                              "bytes",
                              JOB_META_PAIRS_MAX, JOB_META_BYTES_MAX);
    default:
        return http_fault_set(fault, PROBLEM_BAD_CALLBACK, HTTP_CALLBACK_BYTES_MAX,
                              "'callback' must be UTF-8 without control characters, at most %d "
                              "bytes",
                              HTTP_CALLBACK_BYTES_MAX);
    }
}

struct slice http_callback_of(struct slice meta)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(meta, &at, &name, &value))
        if (slice_is(name, JOB_META_CALLBACK))
            return value;
    return (struct slice){0};
}
