/* The session's states, its connection, and when it must wake. */
#include "redis/session_private.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const struct redis_connection_events events;

static void say(struct redis_session *session, enum log_level level, const char *event,
                const char *why)
{
    if (strcmp(session->said, why) == 0)
        return;
    snprintf(session->said, sizeof session->said, "%s", why);
    log_event(level, event, LOG_TEXT("shard", session->options.tag),
              LOG_TEXT("at", session->endpoint.host), LOG_NUMBER("port", session->endpoint.port),
              LOG_TEXT("why", why));
}

/* ---- time ---- */

/* A deadline that moves later is left alone: it rings, finds nothing to do and is set again. So the
 * many calls that end in time cost no timer. */
void session_wake_by(struct redis_session *session, int64_t at_ms)
{
    if (at_ms >= session->wake_ms)
        return;
    session->wake_ms = at_ms;
    deadline_set(session->deadline, at_ms);
}

/* Redis owes something: until when it may keep silent. */
static int64_t silent_until(struct redis_session *session)
{
    return session->expected_count ? session->heard_ms + SESSION_SILENCE_MS : INT64_MAX;
}

static bool is_silent(struct redis_session *session, int64_t now_ms)
{
    size_t unsent = redis_connection_unsent(session->connection);
    if (unsent < session->unsent)
        session->heard_ms = now_ms; /* it takes in what we send, slowly */
    session->unsent = unsent;
    return now_ms >= silent_until(session);
}

static void seek(struct redis_session *session);

static void on_deadline(void *ctx)
{
    struct redis_session *session = ctx;
    int64_t now_ms = clock_inner_ms();
    session->wake_ms = INT64_MAX;
    if (session->connection && is_silent(session, now_ms))
        session_lost(session, "it does not answer", true);
    int64_t next_ms = session_calls_expire(session, now_ms);
    if (session->state == SESSION_PAUSING && session->resume_ms <= now_ms)
        seek(session);
    session_wake_by(session, next_ms);
    if (session->state == SESSION_PAUSING)
        session_wake_by(session, session->resume_ms);
    if (session->connection)
        session_wake_by(session, silent_until(session));
}

/* ---- states ---- */

static void on_found(void *ctx, const struct redis_endpoint *endpoint, const char *why)
{
    struct redis_session *session = ctx;
    assert(session->state == SESSION_SEEKING);
    if (!endpoint) {
        session_lost(session, why, true);
        return;
    }
    session->endpoint = *endpoint;
    session->connection = redis_connection_new(session->options.reactor, endpoint,
                                               SESSION_CONNECT_MS, &events, session);
    if (!session->connection) {
        session_lost(session, "out of memory", false);
        return;
    }
    session->state = SESSION_CONNECTING;
    if (session->was_up)
        session->options.figures->reconnects++;
    session_news_start(&session->news);
}

static void seek(struct redis_session *session)
{
    session->state = SESSION_SEEKING;
    redis_topology_ask(session->options.topology, session->slot, session->fresh, on_found, session);
    session->fresh = false;
}

/* The old master may live, and take what will be thrown away once it is made a replica. */
static void on_deposed(void *ctx, const struct redis_endpoint *from)
{
    struct redis_session *session = ctx;
    if (session->connection && session->endpoint.port == from->port &&
        strcmp(session->endpoint.host, from->host) == 0)
        session_lost(session, "another was made master", false);
}

static void turn(struct redis_session *session, bool up)
{
    if (session->options.turned)
        session->options.turned(session->options.ctx, up);
}

static void leave(struct redis_session *session)
{
    redis_connection_free(session->connection);
    session->connection = NULL;
    session->expected_count = 0;
    session_news_stop(&session->news);
    session_calls_unsent(session);
    redis_topology_forget(session->options.topology, session);
}

static void begin_again(struct redis_session *session, int64_t pause_ms)
{
    bool was_up = session->state == SESSION_UP;
    int64_t now_ms = clock_inner_ms();
    leave(session);
    session->state = SESSION_PAUSING;
    session->resume_ms = now_ms + pause_ms;
    session_wake_by(session, session->resume_ms);
    if (was_up)
        turn(session, false);
}

void session_lost(struct redis_session *session, const char *why, bool fresh)
{
    int64_t pause_ms = session->pause_ms;
    if (session->state == SESSION_UP && clock_inner_ms() - session->up_ms >= SESSION_STEADY_MS)
        pause_ms = SESSION_PAUSE_FIRST_MS;
    session->pause_ms = pause_ms * 2 < SESSION_PAUSE_MAX_MS ? pause_ms * 2 : SESSION_PAUSE_MAX_MS;
    session->fresh |= fresh;
    say(session, LOG_WARN, "redis out of reach", why);
    begin_again(session, pause_ms);
}

void session_refused(struct redis_session *session, const char *why)
{
    session->fresh = true;
    say(session, LOG_ERROR, "redis refuses", why);
    begin_again(session, SESSION_PAUSE_MAX_MS);
}

void session_moved(struct redis_session *session, const char *error)
{
    struct redis_endpoint there;
    bool known = session_read_moved(error, &session->endpoint, &there);
    session->options.figures->redirects++;
    if (known)
        redis_topology_moved(session->options.topology, session->slot, &there);
    if (known && !session->was_moved)
        session->pause_ms = SESSION_PAUSE_FIRST_MS; /* but two that name each other are no haste */
    session->was_moved = true;
    session_lost(session, error, !known);
}

