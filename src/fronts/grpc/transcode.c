#include "grpc/transcode.h"

#include "base/duration.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "grpc/fields.h"
#include "grpc/wire.h"
#include "job/json.h"

#include <ctype.h>
#include <stdio.h>

enum { NAME_BYTES = 64 };

static bool is_of(const ProtobufCFieldDescriptor *field,
                  const ProtobufCMessageDescriptor *descriptor)
{
    return field->descriptor == descriptor;
}

/* Returns whether the field is a map, of which each entry is a message. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
    static const char suffix[] = "Entry";
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_REPEATED)
        return false;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t len = strlen(entry->short_name);
    return len >= sizeof suffix &&
           strcmp(entry->short_name + len - (sizeof suffix - 1), suffix) == 0;
}

/* Returns how many bytes the names of the values of an enum begin with, before their word. */
static size_t enum_prefix(const ProtobufCEnumDescriptor *descriptor)
{
    const ProtobufCEnumValue *none = protobuf_c_enum_descriptor_get_value(descriptor, 0);
    return none ? strlen(none->name) - strlen("UNSPECIFIED") : 0;
}

static void enum_word(const ProtobufCEnumDescriptor *descriptor, const ProtobufCEnumValue *value,
                      char word[NAME_BYTES])
{
    const char *at = value->name + enum_prefix(descriptor);
    size_t len = 0;
    for (; at[len] && len < NAME_BYTES - 1; len++)
        word[len] = (char)tolower((unsigned char)at[len]);
    word[len] = '\0';
}

/* ---- messages as JSON ---- */

static bool write_duration(struct buffer *out, const Google__Protobuf__Duration *duration,
                           struct http_fault *fault)
{
    int64_t ms = 0;
    if (!fields_ms_of_duration(duration, &ms, fault))
        return false;
    buffer_append_byte(out, '"');
    duration_emit(out, ms);
    buffer_append_byte(out, '"');
    return true;
}

static bool write_time(struct buffer *out, const Google__Protobuf__Timestamp *time,
                       struct http_fault *fault)
{
    int64_t ms = 0;
    if (!fields_ms_of_time(time, &ms, fault))
        return false;
    json_write_time(out, ms);
    return true;
}

static bool write_object(struct buffer *out, const ProtobufCMessage *message,
                         struct http_fault *fault)
{
    buffer_append_byte(out, '{');
    bool done = transcode_members(out, message, NULL, fault);
    buffer_append_byte(out, '}');
    return done;
}

static bool write_message(struct buffer *out, const ProtobufCFieldDescriptor *field,
                          const void *message, struct http_fault *fault)
{
    const Tarry__V1__Attempts *attempts = message;
    if (is_of(field, &google__protobuf__duration__descriptor))
        return write_duration(out, message, fault);
    if (is_of(field, &google__protobuf__timestamp__descriptor))
        return write_time(out, message, fault);
    if (is_of(field, &tarry__v1__priority__descriptor))
        buffer_append_u64(out, ((const Tarry__V1__Priority *)message)->value);
    else if (is_of(field, &tarry__v1__attempts__descriptor) && attempts->unlimited)
        buffer_append_text(out, "\"none\"");
    else if (is_of(field, &tarry__v1__attempts__descriptor))
        buffer_append_u64(out, attempts->value);
    else
        return write_object(out, message, fault);
    return true;
}

static bool write_enum(struct buffer *out, const ProtobufCFieldDescriptor *field, int number,
                       struct http_fault *fault)
{
    char word[NAME_BYTES];
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(field->descriptor, number);
    if (!value)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0, "'%s' has an unknown number",
                              field->name);
    enum_word(field->descriptor, value, word);
    buffer_append_byte(out, '"');
    buffer_append_text(out, word);
    buffer_append_byte(out, '"');
    return true;
}

