/* The link's states, its connection, and when it must wake. */
#include "redis/link_private.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const struct redis_connection_events events;

static void say(struct redis_link *link, enum log_level level, const char *event, const char *why)
{
    if (strcmp(link->said, why) == 0)
        return;
    snprintf(link->said, sizeof link->said, "%s", why);
    log_event(level, event, LOG_TEXT("shard", link->options.tag),
              LOG_TEXT("at", link->endpoint.host), LOG_NUMBER("port", link->endpoint.port),
              LOG_TEXT("why", why));
}

/* ---- time ---- */

/* A deadline that moves later is left alone: it rings, finds nothing to do and is set again. So the
 * many calls that end in time cost no timer. */
void link_wake_by(struct redis_link *link, int64_t at_ms)
{
    if (at_ms >= link->wake_ms)
        return;
    link->wake_ms = at_ms;
    deadline_set(link->deadline, at_ms);
}

/* Redis owes something: until when it may keep silent. */
static int64_t silent_until(struct redis_link *link)
{
    return link->expected_count ? link->heard_ms + LINK_SILENCE_MS : INT64_MAX;
}

static bool is_silent(struct redis_link *link, int64_t now_ms)
{
    size_t unsent = redis_connection_unsent(link->connection);
    if (unsent < link->unsent)
        link->heard_ms = now_ms; /* it takes in what we send, slowly */
    link->unsent = unsent;
    return now_ms >= silent_until(link);
}

static void seek(struct redis_link *link);

static void on_deadline(void *ctx)
{
    struct redis_link *link = ctx;
    int64_t now_ms = clock_inner_ms();
    link->wake_ms = INT64_MAX;
    if (link->connection && is_silent(link, now_ms))
        link_lost(link, "it does not answer", true);
    int64_t next_ms = link_calls_expire(link, now_ms);
    if (link->state == LINK_PAUSING && link->resume_ms <= now_ms)
        seek(link);
    link_wake_by(link, next_ms);
    if (link->state == LINK_PAUSING)
        link_wake_by(link, link->resume_ms);
    if (link->connection)
        link_wake_by(link, silent_until(link));
}

/* ---- states ---- */

static void on_found(void *ctx, const struct redis_endpoint *endpoint, const char *why)
{
    struct redis_link *link = ctx;
    assert(link->state == LINK_SEEKING);
    if (!endpoint) {
        link_lost(link, why, true);
        return;
    }
    link->endpoint = *endpoint;
    link->connection =
        redis_connection_new(link->options.reactor, endpoint, LINK_CONNECT_MS, &events, link);
    if (!link->connection) {
        link_lost(link, "out of memory", false);
        return;
    }
    link->state = LINK_CONNECTING;
    if (link->was_up)
        link->options.figures->reconnects++;
    link_news_start(&link->news);
}

static void seek(struct redis_link *link)
{
    link->state = LINK_SEEKING;
    redis_where_ask(link->options.where, link->slot, link->fresh, on_found, link);
    link->fresh = false;
}

/* The old master may live, and take what will be thrown away once it is made a replica. */
static void on_deposed(void *ctx, const struct redis_endpoint *from)
{
    struct redis_link *link = ctx;
    if (link->connection && link->endpoint.port == from->port &&
        strcmp(link->endpoint.host, from->host) == 0)
        link_lost(link, "another was made master", false);
}

static void turn(struct redis_link *link, bool up)
{
    if (link->options.turned)
        link->options.turned(link->options.ctx, up);
}

static void leave(struct redis_link *link)
{
    redis_connection_free(link->connection);
    link->connection = NULL;
    link->expected_count = 0;
    link_news_stop(&link->news);
    link_calls_unsent(link);
    redis_where_forget(link->options.where, link);
}

static void begin_again(struct redis_link *link, int64_t pause_ms)
{
    bool was_up = link->state == LINK_UP;
    int64_t now_ms = clock_inner_ms();
    leave(link);
    link->state = LINK_PAUSING;
    link->resume_ms = now_ms + pause_ms;
    link_wake_by(link, link->resume_ms);
    if (was_up)
        turn(link, false);
}

void link_lost(struct redis_link *link, const char *why, bool fresh)
{
    int64_t pause_ms = link->pause_ms;
    if (link->state == LINK_UP && clock_inner_ms() - link->up_ms >= LINK_STEADY_MS)
        pause_ms = LINK_PAUSE_FIRST_MS;
    link->pause_ms = pause_ms * 2 < LINK_PAUSE_MAX_MS ? pause_ms * 2 : LINK_PAUSE_MAX_MS;
    link->fresh |= fresh;
    say(link, LOG_WARN, "redis out of reach", why);
    begin_again(link, pause_ms);
}

void link_refused(struct redis_link *link, const char *why)
{
    link->fresh = true;
    say(link, LOG_ERROR, "redis refuses", why);
    begin_again(link, LINK_PAUSE_MAX_MS);
}

