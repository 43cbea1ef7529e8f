/* The session: its states, its timers, and its calls. */
#include "redis/session_state.h"

#include "base/hex.h"

#include <stdlib.h>

enum {
    WAIT_MS_MAX = 1000,
    GREETING_REPLIES_MAX = 32,
    SAME_COMPLAINT_MS = 10000,
    REFUSED_PAUSE_MS = 30000
};

/* ---- calls: sending ---- */

static bool has_room(const struct redis_session *session)
{
    return session->expected_count + 2 + GREETING_REPLIES_MAX <= SESSION_EXPECTED_MAX;
}

static void put48(char *at, int64_t number)
{
    for (int i = 5; i >= 0; i--, number /= 256)
        at[i] = (char)(number % 256);
}

/* Appends the ticket, the time window within which the call may be carried out, and the name of the
 * core that the server knows. */
static void emit_ticket(const struct redis_session *session, const struct redis_call *call,
                        struct buffer *out)
{
    char text[SESSION_TICKET_BYTES + SESSION_WINDOW_BYTES + SESSION_CORE_BYTES];
    enum { SERVER_BYTES = 8, NUMBER_DIGITS = 12 };
    size_t len = 0;
    int64_t earliest_ms, latest_ms;
    assert(call->ticket < UINT64_C(1) << 48 && call->slot < REDIS_SESSION_SLOTS);
    if (call->changes) {
        memcpy(text, session->options.server, SERVER_BYTES);
        text[SERVER_BYTES] = (char)('0' + call->slot);
        hex_emit_u64(text + SERVER_BYTES + 1, call->ticket, NUMBER_DIGITS);
        len = SESSION_TICKET_BYTES;
    }
    if (session->clock.known) {
        peer_clock_window(&session->clock, call->sent_us, &earliest_ms, &latest_ms);
        put48(text + len, earliest_ms < 0 ? 0 : earliest_ms);
        put48(text + len + SESSION_WINDOW_BYTES / 2, latest_ms < 0 ? 0 : latest_ms);
        len += SESSION_WINDOW_BYTES;
    }
    if (call->changes && session->clock.known && session->has_lease_key) {
        session_name_core(session, text + len);
        len += SESSION_CORE_BYTES;
    }
    redis_command_arg(out, slice_make(text, len));
}

