/* Calls: waiting, in flight, settled. */
#include "redis/link_private.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum { WAIT_MS_MAX = 1000, GREETING_REPLIES_MAX = 32, SAME_COMPLAINT_MS = 10000 };

/* ---- sending ---- */

static bool has_room(const struct redis_link *link)
{
    return link->expected_count + 2 + GREETING_REPLIES_MAX <= LINK_EXPECTED_MAX;
}

static void put48(char *at, int64_t number)
{
    for (int i = 5; i >= 0; i--, number /= 256)
        at[i] = (char)(number % 256);
}

/* Ticket, and the time within which the call may be carried out. */
static void emit_ticket(const struct redis_link *link, const struct redis_call *call,
                        struct buffer *out)
{
    char text[LINK_TICKET_BYTES + LINK_WINDOW_BYTES + 1];
    size_t len = 0;
    int64_t earliest_ms, latest_ms;
    assert(call->ticket < UINT64_C(1) << 48 && call->slot < REDIS_LINK_SLOTS);
    if (call->changes) {
        snprintf(text, sizeof text, "%.8s%u%012" PRIx64, link->options.server,
                 call->slot % REDIS_LINK_SLOTS, call->ticket);
        len = LINK_TICKET_BYTES;
    }
    if (link->clock.known) {
        redis_clock_window(&link->clock, call->sent_us, &earliest_ms, &latest_ms);
        put48(text + len, earliest_ms < 0 ? 0 : earliest_ms);
        put48(text + len + LINK_WINDOW_BYTES / 2, latest_ms < 0 ? 0 : latest_ms);
        len += LINK_WINDOW_BYTES;
    }
    redis_command_arg(out, slice_make(text, len));
}

static void emit_wait(struct redis_link *link, struct redis_call *call)
{
    int64_t ms = link->options.patience_ms / 4;
    struct buffer *out = link_command(link, LINK_EXPECTS_WAIT, call);
    redis_command_begin(out, 3);
    redis_command_text(out, "WAIT");
    redis_command_number(out, link->options.wait_replicas);
    redis_command_number(out, ms < 1 ? 1 : ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX);
}

static void send_call(struct redis_link *link, struct redis_call *call)
{
    struct buffer *out = link_command(link, LINK_EXPECTS_CALL, call);
    bool has_ticket = call->changes || call->is_timed;
    call->sent_us = clock_inner_us();
    link_script(link, out, call->script, call->argc + has_ticket);
    if (has_ticket)
        emit_ticket(link, call, out);
    buffer_append_slice(out, buffer_slice(&call->args));
    if (call->changes && link->options.wait_replicas)
        emit_wait(link, call);
    call->is_sent = true;
    link->under_way++;
    link->options.figures->calls++;
    link_wake_by(link, call->sent_us / 1000 + LINK_SILENCE_MS);
}

static uint32_t free_slot(const struct redis_link *link)
{
    uint32_t slot = 0;
    while (slot < REDIS_LINK_SLOTS && link->slot_taken[slot])
        slot++;
    return slot;
}

static void send_first(struct redis_link *link, struct list *waiting, uint32_t slot)
{
    struct redis_call *call = list_entry(waiting->next, struct redis_call, list);
    list_remove(&call->list);
    list_add_last(&link->flying, &call->list);
    call->is_flying = true;
    link->flying_count++;
    if (call->changes) {
        link->slot_taken[slot] = true;
        call->slot = slot;
        call->ticket = ++link->number;
    } else {
        link->reads_flying++;
    }
    send_call(link, call);
}

/* In the order in which they were sent first. */
static void send_again(struct redis_link *link)
{
    for (struct list *at = link->flying.next; at != &link->flying && has_room(link);
         at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->is_sent)
            continue;
        link->options.figures->resent += call->changes;
        send_call(link, call);
    }
}

void link_calls_send(struct redis_link *link)
{
    uint32_t slot;
    if (link->state != LINK_UP)
        return;
    if (link->flying_count > link->under_way)
        send_again(link);
    while (!list_is_empty(&link->reads_waiting) && link->reads_flying < LINK_READS_MAX &&
           has_room(link))
        send_first(link, &link->reads_waiting, 0);
    while (!list_is_empty(&link->changes_waiting) && has_room(link) &&
           (slot = free_slot(link)) < REDIS_LINK_SLOTS)
        send_first(link, &link->changes_waiting, slot);
}

