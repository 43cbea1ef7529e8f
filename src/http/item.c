/* One item of a batch push. See batch.h. */
#include "base/text.h"
#include "http/batch.h"
#include "http/delivery.h"
#include "http/media.h"
#include "http/meta.h"

#include <stddef.h>

enum member {
    MEMBER_TOPIC = 1,
    MEMBER_ID = 2,
    MEMBER_BODY = 4,
    MEMBER_BODY_BASE64 = 8,
    MEMBER_CONTENT_TYPE = 16,
    MEMBER_META = 32,
    MEMBER_CALLBACK = 64
};

struct item {
    struct queue_push *push;
    struct buffer *arena, *meta;
    const struct http_hooks *hooks;
    struct http_fault *fault;
    struct json_value body;
    struct http_fields fields;
    uint32_t seen; /* enum member each */
};

static const struct {
    const char *quoted;
    size_t len;
    enum member member;
} members[] = {
#define MEMBER(NAME, BIT)                                                                          \
    {                                                                                              \
        "\"" NAME "\"", sizeof(NAME) + 1, BIT                                                      \
    }
    MEMBER("topic", MEMBER_TOPIC),       MEMBER("id", MEMBER_ID),
    MEMBER("body", MEMBER_BODY),         MEMBER("content_type", MEMBER_CONTENT_TYPE),
    MEMBER("meta", MEMBER_META),         MEMBER("body_base64", MEMBER_BODY_BASE64),
    MEMBER("callback", MEMBER_CALLBACK),
#undef MEMBER
};

static uint32_t member_of(struct slice key)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].len == key.len && memcmp(members[i].quoted, key.at, key.len) == 0)
            return members[i].member;
    return 0;
}

static bool out_of_memory(struct item *item)
{
    return http_fault_set(item->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

static bool read_text(struct item *item, struct slice key, struct json_value value,
                      struct slice *out)
{
    if (value.kind != JSON_STRING)
        return http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0, "%s must be a string",
                              http_quotable(key, 40));
    return json_string_bytes(value.raw, item->arena, out) || out_of_memory(item);
}

/* What was unescaped on the way gives its room back, as the arena has only as much as the item is
 * long. So escaped base64 is decoded over itself: bytes come out behind where they are read. */
static bool read_base64(struct item *item, struct slice key, struct json_value value)
{
    struct slice text;
    size_t start = item->arena->len;
    if (!read_text(item, key, value, &text))
        return false;
    item->arena->len = start;
    if (!text_base64_decode(text, item->arena))
        return item->arena->failed
                   ? out_of_memory(item)
                   : http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                                    "'body_base64' is not base64 (RFC 4648, padded)");
    item->push->body = slice_make(item->arena->at + start, item->arena->len - start);
    return true;
}

/* Pairs are gathered apart, where doubles are found. */
static bool read_meta(struct item *item, struct json_value value)
{
    size_t start = item->arena->len;
    bool done = http_meta_add_object(item->meta, value, item->arena, item->fault);
    item->arena->len = start;
    return done;
}

static bool read_callback(struct item *item, struct slice key, struct json_value value)
{
    struct slice url;
    size_t start = item->arena->len;
    bool done = read_text(item, key, value, &url) &&
                http_callback_add(item->meta, url, item->hooks, item->fault);
    item->arena->len = start;
    return done;
}

/* Then they are kept beside the others' text. A callback's name is longer there than here, but a
 * topic is always named too and leaves the room. */
static bool keep_meta(struct item *item)
{
    size_t start = item->arena->len;
    if (!item->meta->len)
        return true;
    buffer_append_slice(item->arena, buffer_slice(item->meta));
    if (item->arena->failed)
        return out_of_memory(item);
    item->push->meta = slice_make(item->arena->at + start, item->arena->len - start);
    return true;
}

static bool read_member(struct item *item, struct slice key, struct json_value value)
{
    static const char *const beside[] = {"topic",        "id",   "body", "body_base64",
                                         "content_type", "meta", NULL};
    struct queue_push *push = item->push;
    uint32_t member = member_of(key);
    if (member & item->seen)
        return http_fault_set(item->fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              http_quotable(key, 40));
    item->seen |= member;
    switch (member) {
    case MEMBER_TOPIC:
        return read_text(item, key, value, &push->topic);
    case MEMBER_ID:
        return read_text(item, key, value, &push->id);
    case MEMBER_CONTENT_TYPE:
        return read_text(item, key, value, &push->content_type) &&
               (http_media_is_valid(push->content_type) ||
                http_fault_set(item->fault, PROBLEM_BAD_ITEM, 0,
                               "'content_type' must be printable ASCII"));
    case MEMBER_META:
        return read_meta(item, value);
    case MEMBER_CALLBACK:
        return read_callback(item, key, value);
    case MEMBER_BODY_BASE64:
        return read_base64(item, key, value);
    case MEMBER_BODY:
        item->body = value;
        return true;
    default:
        return http_option_set_member(&item->fields, OPTIONS_ITEM, beside, key, value, item->arena,
                                      item->fault);
    }
}

/* A string is its text, unless its type says that it is JSON; any other value is JSON as it stands.
 */
static bool read_body(struct item *item)
{
    struct queue_push *push = item->push;
    if (!(item->seen & MEMBER_BODY))
        return true;
    if (item->seen & MEMBER_BODY_BASE64)
        return http_fault_set(item->fault, PROBLEM_OPTION_CLASH, 0,
                              "'body' and 'body_base64' are both given, choose one");
    if (item->body.kind == JSON_STRING && !http_media_is_json(push->content_type)) {
        if (!push->content_type.len)
            push->content_type = slice_of("text/plain; charset=utf-8");
        return json_string_bytes(item->body.raw, item->arena, &push->body) || out_of_memory(item);
    }
    if (!push->content_type.len)
        push->content_type = slice_of("application/json");
    push->body = item->body.raw;
    return true;
}

bool http_item_parse(struct json_value value, struct queue_push *out, struct buffer *arena,
                     struct buffer *meta, const struct http_hooks *hooks, struct http_fault *fault)
{
    struct item item = {.push = out, .arena = arena, .meta = meta, .hooks = hooks, .fault = fault};
    struct json_cursor cursor = {0};
    struct json_value member;
    struct slice key;
    *out = (struct queue_push){0};
    buffer_clear(meta);
    if (value.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                              "an item must be an object such as "
                              "{\"topic\":\"mail\",\"delay\":\"30m\",\"body\":\"...\"}");
    while (json_next_member(value, &cursor, &key, &member))
        if (!read_member(&item, key, member))
            return false;
    if (!(item.seen & MEMBER_TOPIC))
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0, "'topic' is missing, name one");
    if (!http_fields_check_item(&item.fields, fault) || !read_body(&item) || !keep_meta(&item))
        return false;
    http_fields_push(&item.fields, out);
    return true;
}