static void emit_wait(struct redis_session *session, struct redis_call *call)
{
    int64_t ms = session->options.timeout_ms / 4;
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

/* Sends unanswered calls again, in the order in which they were first sent. */
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

static void calls_send(struct redis_session *session)
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

/* Returns when a new call times out. A call submitted after a stop has ended the others times out
 * at the next check, because a call's `done` may submit it. */
static int64_t timeout_end_ms(const struct redis_session *session)
{
    int64_t now_ms = clock_inner_ms(), over_ms = now_ms + session->options.timeout_ms;
    if (over_ms <= session->stop_ms)
        return over_ms;
    return session->stop_ms > now_ms ? session->stop_ms : now_ms + 1;
}

void redis_session_submit(struct redis_session *session, struct redis_call *call)
{
    assert(!session->stopping && call->script && call->done && !call->args.failed);
    call->give_up_ms = timeout_end_ms(session);
    call->is_flying = call->is_sent = false;
    call->kept = NULL;
    list_add_last(call->changes ? &session->changes_waiting : &session->reads_waiting, &call->list);
    session->calls++;
    session_wake_by(session, call->give_up_ms);
    calls_send(session);
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

/* ---- calls: ending ---- */

/* Detaches the call from its outstanding replies, which are then discarded. */
static void call_disown(struct redis_session *session, const struct redis_call *call)
{
    for (uint32_t i = 0; i < session->expected_count; i++) {
        uint32_t at = (session->expected_first + i) % SESSION_EXPECTED_MAX;
        if (session->expected[at].call == call)
            session->expected[at].call = NULL;
    }
}

/* Marks the call as not sent: it will be sent again. */
static void call_unsend(struct redis_session *session, struct redis_call *call)
{
    assert(call->is_sent);
    call->is_sent = false;
    session->under_way--;
    freeReplyObject(call->kept);
    call->kept = NULL;
}

static void call_finish(struct redis_session *session, struct redis_call *call,
                        enum redis_call_end end, const struct redis_head *head,
                        const redisReply *reply)
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

static void call_give_up(struct redis_session *session, struct redis_call *call,
                         enum redis_call_end end)
{
    call_disown(session, call);
    freeReplyObject(call->kept);
    call->kept = NULL;
    call_finish(session, call, end, NULL, NULL);
}

static void calls_unsent(struct redis_session *session)
{
    for (struct list *at = session->flying.next; at != &session->flying; at = at->next) {
        struct redis_call *call = list_entry(at, struct redis_call, list);
        if (call->is_sent)
            call_unsend(session, call);
    }
}

/* Returns a call that has timed out, or NULL. `done` may submit calls, which then have their full
 * timeout. */
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

static int64_t calls_expire(struct redis_session *session, int64_t now_ms)
{
    struct list *lists[] = {&session->flying, &session->changes_waiting, &session->reads_waiting};
    int64_t next_ms = INT64_MAX;
    struct redis_call *call;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while ((call = first_expired(lists[i], now_ms, &next_ms)))
            call_give_up(session, call, REDIS_CALL_UNAVAILABLE);
    calls_send(session);
    return next_ms;
}

/* Ends the current calls, but not those that their `done` submits. */
static void calls_end_all(struct redis_session *session, enum redis_call_end end)
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
        call_give_up(session, list_entry(ending.next, struct redis_call, list), end);
}

static const struct redis_connection_events events;

static void session_log(struct redis_session *session, enum log_level level, const char *event,
                        const char *why)
{
    if (strcmp(session->last_warning, why) == 0)
        return;
    snprintf(session->last_warning, sizeof session->last_warning, "%s", why);
    log_event(level, event, LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("at", session->endpoint.host), LOG_NUMBER("port", session->endpoint.port),
              LOG_TEXT("why", why));
}

/* ---- time ---- */

/* Returns until when Redis may stay silent while it owes a reply. */
static int64_t silent_until(struct redis_session *session)
{
    return session->expected_count ? session->received_ms + SESSION_SILENCE_MS : INT64_MAX;
}

static bool is_silent(struct redis_session *session, int64_t now_ms)
{
    size_t unsent = redis_connection_unsent(session->connection);
    if (unsent < session->unsent)
        session->received_ms = now_ms; /* Redis is still reading, slowly */
    session->unsent = unsent;
    return now_ms >= silent_until(session);
}

/* ---- states ---- */

static void session_notify_changed(struct redis_session *session, bool up)
{
    if (session->options.changed)
        session->options.changed(session->options.ctx, up);
}

static void session_leave(struct redis_session *session)
{
    redis_connection_free(session->connection);
    session->connection = NULL;
    session->expected_count = 0;
    redis_subscription_stop(&session->notifications);
    calls_unsent(session);
    redis_topology_leave(&session->asker);
}

static void begin_again(struct redis_session *session, int64_t pause_ms)
{
    bool was_up = session->state == SESSION_UP;
    int64_t now_ms = clock_inner_ms();
    session_leave(session);
    session->state = SESSION_PAUSING;
    session->resume_ms = now_ms + pause_ms;
    session_wake_by(session, session->resume_ms);
    if (was_up)
        session_notify_changed(session, false);
}

static void session_lost(struct redis_session *session, const char *why, bool fresh)
{
    int64_t pause_ms = session->pause_ms;
    if (session->state == SESSION_UP && clock_inner_ms() - session->up_ms >= SESSION_STEADY_MS)
        pause_ms = SESSION_PAUSE_FIRST_MS;
    session->pause_ms = pause_ms * 2 < SESSION_PAUSE_MAX_MS ? pause_ms * 2 : SESSION_PAUSE_MAX_MS;
    session->fresh |= fresh;
    session_log(session, LOG_WARN, "redis cannot be reached", why);
    begin_again(session, pause_ms);
}

static void session_refused(struct redis_session *session, const char *why)
{
    session->fresh = true;
    session_log(session, LOG_ERROR, "redis refuses", why);
    begin_again(session, SESSION_PAUSE_MAX_MS);
}

static void session_moved(struct redis_session *session, const char *error)
{
    struct redis_endpoint there;
    bool known = redis_error_endpoint(error, &session->endpoint, &there);
    session->options.figures->redirects++;
    if (known)
        redis_topology_moved(session->options.topology, session->asker.slot, &there);
    if (known && !session->was_moved)
        session->pause_ms = SESSION_PAUSE_FIRST_MS; /* not if redirected in circles */
    session->was_moved = true;
    session_lost(session, error, !known);
}

static void session_greet_again(struct redis_session *session, enum session_greeting_kind kind)
{
    if (session->state != SESSION_UP)
        return;
    session_greet(session, kind);
    session_notify_changed(session, false);
}

static void note_master(struct redis_session *session)
{
    if (session->run_id[0] && strcmp(session->run_id, session->found_run_id) != 0) {
        session->options.figures->failovers++;
        if (session->options.tally)
            session->options.tally->failovers++;
        log_event(LOG_WARN, "redis master has changed", LOG_TEXT("shard", session->options.tag),
                  LOG_TEXT("at", session->endpoint.host),
                  LOG_NUMBER("port", session->endpoint.port));
    }
    memcpy(session->run_id, session->found_run_id, sizeof session->run_id);
}

static void session_up(struct redis_session *session)
{
    note_master(session);
    session->state = SESSION_UP;
    session->up_ms = clock_inner_ms();
    session->was_up = true;
    session->was_moved = session->logged_gone = session->is_behind = false;
    if (session->last_warning[0])
        session_log(session, LOG_INFO, "redis can be reached again", "");
    calls_send(session);
    session_notify_changed(session, true);
}

/* ---- events ---- */

static void on_found(void *ctx, const struct redis_endpoint *endpoint, const char *why)
{
    struct redis_session *session = ctx;
    assert(session->state == SESSION_SEEKING);
    if (!endpoint) {
        session_lost(session, why, true);
        return;
    }
    session->endpoint = *endpoint;
    session->connection =
        redis_connection_new(session->options.reactor, endpoint, &session->options.url->tls,
                             SESSION_CONNECT_MS, &events, session);
    if (!session->connection) {
        session_lost(session, "out of memory", false);
        return;
    }
    session->state = SESSION_CONNECTING;
    redis_connection_count(session->connection, &session->options.figures->bytes_sent,
                           &session->options.figures->bytes_received);
    if (session->was_up)
        session->options.figures->reconnects++;
    if (session->was_up && session->options.tally)
        session->options.tally->reconnects++;
    redis_subscription_start(&session->notifications);
}

static void seek(struct redis_session *session)
{
    session->state = SESSION_SEEKING;
    redis_topology_ask(session->options.topology, &session->asker, session->fresh);
    session->fresh = false;
}

/* Leaves a deposed master. It may still be running and accept changes that are discarded once it
 * becomes a replica. */
static void on_deposed(void *ctx, const struct redis_endpoint *from)
{
    struct redis_session *session = ctx;
    if (session->connection && session->endpoint.port == from->port &&
        strcmp(session->endpoint.host, from->host) == 0)
        session_lost(session, "another server became master", false);
}

static void on_deadline(void *ctx)
{
    struct redis_session *session = ctx;
    int64_t now_ms = clock_inner_ms();
    session->wake_ms = INT64_MAX;
    if (session->connection && is_silent(session, now_ms))
        session_lost(session, "it does not answer", true);
    int64_t next_ms = calls_expire(session, now_ms);
    if (session->state == SESSION_PAUSING && session->resume_ms <= now_ms)
        seek(session);
    session_wake_by(session, next_ms);
    if (session->state == SESSION_PAUSING)
        session_wake_by(session, session->resume_ms);
    if (session->connection)
        session_wake_by(session, silent_until(session));
}

/* ---- replies to calls ---- */

static void complain_of_call(struct redis_session *session, const struct redis_call *call,
                             const char *why)
{
    int64_t now_ms = clock_inner_ms();
    if (strncmp(session->logged_call, why, sizeof session->logged_call - 1) == 0 &&
        now_ms - session->logged_call_ms < SAME_COMPLAINT_MS)
        return;
    session->logged_call_ms = now_ms;
    snprintf(session->logged_call, sizeof session->logged_call, "%s", why);
    log_event(LOG_ERROR, "redis refuses a call", LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("script", redis_script_name(call->script)),
              LOG_TEXT("why", session->logged_call));
}

static void call_refuse(struct redis_session *session, struct redis_call *call,
                        enum redis_call_end end, const char *why)
{
    complain_of_call(session, call, why);
    call_give_up(session, call, end);
}

static void greet_and_send_again(struct redis_session *session, struct redis_call *call,
                                 enum session_greeting_kind kind)
{
    call_disown(session, call);
    call_unsend(session, call);
    session_greet_again(session, kind);
}

/* Logs that the shard's core is missing though it had existed. */
static void log_gone(struct redis_session *session)
{
    if (session->logged_gone)
        return;
    session->logged_gone = true;
    session->options.figures->data_losses++;
    log_event(LOG_ERROR, "the queue is missing", LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("at", session->endpoint.host), LOG_NUMBER("port", session->endpoint.port),
              LOG_TEXT("why", "redis lost its data, jobs pushed from now on are stored again"));
}

static void call_error_reply(struct redis_session *session, struct redis_call *call,
                             const char *error)
{
    switch (redis_error_classify(error)) {
    case REDIS_DECISION_GONE:
        log_gone(session);
        /* fall through */
    case REDIS_DECISION_GREET:
        greet_and_send_again(session, call, SESSION_GREET_AGAIN);
        break;
    case REDIS_DECISION_CLOCK:
        session->is_behind = true;
        greet_and_send_again(session, call, SESSION_GREET_CLOCK);
        break;
    case REDIS_DECISION_AGAIN:
        session_lost(session, error, false);
        break;
    case REDIS_DECISION_MOVED:
        session_moved(session, error);
        break;
    case REDIS_DECISION_ELSEWHERE:
        session_lost(session, error, true);
        break;
    case REDIS_DECISION_NO_SPACE:
        call_refuse(session, call, REDIS_CALL_NO_SPACE, error);
        break;
    case REDIS_DECISION_REFUSED:
        call_refuse(session, call, REDIS_CALL_UNAVAILABLE, error);
        break;
    }
}

/* Takes in the clock of a reply. If it has jumped, calls wait until that is settled. */
static void observe_clock(struct redis_session *session, const struct redis_call *call,
                          const struct redis_head *head, int64_t came_us)
{
    int64_t apart_ms;
    if (head->is_held) {
        session_hold_clock(session, head->now_ms);
        return;
    }
    if (!peer_clock_observe(&session->clock, head->now_ms, head->adjust_ms, call->sent_us, came_us,
                            &apart_ms))
        session_greet_again(session, SESSION_GREET_CLOCK);
}

const struct bucket_bounds redis_call_bounds = {.units = 1000000,
                                                .count = 16,
                                                .at = {100, 200, 500, 1000, 2000, 5000, 10000,
                                                       20000, 50000, 100000, 200000, 500000,
                                                       1000000, 2000000, 5000000, 10000000}};

static void note_round_trip(struct redis_session *session, const struct redis_call *call,
                            int64_t came_us)
{
    int64_t took_us = came_us > call->sent_us ? came_us - call->sent_us : 0;
    struct redis_tally *tally = session->options.tally;
    if (tally) {
        buckets_add(&tally->round_trip_us, &redis_call_bounds, (uint64_t)took_us);
        tally->last_round_trip_us = took_us;
    }
    if (session->options.script_us)
        buckets_add(&session->options.script_us[call->script], &redis_call_bounds,
                    (uint64_t)took_us);
}

static void call_reply(struct redis_session *session, struct redis_call *call,
                       const redisReply *reply)
{
    struct redis_head head;
    if (!call)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        call_error_reply(session, call, reply->str);
        return;
    }
    if (!redis_head_read(reply, &head)) {
        call_refuse(session, call, REDIS_CALL_UNAVAILABLE, "its answer cannot be read");
        return;
    }
    int64_t came_us = clock_inner_us();
    session->pause_ms = SESSION_PAUSE_FIRST_MS;
    note_round_trip(session, call, came_us);
    observe_clock(session, call, &head, came_us);
    if (!call->changes || !session->options.wait_replicas)
        call_finish(session, call, REDIS_CALL_OK, &head, reply);
    else
        call->kept = redis_connection_take_reply(session->connection);
}

