#include "targets/kafka/record.h"

#include "job/wire.h"

enum { HAS_KEY = 1, HAS_BODY = 2, NAME_BYTES_MAX = 1 << 15, VALUE_BYTES_MAX = 1 << 20 };

static void append_number(struct buffer *out, size_t number)
{
    char text[WIRE_VARINT_BYTES_MAX];
    buffer_append(out, text, (size_t)(wire_put_varint(text, number) - text));
}

void kafka_record_encode(struct buffer *out, const struct kafka_record_parts *parts,
                         const rd_kafka_headers_t *headers, bool (*drops)(struct slice name))
{
    const char *name;
    const void *value;
    size_t bytes;
    buffer_append_byte(out,
                       (char)((parts->key.at ? HAS_KEY : 0) | (parts->has_body ? HAS_BODY : 0)));
    append_number(out, parts->key.len);
    buffer_append_slice(out, parts->key);
    for (size_t i = 0; headers && !rd_kafka_header_get_all(headers, i, &name, &value, &bytes);
         i++) {
        if (drops(slice_of(name)))
            continue;
        append_number(out, strlen(name));
        buffer_append_text(out, name);
        append_number(out, value ? bytes + 1 : 0);
        buffer_append(out, value, value ? bytes : 0);
    }
}

static struct slice take_run(struct wire_in *in, size_t bytes)
{
    const char *at = (const char *)in->at;
    if (!wire_need(in, bytes))
        return (struct slice){0};
    in->at += bytes;
    return slice_make(at, bytes);
}

bool kafka_record_decode(struct slice encoded, struct kafka_record_parts *out,
                         rd_kafka_headers_t *headers, bool (*drops)(struct slice name, void *ctx),
                         void *ctx)
{
    struct wire_in in = wire_in_make(encoded);
    unsigned flags = wire_take_byte(&in);
    struct slice key = take_run(&in, wire_take_varint(&in, 0, VALUE_BYTES_MAX));
    while (wire_left(&in) > 0) {
        struct slice name = take_run(&in, wire_take_varint(&in, 0, NAME_BYTES_MAX));
        uint64_t bytes = wire_take_varint(&in, 0, VALUE_BYTES_MAX);
        struct slice value = take_run(&in, bytes > 0 ? bytes - 1 : 0);
        if (!in.bad && !drops(name, ctx))
            (void)rd_kafka_header_add(headers, name.len ? name.at : "", (ssize_t)name.len,
                                      bytes > 0 ? value.at : NULL, (ssize_t)value.len);
    }
    if (in.bad || flags > (HAS_KEY | HAS_BODY))
        return false;
    *out = (struct kafka_record_parts){.has_body = flags & HAS_BODY};
    if (flags & HAS_KEY)
        out->key = key;
    return true;
}