/* Writes the value at `at`, which is an element of the field. */
static bool write_value(struct buffer *out, const ProtobufCFieldDescriptor *field, const void *at,
                        struct http_fault *fault)
{
    const ProtobufCBinaryData *bytes = at;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        json_write_string(out, slice_of(*(char *const *)at));
        return true;
    case PROTOBUF_C_TYPE_BYTES:
        json_write_base64(out, slice_make(bytes->data, bytes->len));
        return true;
    case PROTOBUF_C_TYPE_MESSAGE:
        return write_message(out, field, *(const void *const *)at, fault);
    case PROTOBUF_C_TYPE_ENUM:
        return write_enum(out, field, *(const int *)at, fault);
    case PROTOBUF_C_TYPE_BOOL:
        json_write_bool(out, *(const protobuf_c_boolean *)at);
        return true;
    case PROTOBUF_C_TYPE_UINT64:
        buffer_append_u64(out, *(const uint64_t *)at);
        return true;
    default:
        buffer_append_u64(out, *(const uint32_t *)at);
        return true;
    }
}

/* Returns whether a field of a oneof is not the one that is set: the others share its memory. */
static bool is_other(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    uint32_t set = 0;
    if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return false;
    memcpy(&set, (const char *)message + field->quantifier_offset, sizeof set);
    return set != field->id;
}

/* Returns whether a field that is not repeated is set. */
static bool is_set(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return **(char *const *)at != '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len > 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)at != NULL;
    case PROTOBUF_C_TYPE_UINT64:
        return *(const uint64_t *)at != 0;
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)at != 0;
    default:
        return *(const uint32_t *)at != 0;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
}

/* Writes an array, or the object of a map. Repeated fields are texts, bytes and messages. */
static bool write_repeated(struct buffer *out, const ProtobufCFieldDescriptor *field,
                           const char *items, size_t count, struct http_fault *fault)
{
    bool map = is_map(field);
    buffer_append_byte(out, map ? '{' : '[');
    for (size_t i = 0; i < count; i++) {
        const char *at = items + i * size_of(field);
        if (i)
            buffer_append_byte(out, ',');
        if (map) {
            const Tarry__V1__PushRequest__MetaEntry *entry = *(const void *const *)at;
            json_write_string(out, slice_of(entry->key));
            buffer_append_byte(out, ':');
            json_write_string(out, slice_of(entry->value));
        } else if (!write_value(out, field, at, fault)) {
            return false;
        }
    }
    buffer_append_byte(out, map ? '}' : ']');
    return true;
}

static bool write_member(struct buffer *out, const ProtobufCMessage *message,
                         const ProtobufCFieldDescriptor *field, struct http_fault *fault)
{
    const char *at = (const char *)message + field->offset;
    bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    size_t count = 0;
    if (is_repeated)
        memcpy(&count, (const char *)message + field->quantifier_offset, sizeof count);
    if (is_repeated ? !count : is_other(message, field) || !is_set(field, at))
        return true;
    char key[NAME_BYTES];
    (void)snprintf(key, sizeof key, "%s%s", field->name,
                   field->type == PROTOBUF_C_TYPE_BYTES ? "_base64" : "");
    json_write_member(out, key);
    return is_repeated
               ? write_repeated(out, field, *(const char *const *)(const void *)at, count, fault)
               : write_value(out, field, at, fault);
}

static bool is_among(const char *name, const char *const *names)
{
    while (names && *names && strcmp(name, *names) != 0)
        names++;
    return names && *names;
}

bool transcode_members(struct buffer *out, const ProtobufCMessage *message,
                       const char *const *without, struct http_fault *fault)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (is_among(field->name, without))
            continue;
        if (!write_member(out, message, field, fault))
            return false;
    }
    return true;
}

/* ---- JSON as messages ---- */

static void write_nested(struct buffer *out, uint32_t number, struct json_value object,
                         const ProtobufCMessageDescriptor *descriptor, struct buffer *scratch)
{
    size_t begin = wire_begin(out, number, object.raw.len);
    transcode_fields(out, object, descriptor, scratch);
    wire_end(out, begin);
}

static struct slice text_of(struct json_value value, struct buffer *scratch)
{
    struct slice text = {0};
    if (value.kind == JSON_STRING)
        (void)json_string_bytes(value.raw, scratch, &text);
    return text;
}

static uint64_t number_of(struct json_value value)
{
    int64_t number = 0;
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, &number) && number > 0
               ? (uint64_t)number
               : 0;
}

static void read_attempts(struct buffer *out, uint32_t number, struct json_value value)
{
    size_t begin = wire_begin(out, number, 8);
    wire_flag(out, 2, value.kind == JSON_STRING);
    wire_u64(out, 1, number_of(value));
    wire_end(out, begin);
}

