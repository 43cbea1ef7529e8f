#include "redis/media.h"

static const char *const types[] = {
    "application/octet-stream",
    "application/json",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/x-protobuf",
    "application/msgpack",
};

enum { TYPES = sizeof types / sizeof types[0] };
_Static_assert((int)REDIS_MEDIA_FIRST > (int)JOB_CONTENT_TYPE_BYTES_MAX,
               "lengths and numbers are apart");

uint8_t redis_media_number(struct slice content_type)
{
    for (uint8_t i = 0; i < TYPES; i++)
        if (slice_equals(content_type, slice_of(types[i])))
            return (uint8_t)(REDIS_MEDIA_FIRST + i);
    return 0;
}

struct slice redis_media_type(uint8_t number)
{
    bool known = number >= REDIS_MEDIA_FIRST && number < REDIS_MEDIA_FIRST + TYPES;
    return known ? slice_of(types[number - REDIS_MEDIA_FIRST]) : (struct slice){0};
}
