/* zone_bytes: files of time zones made by a test, so that no test depends on the tzdata of the machine. */
#ifndef TARRY_TESTS_ZONE_BYTES_H
#define TARRY_TESTS_ZONE_BYTES_H

#include "base/buffer.h"
#include "schedule/zone.h"

#include <assert.h>

struct zone_bytes_change {
    int64_t at_s;
    int32_t offset_s;
};

static inline void zone_bytes_number(struct buffer *out, uint64_t value, int bytes)
{
    while (bytes-- > 0)
        buffer_append_byte(out, (char)(value >> (8 * bytes)));
}

static inline void zone_bytes_header(struct buffer *out, uint32_t times, uint32_t types)
{
    buffer_append_text(out, "TZif2");
    for (int i = 0; i < 15; i++)
        buffer_append_byte(out, 0);
    for (int i = 0; i < 3; i++)
        zone_bytes_number(out, 0, 4);
    zone_bytes_number(out, times, 4);
    zone_bytes_number(out, types, 4);
    zone_bytes_number(out, 4, 4);
}

/* Appends a file: an offset, its changes, and the rule at the end. */
static inline void zone_bytes_write(struct buffer *out, int32_t offset_s,
                                    const struct zone_bytes_change *changes, uint32_t count,
                                    const char *rule)
{
    zone_bytes_header(out, 0, 1); /* an empty block of version 1 */
    zone_bytes_number(out, 0, 6);
    buffer_append(out, "UTC", 4);
    zone_bytes_header(out, count, count + 1);
    for (uint32_t i = 0; i < count; i++)
        zone_bytes_number(out, (uint64_t)changes[i].at_s, 8);
    for (uint32_t i = 0; i < count; i++)
        buffer_append_byte(out, (char)(i + 1));
    for (uint32_t i = 0; i <= count; i++) {
        zone_bytes_number(out, (uint32_t)(i ? changes[i - 1].offset_s : offset_s), 4);
        zone_bytes_number(out, 0, 2);
    }
    buffer_append(out, "UTC", 4);
    buffer_append_byte(out, '\n');
    buffer_append_text(out, rule);
    buffer_append_byte(out, '\n');
}

/* Returns a zone that follows a rule at all times. */
static inline struct zone zone_bytes_rule(const char *rule)
{
    struct buffer bytes;
    struct zone zone;
    buffer_init(&bytes, 4096);
    zone_bytes_write(&bytes, 0, NULL, 0, rule);
    bool parsed = zone_parse(buffer_slice(&bytes), &zone);
    buffer_fini(&bytes);
    assert(parsed);
    (void)parsed;
    return zone;
}

#endif
