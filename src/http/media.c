#include "http/media.h"

#include "http/request.h"

static struct slice without_parameters(struct slice type)
{
    const char *end = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.at);
    while (type.len && type.at[type.len - 1] == ' ')
        type.len--;
    return type;
}

bool http_media_is_json(struct slice type)
{
    static const size_t suffix = sizeof "+json" - 1;
    type = without_parameters(type);
    if (http_is(type, "application/json"))
        return true;
    return type.len > suffix && http_is(slice_make(type.at + type.len - suffix, suffix), "+json");
}

bool http_media_is_lines(struct slice type)
{
    type = without_parameters(type);
    return http_is(type, "application/x-ndjson") || http_is(type, "application/ndjson") ||
           http_is(type, "application/jsonl");
}

bool http_media_is_valid(struct slice type)
{
    for (size_t i = 0; i < type.len; i++)
        if (type.at[i] < 0x20 || type.at[i] > 0x7e)
            return false;
    return true;
}
