#include "http/state.h"

#include <inttypes.h>
#include <time.h>

/* ---- time ---- */

static void look_at_clock(struct http_front *front)
{
    front->now_ms = clock_inner_ms();
    if (front->now_ms - front->iteration_ms <= HTTP_LATE_MS || front->is_late)
        return;
    front->is_late = true;
    front->pauses++;
}

int64_t http_front_now_ms(struct http_front *front)
{
    if (!front->now_ms)
        look_at_clock(front);
    return front->now_ms;
}

/* Sets the wake-up earlier. Takes also call this: the waiters learn that a take has to wait only
 * when the queue has answered, possibly after the end of this iteration. Waking up early is
 * harmless. */
void http_front_wake_by(struct http_front *front, int64_t at_ms)
{
    if (at_ms >= front->expiry_ms)
        return;
    front->expiry_ms = at_ms;
    deadline_set(front->expiry, at_ms);
}

const char *http_front_date(struct http_front *front)
{
    if (front->has_date)
        return front->date;
    front->has_date = true;
    int64_t now_s = clock_wall_ms() / 1000;
    if (now_s != front->date_s) {
        struct tm parts;
        time_t time = (time_t)now_s;
        (void)gmtime_r(&time, &parts);
        (void)strftime(front->date, sizeof front->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        front->date_s = now_s;
    }
    return front->date;
}

/* ---- memory ---- */

void http_front_lend(struct http_front *front, struct buffer *buffer)
{
    if (buffer->cap)
        return;
    if (front->spare_count)
        *buffer = front->spares[--front->spare_count];
    else if (!buffer->bytes_max)
        buffer_init(buffer, HTTP_OUT_BYTES_MAX);
}

void http_front_give_back(struct http_front *front, struct buffer *buffer)
{
    if (buffer->cap && buffer->cap <= HTTP_SPARE_BYTES_MAX &&
        front->spare_count < HTTP_SPARES_MAX) {
        buffer_clear(buffer);
        buffer->bytes_max = HTTP_OUT_BYTES_MAX;
        front->spares[front->spare_count++] = *buffer;
    } else {
        buffer_fini(buffer);
    }
    *buffer = (struct buffer){0};
}

void http_budget_refuse(struct http_front *front, struct http_fault *fault)
{
    uint64_t max = front->shared->budget.bytes_max;
    budget_note_refused(&front->shared->budget);
    (void)http_fault_set(
        fault, PROBLEM_TOO_MUCH_MEMORY, max,
        "requests and answers in progress use all of the %" PRIu64
        " bytes that --max-request-memory allows: try again later, or request less at a time",
        max);
}

bool http_delivery_refuse(struct http_fault *fault, const char *what)
{
    return http_fault_set(fault, PROBLEM_DELIVERY_IS_OFF, 0,
                          "this server does not deliver, so it does not accept %s: start it with "
                          "--deliver FILE, a policy file with the allowed hosts",
                          what);
}

/* ---- statuses ---- */

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
    {HTTP_STATUS_ABANDONED, "HTTP/1.1 499 Client Closed Request\r\nDate: "},
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