void link_moved(struct redis_link *link, const char *error)
{
    struct redis_endpoint there;
    bool known = link_read_moved(error, &link->endpoint, &there);
    link->options.figures->redirects++;
    if (known)
        redis_where_moved(link->options.where, link->slot, &there);
    if (known && !link->was_moved)
        link->pause_ms = LINK_PAUSE_FIRST_MS; /* but two that name each other are no haste */
    link->was_moved = true;
    link_lost(link, error, !known);
}

void link_greet_again(struct redis_link *link, enum link_greeting_kind kind)
{
    if (link->state != LINK_UP)
        return;
    link_greet(link, kind);
    turn(link, false);
}

static void note_master(struct redis_link *link)
{
    if (link->run_id[0] && strcmp(link->run_id, link->found_run_id) != 0) {
        link->options.figures->failovers++;
        log_event(LOG_WARN, "redis master is another", LOG_TEXT("shard", link->options.tag),
                  LOG_TEXT("at", link->endpoint.host), LOG_NUMBER("port", link->endpoint.port));
    }
    memcpy(link->run_id, link->found_run_id, sizeof link->run_id);
}

void link_up(struct redis_link *link)
{
    note_master(link);
    link->state = LINK_UP;
    link->up_ms = clock_inner_ms();
    link->was_up = true;
    link->was_moved = link->said_gone = link->is_behind = false;
    if (link->said[0])
        say(link, LOG_INFO, "redis in reach again", "");
    link_calls_send(link);
    turn(link, true);
}

void link_news_subscribed(struct redis_link *link)
{
    if (link->state == LINK_UP)
        turn(link, true);
}

/* ---- connection ---- */

struct buffer *link_command(struct redis_link *link, enum link_expects what,
                            struct redis_call *call)
{
    assert(link->expected_count < LINK_EXPECTED_MAX);
    if (link->expected_count == 0)
        link->heard_ms = clock_inner_ms();
    uint32_t last = (link->expected_first + link->expected_count++) % LINK_EXPECTED_MAX;
    link->expected[last] = (struct link_expected){what, call};
    return redis_connection_out(link->connection);
}

void link_script(struct redis_link *link, struct buffer *out, enum redis_script script, size_t argc)
{
    char key[REDIS_TAG_BYTES + sizeof ":core"], function[64];
    snprintf(function, sizeof function, "%s_%s", redis_library()->name, redis_script_name(script));
    snprintf(key, sizeof key, "%s:core", link->options.tag);
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

bool link_read_head(const redisReply *reply, struct redis_head *out)
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
    link_greet(ctx, LINK_GREET_NEW);
}

static void on_down(void *ctx, const char *why)
{
    link_lost(ctx, why, true);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_link *link = ctx;
    if (link->expected_count == 0) {
        link_lost(link, reply->type == REDIS_REPLY_ERROR ? reply->str : "it answers unasked", true);
        return;
    }
    struct link_expected expected = link->expected[link->expected_first];
    link->expected_first = (link->expected_first + 1) % LINK_EXPECTED_MAX;
    link->expected_count--;
    link->heard_ms = clock_inner_ms();
    if (expected.what == LINK_EXPECTS_CALL)
        link_call_reply(link, expected.call, reply);
    else if (expected.what == LINK_EXPECTS_WAIT)
        link_wait_reply(link, expected.call, reply);
    else
        link_greeting_reply(link, expected.what, reply);
    if (link->state == LINK_UP)
        link_calls_send(link);
}

static const struct redis_connection_events events = {
    .up = on_up, .down = on_down, .reply = on_reply};

/* ---- life ---- */

struct redis_link *redis_link_new(const struct redis_link_options *options)
{
    struct redis_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->options = *options;
    link->slot = redis_slot_of(slice_of(link->options.tag));
    link->wake_ms = link->stop_ms = INT64_MAX;
    link->pause_ms = LINK_PAUSE_FIRST_MS;
    list_init(&link->flying);
    list_init(&link->changes_waiting);
    list_init(&link->reads_waiting);
    link->deadline = deadline_new(options->reactor, on_deadline, link);
    if (!link->deadline || !link_news_init(&link->news, link)) {
        deadline_free(link->deadline);
        free(link);
        return NULL;
    }
    link->listener = (struct redis_where_listener){.deposed = on_deposed, .ctx = link};
    redis_where_listen(options->where, &link->listener);
    seek(link);
    return link;
}

void redis_link_free(struct redis_link *link)
{
    if (!link)
        return;
    link->stopping = true;
    redis_where_unlisten(&link->listener);
    leave(link);
    link_calls_end_all(link, REDIS_CALL_STOPPING);
    link_news_fini(&link->news);
    deadline_free(link->deadline);
    free(link);
}

bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == LINK_UP;
}

size_t redis_link_calls(const struct redis_link *link)
{
    return link->calls;
}

size_t redis_link_under_way(const struct redis_link *link)
{
    return link->under_way;
}

const struct mac_key *redis_link_lease_key(const struct redis_link *link)
{
    return link->has_lease_key ? &link->lease_key : NULL;
}

const struct redis_clock *redis_link_clock(const struct redis_link *link)
{
    return &link->clock;
}
