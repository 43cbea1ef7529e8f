#include "http/phase.h"

enum { LINGER_MS = 2000, HELD_MS = 500, QUIET_MS = 30 * 1000 };

int64_t http_phase_timeout_ms(const struct http_front *front, enum http_phase phase)
{
    switch (phase) {
    case HTTP_PHASE_IDLE:
        return front->is_draining ? front->polite_ms : front->options.idle_ms;
    case HTTP_PHASE_GREET:
    case HTTP_PHASE_HEAD:
        return front->is_draining && front->options.header_ms > HTTP_RECENT_MS
                   ? HTTP_RECENT_MS
                   : front->options.header_ms;
    case HTTP_PHASE_BODY:
        return front->options.body_ms;
    case HTTP_PHASE_LINGER:
        return LINGER_MS;
    case HTTP_PHASE_HELD:
        return HELD_MS;
    case HTTP_PHASE_QUIET:
        return front->is_draining ? HTTP_RECENT_MS : QUIET_MS;
    default:
        return front->options.idle_ms;
    }
}

void http_phase_begin(struct http_connection *connection, enum http_phase phase)
{
    struct http_front *front = connection->front;
    list_remove(&connection->timed);
    connection->phase = phase;
    if (phase == HTTP_PHASE_NONE)
        return;
    connection->until_ms = http_front_now_ms(front) + http_phase_timeout_ms(front, phase);
    list_add_last(&front->timed[phase], &connection->timed);
    if (connection->until_ms < front->alarm_ms) {
        front->alarm_ms = connection->until_ms;
        deadline_set(front->alarm, front->alarm_ms);
    }
}

void http_phases_shorten(struct http_front *front)
{
    int64_t now_ms = http_front_now_ms(front);
    for (int phase = HTTP_PHASE_NONE + 1; phase < HTTP_PHASE_COUNT; phase++) {
        int64_t latest_ms = now_ms + http_phase_timeout_ms(front, (enum http_phase)phase);
        struct list *list = &front->timed[phase];
        for (struct list *node = list->next; node != list; node = node->next) {
            struct http_connection *connection = list_entry(node, struct http_connection, timed);
            if (connection->until_ms > latest_ms)
                connection->until_ms = latest_ms;
        }
    }
}

/* Returns the first connection in the phase, or NULL. */
static struct http_connection *first_in(const struct http_front *front, int phase)
{
    const struct list *list = &front->timed[phase];
    return list_is_empty(list) ? NULL : list_entry(list->next, struct http_connection, timed);
}

struct http_connection *http_phases_find_over(const struct http_front *front, int64_t now_ms)
{
    for (int phase = HTTP_PHASE_NONE + 1; phase < HTTP_PHASE_COUNT; phase++) {
        struct http_connection *first = first_in(front, phase);
        if (first && first->until_ms <= now_ms)
            return first;
    }
    return NULL;
}

void http_phases_set_alarm(struct http_front *front)
{
    int64_t next_ms = INT64_MAX;
    for (int phase = HTTP_PHASE_NONE + 1; phase < HTTP_PHASE_COUNT; phase++) {
        const struct http_connection *first = first_in(front, phase);
        if (first && first->until_ms < next_ms)
            next_ms = first->until_ms;
    }
    front->alarm_ms = next_ms;
    deadline_set(front->alarm, next_ms);
}
