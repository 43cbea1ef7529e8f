#include "http/http2_peer.h"

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

void http2_closed_add(struct http2_closed *closed, int32_t id)
{
    closed->ids[closed->count++ % HTTP2_CLOSED_KEPT] = id;
}

bool http2_closed_has(const struct http2_closed *closed, int32_t id)
{
    uint32_t kept = closed->count < HTTP2_CLOSED_KEPT ? closed->count : HTTP2_CLOSED_KEPT;
    for (uint32_t i = 0; i < kept; i++)
        if (closed->ids[i] == id)
            return true;
    return false;
}
