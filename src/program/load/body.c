#include "load/body.h"

#include "load/load.h"

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
