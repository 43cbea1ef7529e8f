/* Calls: waiting, in flight, settled. */
#include "redis/session_private.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum { WAIT_MS_MAX = 1000, GREETING_REPLIES_MAX = 32, SAME_COMPLAINT_MS = 10000 };

/* ---- sending ---- */

static bool has_room(const struct redis_session *session)
{
    return session->expected_count + 2 + GREETING_REPLIES_MAX <= SESSION_EXPECTED_MAX;
}

static void put48(char *at, int64_t number)
{
    for (int i = 5; i >= 0; i--, number /= 256)
        at[i] = (char)(number % 256);
}

/* Ticket, and the time within which the call may be carried out. */
static void emit_ticket(const struct redis_session *session, const struct redis_call *call,
                        struct buffer *out)
{
    char text[SESSION_TICKET_BYTES + SESSION_WINDOW_BYTES + 1];
    size_t len = 0;
    int64_t earliest_ms, latest_ms;
    assert(call->ticket < UINT64_C(1) << 48 && call->slot < REDIS_SESSION_SLOTS);
    if (call->changes) {
        snprintf(text, sizeof text, "%.8s%u%012" PRIx64, session->options.server,
                 call->slot % REDIS_SESSION_SLOTS, call->ticket);
        len = SESSION_TICKET_BYTES;
    }
    if (session->clock.known) {
        redis_clock_window(&session->clock, call->sent_us, &earliest_ms, &latest_ms);
        put48(text + len, earliest_ms < 0 ? 0 : earliest_ms);
        put48(text + len + SESSION_WINDOW_BYTES / 2, latest_ms < 0 ? 0 : latest_ms);
        len += SESSION_WINDOW_BYTES;
    }
    redis_command_arg(out, slice_make(text, len));
}

static void emit_wait(struct redis_session *session, struct redis_call *call)
{
    int64_t ms = session->options.patience_ms / 4;
    struct buffer *out = session_command(session, SESSION_EXPECTS_WAIT, call);
    redis_command_begin(out, 3);
    redis_command_text(out, "WAIT");
    redis_command_number(out, session->options.wait_replicas);
    redis_command_number(out, ms < 1 ? 1 : ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX);
}

static void send_call(struct redis_session *session, struct redis_call *call)
{
    struct buffer *out = session_command(session, SESSION_EXPECTS_CALL, call);
    bool has_ticket = call->changes || call->is_timed;
    call->sent_us = clock_inner_us();
    session_script(session, out, call->script, call->argc + has_ticket);
    if (has_ticket)
        emit_ticket(session, call, out);
    buffer_append_slice(out, buffer_slice(&call->args));
    if (call->changes && session->options.wait_replicas)
        emit_wait(session, call);
    call->is_sent = true;
    session->under_way++;
    session->options.figures->calls++;
    session_wake_by(session, call->sent_us / 1000 + SESSION_SILENCE_MS);
}

static uint32_t free_slot(const struct redis_session *session)
{
    uint32_t slot = 0;
    while (slot < REDIS_SESSION_SLOTS && session->slot_taken[slot])
        slot++;
    return slot;
}

static void send_first(struct redis_session *session, struct list *waiting, uint32_t slot)
{
    struct redis_call *call = list_entry(waiting->next, struct redis_call, list);
    list_remove(&call->list);
    list_add_last(&session->flying, &call->list);
    call->is_flying = true;
    session->flying_count++;
    if (call->changes) {
        session->slot_taken[slot] = true;
        call->slot = slot;
        call->ticket = ++session->number;
    } else {
        session->reads_flying++;
    }
    send_call(session, call);
}

/* In the order in which they were sent first. */
static void send_again(struct redis_session *session)
{
    for (struct list *at = session->flying.next; at != &session->flying && has_room(session);
         at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->is_sent)
            continue;
        session->options.figures->resent += call->changes;
        send_call(session, call);
    }
}

void session_calls_send(struct redis_session *session)
{
    uint32_t slot;
    if (session->state != SESSION_UP)
        return;
    if (session->flying_count > session->under_way)
        send_again(session);
    while (!list_is_empty(&session->reads_waiting) && session->reads_flying < SESSION_READS_MAX &&
           has_room(session))
        send_first(session, &session->reads_waiting, 0);
    while (!list_is_empty(&session->changes_waiting) && has_room(session) &&
           (slot = free_slot(session)) < REDIS_SESSION_SLOTS)
        send_first(session, &session->changes_waiting, slot);
}