static void read_message(struct buffer *out, const ProtobufCFieldDescriptor *field,
                         struct json_value value, struct buffer *scratch)
{
    int64_t ms = 0;
    if (is_of(field, &google__protobuf__duration__descriptor)) {
        if (duration_parse(text_of(value, scratch), INT64_MAX / 2, &ms))
            wire_duration(out, field->id, ms);
    } else if (is_of(field, &google__protobuf__timestamp__descriptor)) {
        if (timestamp_parse(text_of(value, scratch), &ms))
            wire_time(out, field->id, ms);
    } else if (is_of(field, &tarry__v1__priority__descriptor)) {
        size_t begin = wire_begin(out, field->id, 8);
        wire_u64(out, 1, number_of(value));
        wire_end(out, begin);
    } else if (is_of(field, &tarry__v1__attempts__descriptor)) {
        read_attempts(out, field->id, value);
    } else if (value.kind == JSON_OBJECT) {
        write_nested(out, field->id, value, field->descriptor, scratch);
    }
}

static void read_enum(struct buffer *out, const ProtobufCFieldDescriptor *field, struct slice text)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    char word[NAME_BYTES];
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        enum_word(descriptor, &descriptor->values[i], word);
        if (slice_is(text, word))
            wire_u64(out, field->id, (uint64_t)descriptor->values[i].value);
    }
}

static void read_value(struct buffer *out, const ProtobufCFieldDescriptor *field,
                       struct json_value value, struct buffer *scratch)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        wire_unsafe_text(out, field->id, text_of(value, scratch));
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        read_message(out, field, value, scratch);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        read_enum(out, field, text_of(value, scratch));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        wire_flag(out, field->id, value.kind == JSON_TRUE);
        break;
    default:
        wire_u64(out, field->id, number_of(value));
        break;
    }
}

static void read_map(struct buffer *out, uint32_t number, struct json_value object,
                     struct buffer *scratch)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key, name;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        if (!json_string_bytes(key, scratch, &name))
            continue;
        size_t begin = wire_begin(out, number, key.len + value.raw.len);
        wire_unsafe_text(out, 1, name);
        wire_unsafe_text(out, 2, text_of(value, scratch));
        wire_end(out, begin);
    }
}

/* Reads an array; any other value is its only item. */
static void read_repeated(struct buffer *out, const ProtobufCFieldDescriptor *field,
                          struct json_value value, struct buffer *scratch)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    if (is_map(field))
        read_map(out, field->id, value, scratch);
    else if (value.kind != JSON_ARRAY)
        read_value(out, field, value, scratch);
    else
        while (json_next_item(value, &cursor, &item))
            read_value(out, field, item, scratch);
}

/* Reads the body of a job: in base64, or as any JSON value, which determines a missing content type. */
static void read_body(struct buffer *out, const ProtobufCFieldDescriptor *field,
                      const ProtobufCFieldDescriptor *type_field, struct json_value object,
                      struct buffer *scratch)
{
    char key[NAME_BYTES];
    struct json_value value = json_member(object, field->name);
    struct slice type = text_of(json_member(object, "content_type"), scratch), body;
    bool has_type = type.len > 0;
    if (value.kind != JSON_NONE) {
        if (!job_json_read_body(value, scratch, &type, &body))
            return;
        wire_text(out, field->id, body);
        if (!has_type && type_field)
            wire_unsafe_text(out, type_field->id, type);
        return;
    }
    (void)snprintf(key, sizeof key, "%s_base64", field->name);
    struct slice base64 = text_of(json_member(object, key), scratch);
    size_t start = scratch->len;
    if (base64.len && text_base64_decode(base64, scratch))
        wire_text(out, field->id, slice_make(scratch->at + start, scratch->len - start));
}

void transcode_fields(struct buffer *out, struct json_value object,
                      const ProtobufCMessageDescriptor *descriptor, struct buffer *scratch)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        struct json_value value = json_member(object, field->name);
        if (field->type == PROTOBUF_C_TYPE_BYTES)
            read_body(out, field,
                      protobuf_c_message_descriptor_get_field_by_name(descriptor, "content_type"),
                      object, scratch);
        else if (value.kind == JSON_NONE || value.kind == JSON_NULL)
            continue;
        else if (field->label == PROTOBUF_C_LABEL_REPEATED)
            read_repeated(out, field, value, scratch);
        else
            read_value(out, field, value, scratch);
    }
}
