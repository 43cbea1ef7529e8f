#include "targets/parts.h"

#include "base/text.h"
#include "job/job.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PART_BYTES = 1024 }; /* maximum size of a meta value */

static struct slice part_name(char out[TARGET_PARTS_NAME_BYTES + 4], const char *name,
                              unsigned number)
{
    assert(strlen(name) < TARGET_PARTS_NAME_BYTES);
    (void)snprintf(out, TARGET_PARTS_NAME_BYTES + 4, "%s%u", name, number % 100);
    return slice_of(out);
}

bool target_parts_add(struct buffer *meta, const char *name, struct slice bytes)
{
    struct buffer text;
    char full[TARGET_PARTS_NAME_BYTES + 4];
    unsigned number = 0;
    buffer_init(&text, 2 * JOB_META_BYTES_MAX);
    text_base64_encode(bytes, &text);
    bool ok = !text.failed;
    for (size_t at = 0; ok && at < text.len; at += PART_BYTES) {
        size_t left = text.len - at;
        struct slice part = slice_make(text.at + at, left < PART_BYTES ? left : PART_BYTES);
        ok = job_meta_add(meta, part_name(full, name, ++number), part) == JOB_META_OK;
    }
    buffer_fini(&text);
    return ok;
}

bool target_parts_join(struct slice meta, const char *name, struct buffer *out, bool *found)
{
    struct slice at_name, value;
    char full[TARGET_PARTS_NAME_BYTES + 4];
    bool ok = true;
    *found = false;
    for (unsigned number = 1; ok; number++) {
        struct slice wanted = part_name(full, name, number);
        bool is_there = false;
        for (size_t at = 0; !is_there && job_meta_next(meta, &at, &at_name, &value);)
            is_there = slice_equals(at_name, wanted);
        if (!is_there)
            break;
        *found = true;
        ok = text_base64_decode(value, out);
    }
    return ok;
}