/* One that comes when a stop has ended the others waits for the next time that is looked at, as the
 * end of a call may bring it. */
static int64_t patience_over_ms(const struct redis_link *link)
{
    int64_t now_ms = clock_inner_ms(), over_ms = now_ms + link->options.patience_ms;
    if (over_ms <= link->stop_ms)
        return over_ms;
    return link->stop_ms > now_ms ? link->stop_ms : now_ms + 1;
}

void redis_link_submit(struct redis_link *link, struct redis_call *call)
{
    assert(!link->stopping && call->script && call->done && !call->args.failed);
    call->give_up_ms = patience_over_ms(link);
    call->is_flying = call->is_sent = false;
    call->kept = NULL;
    list_add_last(call->changes ? &link->changes_waiting : &link->reads_waiting, &call->list);
    link->calls++;
    link_wake_by(link, call->give_up_ms);
    link_calls_send(link);
}

void redis_link_stop(struct redis_link *link, int64_t until_ms)
{
    struct list *lists[] = {&link->flying, &link->changes_waiting, &link->reads_waiting};
    link->stop_ms = until_ms;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (struct list *at = lists[i]->next; at != lists[i]; at = at->next) {
            struct redis_call *call = list_entry(at, struct redis_call, list);
            if (call->give_up_ms > until_ms)
                call->give_up_ms = until_ms;
        }
    link_wake_by(link, until_ms);
}

/* ---- ending ---- */

/* Its replies still come, and mean nobody. */
static void disown(struct redis_link *link, const struct redis_call *call)
{
    for (uint32_t i = 0; i < link->expected_count; i++) {
        uint32_t at = (link->expected_first + i) % LINK_EXPECTED_MAX;
        if (link->expected[at].call == call)
            link->expected[at].call = NULL;
    }
}

/* It must be sent again. */
static void unsend(struct redis_link *link, struct redis_call *call)
{
    assert(call->is_sent);
    call->is_sent = false;
    link->under_way--;
    link_reply_free(call->kept);
    call->kept = NULL;
}

static void finish(struct redis_link *link, struct redis_call *call, enum redis_call_end end,
                   const struct redis_head *head, const redisReply *reply)
{
    list_remove(&call->list);
    if (call->is_sent)
        link->under_way--;
    if (call->is_flying) {
        link->flying_count--;
        if (call->changes)
            link->slot_taken[call->slot] = false;
        else
            link->reads_flying--;
    }
    link->calls--;
    call->done(call, end, head, reply);
}

static void give_up(struct redis_link *link, struct redis_call *call, enum redis_call_end end)
{
    disown(link, call);
    link_reply_free(call->kept);
    call->kept = NULL;
    finish(link, call, end, NULL, NULL);
}

void link_calls_unsent(struct redis_link *link)
{
    for (struct list *at = link->flying.next; at != &link->flying; at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->is_sent)
            unsend(link, call);
    }
}

/* `done` may submit: what comes in then has its whole patience before it. */
static struct redis_call *first_expired(struct list *calls, int64_t now_ms, int64_t *next_ms)
{
    for (struct list *at = calls->next; at != calls; at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->give_up_ms <= now_ms)
            return call;
        if (call->give_up_ms < *next_ms)
            *next_ms = call->give_up_ms;
    }
    return NULL;
}

int64_t link_calls_expire(struct redis_link *link, int64_t now_ms)
{
    struct list *lists[] = {&link->flying, &link->changes_waiting, &link->reads_waiting};
    int64_t next_ms = INT64_MAX;
    struct redis_call *call;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while ((call = first_expired(lists[i], now_ms, &next_ms)))
            give_up(link, call, REDIS_CALL_UNAVAILABLE);
    link_calls_send(link);
    return next_ms;
}

/* Only those there are now: `done` may submit. */
void link_calls_end_all(struct redis_link *link, enum redis_call_end end)
{
    struct list *lists[] = {&link->flying, &link->changes_waiting, &link->reads_waiting}, ending;
    list_init(&ending);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while (!list_is_empty(lists[i])) {
            struct list *first = lists[i]->next;
            list_remove(first);
            list_add_last(&ending, first);
        }
    while (!list_is_empty(&ending))
        give_up(link, list_entry(ending.next, struct redis_call, list), end);
}

