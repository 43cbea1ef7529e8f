/* Stubs for a build without HTTP/2: its connections speak HTTP/1.1. */
#include "http/http2.h"

bool http2_is_offered(void)
{
    return false;
}

bool http2_begins(struct slice bytes, bool *is_short)
{
    (void)bytes;
    *is_short = false;
    return false;
}

bool http2_start(struct http_connection *connection)
{
    (void)connection;
    return false;
}
