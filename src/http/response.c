#include "http/private.h"

static const struct reason {
    uint16_t status;
    const char *line;
} reasons[] = {
    {200, "HTTP/1.1 200 OK\r\nDate: "},
    {201, "HTTP/1.1 201 Created\r\nDate: "},
    {204, "HTTP/1.1 204 No Content\r\nDate: "},
    {400, "HTTP/1.1 400 Bad Request\r\nDate: "},
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
    {431, "HTTP/1.1 431 Request Header Fields Too Large\r\nDate: "},
    {501, "HTTP/1.1 501 Not Implemented\r\nDate: "},
    {503, "HTTP/1.1 503 Service Unavailable\r\nDate: "},
    {505, "HTTP/1.1 505 HTTP Version Not Supported\r\nDate: "},
    {507, "HTTP/1.1 507 Insufficient Storage\r\nDate: "},
    {500, "HTTP/1.1 500 Internal Server Error\r\nDate: "}, /* last: for all that is not above */
};

static const char *line_of(uint16_t status)
{
    size_t i = 0;
    while (reasons[i].status != status && reasons[i].status != 500)
        i++;
    return reasons[i].line;
}

void http_response_write(struct buffer *out, const char *date, const struct http_response *response)
{
    buffer_append_text(out, line_of(response->status));
    buffer_append_text(out, date);
    if (response->content_type) {
        buffer_append_text(out, "\r\nContent-Type: ");
        buffer_append_text(out, response->content_type);
        buffer_append_text(out, "\r\nContent-Length: ");
        buffer_append_u64(out, response->body_bytes);
    }
    buffer_append_text(out, "\r\n");
    buffer_append_slice(out, response->fields);
    if (response->closes)
        buffer_append_text(out, "Connection: close\r\n");
    else if (response->keeps)
        buffer_append_text(out, "Connection: keep-alive\r\n");
    buffer_append_text(out, "\r\n");
}