/* Returns whether the reply has to wait for replicas. A step that only asked for jobs, without
 * success, contains nothing that a failover could undo. */
static bool needs_replicas(const struct redis_call *call)
{
    const redisReply *kept = call->kept;
    return call->script != REDIS_STEP || kept->elements > 1;
}

static void wait_reply(struct redis_session *session, struct redis_call *call,
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
        call_refuse(session, call, REDIS_CALL_UNAVAILABLE, "too few replicas have the change");
        return;
    }
    redisReply *kept = call->kept;
    bool good = redis_head_read(kept, &head);
    assert(good);
    (void)good;
    call->kept = NULL;
    call_finish(session, call, REDIS_CALL_OK, &head, kept);
    freeReplyObject(kept);
}

/* ---- notifications ---- */

/* Handles a message: "@", the mark, and the content. Messages of the same shard in another database
 * are ignored. */
static void on_message(void *ctx, struct slice message)
{
    const struct redis_session *session = ctx;
    const size_t head = 1 + SESSION_MARK_BYTES;
    bool is_own = message.len > head && message.at[0] == '@' &&
                  memcmp(message.at + 1, session->mark, SESSION_MARK_BYTES) == 0;
    if (is_own && session->options.message)
        session->options.message(session->options.ctx,
                                 slice_make(message.at + head, message.len - head));
}