/* ---- replies ---- */

static void complain(struct redis_link *link, const struct redis_call *call, const char *why)
{
    int64_t now_ms = clock_inner_ms();
    if (strncmp(link->said_call, why, sizeof link->said_call - 1) == 0 &&
        now_ms - link->said_call_ms < SAME_COMPLAINT_MS)
        return;
    link->said_call_ms = now_ms;
    snprintf(link->said_call, sizeof link->said_call, "%s", why);
    log_event(LOG_ERROR, "redis refuses a call", LOG_TEXT("shard", link->options.tag),
              LOG_TEXT("script", redis_script_name(call->script)),
              LOG_TEXT("why", link->said_call));
}

static void refuse(struct redis_link *link, struct redis_call *call, enum redis_call_end end,
                   const char *why)
{
    complain(link, call, why);
    give_up(link, call, end);
}

static void greet_and_send_again(struct redis_link *link, struct redis_call *call,
                                 enum link_greeting_kind kind)
{
    disown(link, call);
    unsend(link, call);
    link_greet_again(link, kind);
}

static void error_reply(struct redis_link *link, struct redis_call *call, const char *error)
{
    switch (link_judge(error)) {
    case LINK_VERDICT_GONE:
        link_say_gone(link);
        /* fall through */
    case LINK_VERDICT_GREET:
        greet_and_send_again(link, call, LINK_GREET_AGAIN);
        break;
    case LINK_VERDICT_CLOCK:
        link->is_behind = true;
        greet_and_send_again(link, call, LINK_GREET_CLOCK);
        break;
    case LINK_VERDICT_AGAIN:
        link_lost(link, error, false);
        break;
    case LINK_VERDICT_MOVED:
        link_moved(link, error);
        break;
    case LINK_VERDICT_ELSEWHERE:
        link_lost(link, error, true);
        break;
    case LINK_VERDICT_NO_SPACE:
        refuse(link, call, REDIS_CALL_NO_SPACE, error);
        break;
    case LINK_VERDICT_REFUSED:
        refuse(link, call, REDIS_CALL_UNAVAILABLE, error);
        break;
    }
}

/* Its clock jumped: others wait until that is settled. */
static void hear_clock(struct redis_link *link, const struct redis_call *call,
                       const struct redis_head *head)
{
    int64_t apart_ms;
    if (!redis_clock_hear(&link->clock, head->now_ms, head->adjust_ms, call->sent_us,
                          clock_inner_us(), &apart_ms))
        link_greet_again(link, LINK_GREET_CLOCK);
}

void link_call_reply(struct redis_link *link, struct redis_call *call, const redisReply *reply)
{
    struct redis_head head;
    if (!call)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        error_reply(link, call, reply->str);
        return;
    }
    if (!link_read_head(reply, &head)) {
        refuse(link, call, REDIS_CALL_UNAVAILABLE, "its answer makes no sense");
        return;
    }
    link->pause_ms = LINK_PAUSE_FIRST_MS;
    hear_clock(link, call, &head);
    if (!call->changes || !link->options.wait_replicas)
        finish(link, call, REDIS_CALL_OK, &head, reply);
    else if (!(call->kept = link_reply_copy(reply)))
        refuse(link, call, REDIS_CALL_UNAVAILABLE, "out of memory");
}

/* A take that took nothing tells nothing that a failover could undo. */
static bool needs_replicas(const struct redis_call *call)
{
    const redisReply *kept = call->kept;
    return call->script != REDIS_TAKE || kept->elements > 1;
}

void link_wait_reply(struct redis_link *link, struct redis_call *call, const redisReply *reply)
{
    struct redis_head head;
    if (!call)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        link_lost(link, reply->str, true);
        return;
    }
    if ((reply->type != REDIS_REPLY_INTEGER || reply->integer < link->options.wait_replicas) &&
        needs_replicas(call)) {
        refuse(link, call, REDIS_CALL_UNAVAILABLE, "too few replicas have the change");
        return;
    }
    redisReply *kept = call->kept;
    bool good = link_read_head(kept, &head);
    assert(good);
    (void)good;
    call->kept = NULL;
    finish(link, call, REDIS_CALL_OK, &head, kept);
    link_reply_free(kept);
}