/* One that comes when a stop has ended the others waits for the next time that is looked at, as the
 * end of a call may bring it. */
static int64_t patience_over_ms(const struct redis_session *session)
{
    int64_t now_ms = clock_inner_ms(), over_ms = now_ms + session->options.patience_ms;
    if (over_ms <= session->stop_ms)
        return over_ms;
    return session->stop_ms > now_ms ? session->stop_ms : now_ms + 1;
}

void redis_session_submit(struct redis_session *session, struct redis_call *call)
{
    assert(!session->stopping && call->script && call->done && !call->args.failed);
    call->give_up_ms = patience_over_ms(session);
    call->is_flying = call->is_sent = false;
    call->kept = NULL;
    list_add_last(call->changes ? &session->changes_waiting : &session->reads_waiting, &call->list);
    session->calls++;
    session_wake_by(session, call->give_up_ms);
    session_calls_send(session);
}

void redis_session_stop(struct redis_session *session, int64_t until_ms)
{
    struct list *lists[] = {&session->flying, &session->changes_waiting, &session->reads_waiting};
    session->stop_ms = until_ms;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (struct list *at = lists[i]->next; at != lists[i]; at = at->next) {
            struct redis_call *call = list_entry(at, struct redis_call, list);
            if (call->give_up_ms > until_ms)
                call->give_up_ms = until_ms;
        }
    session_wake_by(session, until_ms);
}

/* ---- ending ---- */

/* Its replies still come, and mean nobody. */
static void disown(struct redis_session *session, const struct redis_call *call)
{
    for (uint32_t i = 0; i < session->expected_count; i++) {
        uint32_t at = (session->expected_first + i) % SESSION_EXPECTED_MAX;
        if (session->expected[at].call == call)
            session->expected[at].call = NULL;
    }
}

/* It must be sent again. */
static void unsend(struct redis_session *session, struct redis_call *call)
{
    assert(call->is_sent);
    call->is_sent = false;
    session->under_way--;
    session_reply_free(call->kept);
    call->kept = NULL;
}

static void finish(struct redis_session *session, struct redis_call *call, enum redis_call_end end,
                   const struct redis_head *head, const redisReply *reply)
{
    list_remove(&call->list);
    if (call->is_sent)
        session->under_way--;
    if (call->is_flying) {
        session->flying_count--;
        if (call->changes)
            session->slot_taken[call->slot] = false;
        else
            session->reads_flying--;
    }
    session->calls--;
    call->done(call, end, head, reply);
}

static void give_up(struct redis_session *session, struct redis_call *call, enum redis_call_end end)
{
    disown(session, call);
    session_reply_free(call->kept);
    call->kept = NULL;
    finish(session, call, end, NULL, NULL);
}