static void on_subscribed(void *ctx)
{
    struct redis_session *session = ctx;
    session->logged_notifications[0] = 0;
    if (session->state == SESSION_UP)
        session_notify_changed(session, true);
}

/* Logs a subscription error, unless the session is down and logs its own errors. */
static void complain_of_notifications(struct redis_session *session, const char *why)
{
    if (session->state != SESSION_UP ||
        strncmp(session->logged_notifications, why, sizeof session->logged_notifications - 1) == 0)
        return;
    snprintf(session->logged_notifications, sizeof session->logged_notifications, "%s", why);
    log_event(LOG_WARN, "redis sends no notifications", LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("why", why));
}

static int64_t on_notifications_refused(void *ctx, const char *error)
{
    if (redis_error_classify(error) != REDIS_DECISION_REFUSED)
        return REDIS_SUBSCRIPTION_PAUSE_MS;
    complain_of_notifications(ctx, error);
    return REFUSED_PAUSE_MS;
}

static const struct redis_endpoint *where_notifications_are(void *ctx)
{
    const struct redis_session *session = ctx;
    return &session->endpoint;
}

static bool notifications_init(struct redis_session *session)
{
    const struct redis_session_options *options = &session->options;
    struct redis_subscription_options notifications = {.reactor = options->reactor,
                                                       .tls = &options->url->tls,
                                                       .user = options->url->user,
                                                       .password = options->url->password,
                                                       .subscribe = "SSUBSCRIBE",
                                                       .connect_ms = SESSION_CONNECT_MS,
                                                       .where = where_notifications_are,
                                                       .message = on_message,
                                                       .subscribed = on_subscribed,
                                                       .refused = on_notifications_refused,
                                                       .ctx = session};
    snprintf(notifications.channel, sizeof notifications.channel, "%s:notifications", options->tag);
    return redis_subscription_init(&session->notifications, &notifications);
}