void session_greet_again(struct redis_session *session, enum session_greeting_kind kind)
{
    if (session->state != SESSION_UP)
        return;
    session_greet(session, kind);
    turn(session, false);
}

static void note_master(struct redis_session *session)
{
    if (session->run_id[0] && strcmp(session->run_id, session->found_run_id) != 0) {
        session->options.figures->failovers++;
        log_event(LOG_WARN, "redis master is another", LOG_TEXT("shard", session->options.tag),
                  LOG_TEXT("at", session->endpoint.host),
                  LOG_NUMBER("port", session->endpoint.port));
    }
    memcpy(session->run_id, session->found_run_id, sizeof session->run_id);
}

void session_up(struct redis_session *session)
{
    note_master(session);
    session->state = SESSION_UP;
    session->up_ms = clock_inner_ms();
    session->was_up = true;
    session->was_moved = session->said_gone = session->is_behind = false;
    if (session->said[0])
        say(session, LOG_INFO, "redis in reach again", "");
    session_calls_send(session);
    turn(session, true);
}

void session_news_subscribed(struct redis_session *session)
{
    if (session->state == SESSION_UP)
        turn(session, true);
}

/* ---- connection ---- */

struct buffer *session_command(struct redis_session *session, enum session_expects what,
                               struct redis_call *call)
{
    assert(session->expected_count < SESSION_EXPECTED_MAX);
    if (session->expected_count == 0)
        session->heard_ms = clock_inner_ms();
    uint32_t last = (session->expected_first + session->expected_count++) % SESSION_EXPECTED_MAX;
    session->expected[last] = (struct session_expected){what, call};
    return redis_connection_out(session->connection);
}

void session_script(struct redis_session *session, struct buffer *out, enum redis_script script,
                    size_t argc)
{
    char key[REDIS_TAG_BYTES + sizeof ":core"], function[64];
    snprintf(function, sizeof function, "%s_%s", redis_library()->name, redis_script_name(script));
    snprintf(key, sizeof key, "%s:core", session->options.tag);
    redis_command_begin(out, 4 + argc);
    redis_command_text(out, "FCALL");
    redis_command_text(out, function);
    redis_command_text(out, "1");
    redis_command_text(out, key);
}

static int64_t unpack(const unsigned char *at)
{
    int64_t number = 0;
    for (int i = 0; i < 6; i++)
        number = number << 8 | at[i];
    return number;
}

bool session_read_head(const redisReply *reply, struct redis_head *out)
{
    enum { NUMBER_BYTES = 6 };
    const int64_t none = (INT64_C(1) << 48) - 1, sign = INT64_C(1) << 47;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        (size_t)reply->element[0]->len < REDIS_HEAD_BYTES)
        return false;
    const char *head = reply->element[0]->str;
    const unsigned char *at = (const void *)head;
    out->now_ms = unpack(at);
    out->next_ms = unpack(at + NUMBER_BYTES);
    out->adjust_ms = unpack(at + (size_t)2 * NUMBER_BYTES);
    if (out->next_ms == none)
        out->next_ms = INT64_MAX;
    if (out->adjust_ms & sign)
        out->adjust_ms -= 2 * sign;
    out->rest =
        slice_make(head + REDIS_HEAD_BYTES, (size_t)reply->element[0]->len - REDIS_HEAD_BYTES);
    return true;
}

static void on_up(void *ctx)
{
    session_greet(ctx, SESSION_GREET_NEW);
}

static void on_down(void *ctx, const char *why)
{
    session_lost(ctx, why, true);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_session *session = ctx;
    if (session->expected_count == 0) {
        session_lost(session, reply->type == REDIS_REPLY_ERROR ? reply->str : "it answers unasked",
                     true);
        return;
    }
    struct session_expected expected = session->expected[session->expected_first];
    session->expected_first = (session->expected_first + 1) % SESSION_EXPECTED_MAX;
    session->expected_count--;
    session->heard_ms = clock_inner_ms();
    if (expected.what == SESSION_EXPECTS_CALL)
        session_call_reply(session, expected.call, reply);
    else if (expected.what == SESSION_EXPECTS_WAIT)
        session_wait_reply(session, expected.call, reply);
    else
        session_greeting_reply(session, expected.what, reply);
    if (session->state == SESSION_UP)
        session_calls_send(session);
}

static const struct redis_connection_events events = {
    .up = on_up, .down = on_down, .reply = on_reply};

/* ---- life ---- */

struct redis_session *redis_session_new(const struct redis_session_options *options)
{
    struct redis_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->options = *options;
    session->slot = redis_slot_of(slice_of(session->options.tag));
    session->wake_ms = session->stop_ms = INT64_MAX;
    session->pause_ms = SESSION_PAUSE_FIRST_MS;
    list_init(&session->flying);
    list_init(&session->changes_waiting);
    list_init(&session->reads_waiting);
    session->deadline = deadline_new(options->reactor, on_deadline, session);
    if (!session->deadline || !session_news_init(&session->news, session)) {
        deadline_free(session->deadline);
        free(session);
        return NULL;
    }
    session->listener = (struct redis_topology_listener){.deposed = on_deposed, .ctx = session};
    redis_topology_listen(options->topology, &session->listener);
    seek(session);
    return session;
}

void redis_session_free(struct redis_session *session)
{
    if (!session)
        return;
    session->stopping = true;
    redis_topology_unlisten(&session->listener);
    leave(session);
    session_calls_end_all(session, REDIS_CALL_STOPPING);
    session_news_fini(&session->news);
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

const struct redis_clock *redis_session_clock(const struct redis_session *session)
{
    return &session->clock;
}
