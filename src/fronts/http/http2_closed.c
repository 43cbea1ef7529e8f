#include "http/http2_closed.h"

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