/* ---- connection ---- */

static void on_up(void *ctx)
{
    session_greet(ctx, SESSION_GREET_NEW);
}

static void on_down(void *ctx, const char *why)
{
    session_lost(ctx, why, true);
}

static void greeting_reply(struct redis_session *session, enum session_expects what,
                           const redisReply *reply)
{
    struct session_greeting greeting = session_greeting_reply(session, what, reply);
    if (greeting.is_gone)
        log_gone(session);
    if (greeting.is_up)
        session_up(session);
    else if (greeting.decision == REDIS_DECISION_MOVED)
        session_moved(session, greeting.why);
    else if (greeting.decision == REDIS_DECISION_GREET)
        session_greet_again(session, SESSION_GREET_AGAIN);
    else if (greeting.decision == REDIS_DECISION_REFUSED ||
             greeting.decision == REDIS_DECISION_NO_SPACE)
        session_refused(session, greeting.why);
    else if (greeting.decision)
        session_lost(session, greeting.why, greeting.decision == REDIS_DECISION_ELSEWHERE);
    if (greeting.decision == REDIS_DECISION_NO_SPACE)
        calls_end_all(session, REDIS_CALL_NO_SPACE);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_session *session = ctx;
    if (session->expected_count == 0) {
        session_lost(session,
                     reply->type == REDIS_REPLY_ERROR ? reply->str : "it sent an unexpected answer",
                     true);
        return;
    }
    struct session_expected expected = session->expected[session->expected_first];
    session->expected_first = (session->expected_first + 1) % SESSION_EXPECTED_MAX;
    session->expected_count--;
    session->received_ms = clock_inner_ms();
    if (expected.what == SESSION_EXPECTS_CALL)
        call_reply(session, expected.call, reply);
    else if (expected.what == SESSION_EXPECTS_WAIT)
        wait_reply(session, expected.call, reply);
    else
        greeting_reply(session, expected.what, reply);
    if (session->state == SESSION_UP)
        calls_send(session);
}

