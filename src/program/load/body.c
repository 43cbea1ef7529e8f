#include "load/body.h"

#include "base/hex.h"
#include "load/load.h"

/* ---- the stamp ---- */

enum { RUN_DIGITS = 8, INDEX_DIGITS = 10, SENT_DIGITS = 12, DELAY_DIGITS = 10 };

_Static_assert(4 + RUN_DIGITS + INDEX_DIGITS + SENT_DIGITS + DELAY_DIGITS == LOAD_STAMP_BYTES,
               "stamp");

static char *write_field(char *out, char mark, uint64_t value, size_t digits)
{
    *out = mark;
    hex_emit_u64(out + 1, value, digits);
    return out + 1 + digits;
}

static bool read_field(const char *in, char mark, size_t digits, uint64_t *value)
{
    return *in == mark && hex_parse_u64(in + 1, digits, value);
}

void load_stamp_write(char out[LOAD_STAMP_BYTES], const struct load_stamp *stamp)
{
    out = write_field(out, 't', stamp->run, RUN_DIGITS);
    out = write_field(out, 'i', stamp->index, INDEX_DIGITS);
    out = write_field(out, 's', (uint64_t)stamp->sent_us, SENT_DIGITS);
    write_field(out, 'd', (uint64_t)stamp->delay_ms, DELAY_DIGITS);
}

bool load_stamp_read(struct slice body, struct load_stamp *stamp)
{
    const char *at = body.at;
    uint64_t run, index, sent, delay;
    if (body.len < LOAD_STAMP_BYTES || !read_field(at, 't', RUN_DIGITS, &run))
        return false;
    at += 1 + RUN_DIGITS;
    if (!read_field(at, 'i', INDEX_DIGITS, &index))
        return false;
    at += 1 + INDEX_DIGITS;
    if (!read_field(at, 's', SENT_DIGITS, &sent))
        return false;
    at += 1 + SENT_DIGITS;
    if (!read_field(at, 'd', DELAY_DIGITS, &delay))
        return false;
    *stamp = (struct load_stamp){
        .run = (uint32_t)run, .index = index, .sent_us = (int64_t)sent, .delay_ms = (int64_t)delay};
    return true;
}

void load_stamp_id(char out[LOAD_ID_BYTES], uint32_t run, uint64_t index)
{
    enum { REST_DIGITS = LOAD_ID_BYTES - 2 - RUN_DIGITS };
    write_field(write_field(out, 'r', run, RUN_DIGITS), 'i', index, REST_DIGITS);
}

/* ---- the body ---- */

bool load_body_init(struct load_body *body, size_t bytes)
{
    buffer_init(&body->filler, LOAD_BODY_BYTES_MAX);
    for (size_t i = LOAD_STAMP_BYTES; i < bytes; i++)
        buffer_append_byte(&body->filler, (char)('a' + i % 26));
    return !body->filler.failed;
}

void load_body_fini(struct load_body *body)
{
    buffer_fini(&body->filler);
}

void load_body_append(const struct load_body *body, const struct load_stamp *stamp,
                      struct buffer *out)
{
    char *at = buffer_reserve(out, LOAD_STAMP_BYTES);
    if (!at)
        return;
    load_stamp_write(at, stamp);
    out->len += LOAD_STAMP_BYTES;
    buffer_append_slice(out, buffer_slice(&body->filler));
}
