#include "amqp/delay.h"

#include "amqp/source.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <stdio.h>

/* Beyond what a double keeps exactly there is no delay anyway. */
#define NUMBER_MAX (1LL << 53)

amqp_table_entry_t *amqp_in_find_header(const amqp_table_t *headers, const char *name)
{
    for (int i = 0; i < headers->num_entries; i++)
        if (slice_is(slice_make(headers->entries[i].key.bytes, headers->entries[i].key.len), name))
            return &headers->entries[i];
    return NULL;
}

/* Rounded up. */
static bool clip(double number, int64_t *out)
{
    if (number != number)
        return false;
    if (number >= (double)NUMBER_MAX || number <= -(double)NUMBER_MAX) {
        *out = number > 0 ? NUMBER_MAX : -NUMBER_MAX;
        return true;
    }
    *out = (int64_t)number;
    *out += (double)*out < number;
    return true;
}

static bool read_text(struct slice text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    uint64_t number;
    if (is_negative)
        text = slice_make(text.at + 1, text.len - 1);
    if (!text_parse_u64(text, INT64_MAX, &number))
        return false;
    *out = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool read_number(const amqp_field_value_t *field, int64_t *out)
{
    switch (field->kind) {
    case AMQP_FIELD_KIND_I8:
        *out = field->value.i8;
        return true;
    case AMQP_FIELD_KIND_U8:
        *out = field->value.u8;
        return true;
    case AMQP_FIELD_KIND_I16:
        *out = field->value.i16;
        return true;
    case AMQP_FIELD_KIND_U16:
        *out = field->value.u16;
        return true;
    case AMQP_FIELD_KIND_I32:
        *out = field->value.i32;
        return true;
    case AMQP_FIELD_KIND_U32:
        *out = field->value.u32;
        return true;
    case AMQP_FIELD_KIND_I64:
        *out = field->value.i64;
        return true;
    case AMQP_FIELD_KIND_U64:
        *out = field->value.u64 > INT64_MAX ? INT64_MAX : (int64_t)field->value.u64;
        return true;
    case AMQP_FIELD_KIND_F32:
        return clip((double)field->value.f32, out);
    case AMQP_FIELD_KIND_F64:
        return clip(field->value.f64, out);
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        return read_text(slice_make(field->value.bytes.bytes, field->value.bytes.len), out);
    default:
        return false;
    }
}

/* A bare number before 1973 is in seconds, which only AMQP's own kind of field is. */
static bool read_time(const amqp_field_value_t *field, int64_t *out)
{
    if (field->kind == AMQP_FIELD_KIND_TIMESTAMP) { /* seconds */
        if (field->value.u64 > INT64_MAX / 1000)
            return false;
        *out = (int64_t)field->value.u64 * 1000;
        return true;
    }
    if (read_number(field, out))
        return *out >= TIMESTAMP_BARE_MS_MIN;
    return (field->kind == AMQP_FIELD_KIND_UTF8 || field->kind == AMQP_FIELD_KIND_BYTES) &&
           timestamp_parse(slice_make(field->value.bytes.bytes, field->value.bytes.len), out);
}

bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why)
{
    const amqp_table_entry_t *at = amqp_in_find_header(headers, AMQP_IN_HEADER_AT);
    const amqp_table_entry_t *delay = amqp_in_find_header(headers, AMQP_IN_HEADER_DELAY);
    int64_t ms = 0;
    if (at && !read_time(&at->value, &ms)) {
        snprintf(why, AMQP_IN_ERROR_BYTES,
                 "header '%s' is no time from 1973 on, give milliseconds (not seconds) since 1970, "
                 "RFC 3339 or an AMQP timestamp",
                 AMQP_IN_HEADER_AT);
        return false;
    }
    if (!at && delay && !read_number(&delay->value, &ms)) {
        snprintf(why, AMQP_IN_ERROR_BYTES, "header '%s' is no number, give milliseconds",
                 AMQP_IN_HEADER_DELAY);
        return false;
    }
    if (!at && ms > POLICY_DELAY_MS_MAX) {
        snprintf(why, AMQP_IN_ERROR_BYTES, "header '%s' is beyond 10 years", AMQP_IN_HEADER_DELAY);
        return false;
    }
    *out = (struct queue_when){.due = at       ? QUEUE_DUE_AT
                                      : ms > 0 ? QUEUE_DUE_DELAY
                                               : QUEUE_DUE_NOW,
                               .ms = at || ms > 0 ? ms : 0};
    return true;
}

void amqp_in_delay_negate(amqp_table_t *headers)
{
    amqp_table_entry_t *delay = amqp_in_find_header(headers, AMQP_IN_HEADER_DELAY);
    int64_t ms;
    if (!delay || !read_number(&delay->value, &ms) || ms <= 0)
        return;
    delay->value.kind = ms <= INT32_MAX ? AMQP_FIELD_KIND_I32 : AMQP_FIELD_KIND_I64;
    if (ms <= INT32_MAX)
        delay->value.value.i32 = -(int32_t)ms;
    else
        delay->value.value.i64 = -ms;
}