void session_calls_unsent(struct redis_session *session)
{
    for (struct list *at = session->flying.next; at != &session->flying; at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->is_sent)
            unsend(session, call);
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

int64_t session_calls_expire(struct redis_session *session, int64_t now_ms)
{
    struct list *lists[] = {&session->flying, &session->changes_waiting, &session->reads_waiting};
    int64_t next_ms = INT64_MAX;
    struct redis_call *call;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while ((call = first_expired(lists[i], now_ms, &next_ms)))
            give_up(session, call, REDIS_CALL_UNAVAILABLE);
    session_calls_send(session);
    return next_ms;
}

/* Only those there are now: `done` may submit. */
void session_calls_end_all(struct redis_session *session, enum redis_call_end end)
{
    struct list *lists[] = {&session->flying, &session->changes_waiting, &session->reads_waiting},
                ending;
    list_init(&ending);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while (!list_is_empty(lists[i])) {
            struct list *first = lists[i]->next;
            list_remove(first);
            list_add_last(&ending, first);
        }
    while (!list_is_empty(&ending))
        give_up(session, list_entry(ending.next, struct redis_call, list), end);
}

/* ---- replies ---- */

static void complain(struct redis_session *session, const struct redis_call *call, const char *why)
{
    int64_t now_ms = clock_inner_ms();
    if (strncmp(session->said_call, why, sizeof session->said_call - 1) == 0 &&
        now_ms - session->said_call_ms < SAME_COMPLAINT_MS)
        return;
    session->said_call_ms = now_ms;
    snprintf(session->said_call, sizeof session->said_call, "%s", why);
    log_event(LOG_ERROR, "redis refuses a call", LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("script", redis_script_name(call->script)),
              LOG_TEXT("why", session->said_call));
}

static void refuse(struct redis_session *session, struct redis_call *call, enum redis_call_end end,
                   const char *why)
{
    complain(session, call, why);
    give_up(session, call, end);
}

static void greet_and_send_again(struct redis_session *session, struct redis_call *call,
                                 enum session_greeting_kind kind)
{
    disown(session, call);
    unsend(session, call);
    session_greet_again(session, kind);
}

static void error_reply(struct redis_session *session, struct redis_call *call, const char *error)
{
    switch (session_judge(error)) {
    case SESSION_VERDICT_GONE:
        session_say_gone(session);
        /* fall through */
    case SESSION_VERDICT_GREET:
        greet_and_send_again(session, call, SESSION_GREET_AGAIN);
        break;
    case SESSION_VERDICT_CLOCK:
        session->is_behind = true;
        greet_and_send_again(session, call, SESSION_GREET_CLOCK);
        break;
    case SESSION_VERDICT_AGAIN:
        session_lost(session, error, false);
        break;
    case SESSION_VERDICT_MOVED:
        session_moved(session, error);
        break;
    case SESSION_VERDICT_ELSEWHERE:
        session_lost(session, error, true);
        break;
    case SESSION_VERDICT_NO_SPACE:
        refuse(session, call, REDIS_CALL_NO_SPACE, error);
        break;
    case SESSION_VERDICT_REFUSED:
        refuse(session, call, REDIS_CALL_UNAVAILABLE, error);
        break;
    }
}

/* Its clock jumped: others wait until that is settled. */
static void hear_clock(struct redis_session *session, const struct redis_call *call,
                       const struct redis_head *head)
{
    int64_t apart_ms;
    if (!redis_clock_hear(&session->clock, head->now_ms, head->adjust_ms, call->sent_us,
                          clock_inner_us(), &apart_ms))
        session_greet_again(session, SESSION_GREET_CLOCK);
}

void session_call_reply(struct redis_session *session, struct redis_call *call,
                        const redisReply *reply)
{
    struct redis_head head;
    if (!call)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        error_reply(session, call, reply->str);
        return;
    }
    if (!session_read_head(reply, &head)) {
        refuse(session, call, REDIS_CALL_UNAVAILABLE, "its answer makes no sense");
        return;
    }
    session->pause_ms = SESSION_PAUSE_FIRST_MS;
    hear_clock(session, call, &head);
    if (!call->changes || !session->options.wait_replicas)
        finish(session, call, REDIS_CALL_OK, &head, reply);
    else if (!(call->kept = session_reply_copy(reply)))
        refuse(session, call, REDIS_CALL_UNAVAILABLE, "out of memory");
}

/* A take that took nothing tells nothing that a failover could undo. */
static bool needs_replicas(const struct redis_call *call)
{
    const redisReply *kept = call->kept;
    return call->script != REDIS_TAKE || kept->elements > 1;
}

void session_wait_reply(struct redis_session *session, struct redis_call *call,
                        const redisReply *reply)
{
    struct redis_head head;
    if (!call)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        session_lost(session, reply->str, true);
        return;
    }
    if ((reply->type != REDIS_REPLY_INTEGER || reply->integer < session->options.wait_replicas) &&
        needs_replicas(call)) {
        refuse(session, call, REDIS_CALL_UNAVAILABLE, "too few replicas have the change");
        return;
    }
    redisReply *kept = call->kept;
    bool good = session_read_head(kept, &head);
    assert(good);
    (void)good;
    call->kept = NULL;
    finish(session, call, REDIS_CALL_OK, &head, kept);
    session_reply_free(kept);
}
