#include "sql/flush.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    DISK_SLOW_US = 2000,
    DISK_SAMPLES = 8,
    OVERLAPS = 16 /* number of durable transactions flushed after a take that arrived during one */
};

void sql_flush_init(struct sql_flush *flush, struct reactor *reactor)
{
    *flush = (struct sql_flush){.reactor = reactor};
    list_init(&flush->calls);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sql_flush *flush = poll->data;
    enum sql_progress progress = flush->link->dialect->advance_flush(flush->link);
    (void)events;
    flush->is_lost = flush->is_lost || status < 0 || progress == SQL_LOST;
    if (progress == SQL_PART_OVER && flush->is_under_way) {
        flush->is_under_way = false;
        flush->is_over = true;
    }
    if (flush->is_lost)
        (void)uv_poll_stop(poll);
    reactor_turn_again(flush->reactor);
}

bool sql_flush_connect(struct sql_flush *flush, struct sql_link *link)
{
    uv_poll_t *poll;
    int socket = link->dialect->flush_socket ? link->dialect->flush_socket(link) : -1;
    if (socket < 0)
        return true;
    poll = malloc(sizeof *poll);
    if (!poll)
        return false;
    if (uv_poll_init(reactor_loop(flush->reactor), poll, socket) != 0) {
        free(poll);
        return false;
    }
    poll->data = flush;
    flush->poll = poll;
    flush->link = link;
    (void)uv_poll_start(poll, UV_READABLE, on_poll);
    return true;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void sql_flush_disconnect(struct sql_flush *flush)
{
    if (flush->poll) {
        (void)uv_poll_stop(flush->poll);
        uv_close((uv_handle_t *)flush->poll, on_closed);
    }
    flush->poll = NULL;
    flush->link = NULL;
    flush->is_cut = flush->is_cut || flush->is_under_way;
    flush->is_under_way = flush->is_lost = false;
}

bool sql_flush_choose(struct sql_flush *flush, bool is_durable)
{
    bool is_wanted = flush->overlaps > 0 && flush->disk_us >= DISK_SLOW_US;
    flush->overlaps -= is_durable && flush->overlaps > 0;
    return is_durable && is_wanted && flush->link;
}

void sql_flush_note_take(struct sql_flush *flush)
{
    flush->overlaps = OVERLAPS;
}

/* Updates a moving average. */
void sql_flush_note_disk(struct sql_flush *flush, int64_t begun_us)
{
    flush->disk_us += (clock_boot_us() - begun_us - flush->disk_us) / DISK_SAMPLES;
}

bool sql_flush_is_busy(const struct sql_flush *flush)
{
    return flush->is_under_way || !list_is_empty(&flush->calls);
}

void sql_flush_add(struct sql_flush *flush, struct sql_call *call)
{
    list_add_last(&flush->calls, &call->list);
}

void sql_flush_begin(struct sql_flush *flush)
{
    if (!flush->link || flush->is_under_way || flush->is_over || list_is_empty(&flush->calls))
        return;
    flush->begun_us = clock_boot_us();
    flush->is_under_way = flush->link->dialect->send_flush(flush->link);
    flush->is_lost = flush->is_lost || !flush->is_under_way;
}

void sql_flush_take(struct sql_flush *flush, struct list *out)
{
    sql_flush_note_disk(flush, flush->begun_us);
    list_init(out);
    list_take_all(out, &flush->calls);
    flush->is_over = false;
}

void sql_flush_take_lost(struct sql_flush *flush, int64_t ticket, struct list *out)
{
    struct list *at = flush->calls.next;
    list_init(out);
    while (at != &flush->calls) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (call->ticket <= ticket)
            continue;
        list_remove(&call->list);
        list_add_last(out, &call->list);
    }
}
