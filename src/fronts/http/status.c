#include "http/status.h"

#include "http/state.h"

static const struct reason {
    uint16_t status;
    const char *line;
} reasons[] = {
    {200, "HTTP/1.1 200 OK\r\nDate: "},
    {201, "HTTP/1.1 201 Created\r\nDate: "},
    {202, "HTTP/1.1 202 Accepted\r\nDate: "},
    {204, "HTTP/1.1 204 No Content\r\nDate: "},
    {303, "HTTP/1.1 303 See Other\r\nDate: "},
    {304, "HTTP/1.1 304 Not Modified\r\nDate: "},
    {308, "HTTP/1.1 308 Permanent Redirect\r\nDate: "},
    {400, "HTTP/1.1 400 Bad Request\r\nDate: "},
    {401, "HTTP/1.1 401 Unauthorized\r\nDate: "},
    {403, "HTTP/1.1 403 Forbidden\r\nDate: "},
    {404, "HTTP/1.1 404 Not Found\r\nDate: "},
    {405, "HTTP/1.1 405 Method Not Allowed\r\nDate: "},
    {408, "HTTP/1.1 408 Request Timeout\r\nDate: "},
    {409, "HTTP/1.1 409 Conflict\r\nDate: "},
    {413, "HTTP/1.1 413 Content Too Large\r\nDate: "},
    {414, "HTTP/1.1 414 URI Too Long\r\nDate: "},
    {415, "HTTP/1.1 415 Unsupported Media Type\r\nDate: "},
    {417, "HTTP/1.1 417 Expectation Failed\r\nDate: "},
    {421, "HTTP/1.1 421 Misdirected Request\r\nDate: "},
    {429, "HTTP/1.1 429 Too Many Requests\r\nDate: "},
    {431, "HTTP/1.1 431 Request Header Fields Too Large\r\nDate: "},
    {501, "HTTP/1.1 501 Not Implemented\r\nDate: "},
    {503, "HTTP/1.1 503 Service Unavailable\r\nDate: "},
    {505, "HTTP/1.1 505 HTTP Version Not Supported\r\nDate: "},
    {507, "HTTP/1.1 507 Insufficient Storage\r\nDate: "},
    {500, "HTTP/1.1 500 Internal Server Error\r\nDate: "}, /* last: for statuses not listed */
};

enum { REASONS = sizeof reasons / sizeof reasons[0] };
_Static_assert((int)REASONS <= (int)HTTP_STATUSES, "each status has a counter");

size_t http_status_index(uint16_t status)
{
    size_t i = 0;
    while (reasons[i].status != status && i + 1 < REASONS)
        i++;
    return i;
}

uint16_t http_status_at(size_t index)
{
    return index < REASONS ? reasons[index].status : 0;
}

const char *http_status_line(uint16_t status)
{
    return reasons[http_status_index(status)].line;
}