static const struct redis_connection_events events = {
    .up = on_up, .down = on_down, .reply = on_reply};

void redis_session_look(struct redis_session *session)
{
    if (session->state != SESSION_UP || session->expected_count + 1 >= SESSION_EXPECTED_MAX)
        return;
    struct buffer *out = session_command(session, SESSION_EXPECTS_ROOM, NULL);
    redis_command_words(out, "INFO", "memory", "persistence", "replication", NULL);
    session_wake_by(session, clock_inner_ms() + SESSION_SILENCE_MS);
}

/* ---- life cycle ---- */

struct redis_session *redis_session_new(const struct redis_session_options *options)
{
    struct redis_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->options = *options;
    snprintf(session->core, sizeof session->core, "%s:core", options->tag);
    session->wake_ms = session->stop_ms = INT64_MAX;
    session->pause_ms = SESSION_PAUSE_FIRST_MS;
    list_init(&session->flying);
    list_init(&session->changes_waiting);
    list_init(&session->reads_waiting);
    session->deadline = deadline_new(options->reactor, on_deadline, session);
    if (!session->deadline || !notifications_init(session)) {
        deadline_free(session->deadline);
        free(session);
        return NULL;
    }
    session->asker = (struct redis_topology_asker){
        .slot = redis_slot_of(slice_of(session->options.tag)),
        .found = on_found,
        .deposed = on_deposed,
        .ctx = session,
    };
    list_init(&session->asker.list);
    seek(session);
    return session;
}

void redis_session_free(struct redis_session *session)
{
    if (!session)
        return;
    session->stopping = true;
    session_leave(session);
    calls_end_all(session, REDIS_CALL_STOPPING);
    redis_subscription_fini(&session->notifications);
    deadline_free(session->deadline);
    free(session);
}

bool redis_session_is_up(const struct redis_session *session)
{
    return session->state == SESSION_UP;
}

size_t redis_session_calls(const struct redis_session *session)
{
    return session->calls;
}

size_t redis_session_under_way(const struct redis_session *session)
{
    return session->under_way;
}

const struct mac_key *redis_session_lease_key(const struct redis_session *session)
{
    return session->has_lease_key ? &session->lease_key : NULL;
}

const struct redis_endpoint *redis_session_endpoint(const struct redis_session *session)
{
    return &session->endpoint;
}

void redis_session_hold_clock(struct redis_session *session, int64_t at_ms)
{
    session_hold_clock(session, at_ms);
}

const struct peer_clock *redis_session_clock(const struct redis_session *session)
{
    return &session->clock;
}
