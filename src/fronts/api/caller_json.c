#include "api/caller_json.h"

#include "base/json_write.h"

static void write_word(struct buffer *out, bool follows, struct slice word)
{
    if (follows)
        buffer_append_byte(out, ',');
    json_write_string(out, word);
}

void api_caller_members_write(struct buffer *out, const struct access_caller *caller)
{
    struct slice topics = caller->topics;
    bool follows = false;
    buffer_append_text(out, "\"name\":");
    json_write_string(out, caller->name);
    json_write_member_text(out, "kind", slice_of(access_kind_name(caller->kind)));
    buffer_append_text(out, ",\"scopes\":[");
    for (unsigned scope = 1; scope <= ACCESS_SCOPES_ALL; scope *= 2)
        if (access_has_scope(caller, scope)) {
            write_word(out, follows, slice_of(access_scope_name(scope)));
            follows = true;
        }
    buffer_append_text(out, "],\"topics\":[");
    while (topics.len) {
        const char *comma = memchr(topics.at, ',', topics.len);
        size_t len = comma ? (size_t)(comma - topics.at) : topics.len;
        write_word(out, topics.at != caller->topics.at, slice_make(topics.at, len));
        topics = slice_make(topics.at + len + !!comma, topics.len - len - !!comma);
    }
    buffer_append_byte(out, ']');
    if (caller->ends_ms != INT64_MAX) {
        json_write_member(out, "expires_at");
        json_write_time(out, caller->ends_ms);
    }
}
