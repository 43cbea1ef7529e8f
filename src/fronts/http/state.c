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
