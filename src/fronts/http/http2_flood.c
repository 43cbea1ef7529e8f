#include "http/http2_flood.h"

bool http2_flood_count(struct http2_flood *flood, enum http2_flood_kind kind, int64_t now_ms)
{
    if (now_ms - flood->since_ms >= HTTP2_FLOOD_MS)
        *flood = (struct http2_flood){.since_ms = now_ms};
    return ++flood->counts[kind] <= HTTP2_FLOOD_MAX;
}

void http2_flood_forgive(struct http2_flood *flood)
{
    if (flood->counts[HTTP2_FLOOD_RESET])
        flood->counts[HTTP2_FLOOD_RESET]--;
}
