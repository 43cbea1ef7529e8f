/*
 * The greeting: who we are, how many shards there are, what is loaded, who it is, how its clock
 * stands. Nothing else is sent before it has gone well.
 *
 *   AUTH, SELECT, CLIENT SETNAME, SET shards, FUNCTION LIST, INFO, CONFIG GET, ROLE in one
 *                                                                         pipeline
 *   FUNCTION LOAD where it is missing, hello                  in another
 *   adjust, hello                                             while the clocks are apart
 */
#include "redis/link_private.h"

#include "base/clock.h"
#include "base/random.h"
#include "redis/name.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ADJUSTS_MAX = 3,
    LEASE_KEY_BYTES = sizeof(struct mac_key),
    HELLO_KEY_AT = 11,
    HELLO_REST_BYTES = HELLO_KEY_AT + LEASE_KEY_BYTES,
    JOURNEY_US_MAX = 20000, /* one that took longer is no good to set a clock by */
    UNSURE_MAX = 10,
    SAME_CLOCK_MS = 10000 /* so often at most the log tells of it: a clock that is slewed is set
                           * again and again */
};

/* ---- first: who is who ---- */

static void introduce(struct redis_link *link)
{
    const struct redis_url *url = link->options.url;
    char name[32], db[16];
    struct buffer *out;
    if (*url->password) {
        out = link_command(link, LINK_EXPECTS_AUTH, NULL);
        if (*url->user)
            redis_command_words(out, "AUTH", url->user, url->password, NULL);
        else
            redis_command_words(out, "AUTH", url->password, NULL);
    }
    if (url->db && url->kind != REDIS_CLUSTER) {
        snprintf(db, sizeof db, "%u", (unsigned)url->db);
        out = link_command(link, LINK_EXPECTS_SELECT, NULL);
        redis_command_words(out, "SELECT", db, NULL);
    }
    snprintf(name, sizeof name, "tarry-%s", link->options.server);
    out = link_command(link, LINK_EXPECTS_NAME, NULL);
    redis_command_words(out, "CLIENT", "SETNAME", name, NULL);
}

/* The number of shards outlives a Redis that lost its data, so that a server that starts then makes
 * no other queue. In a cluster the key mostly is on another node: some link leads there. */
static void keep_shards(struct redis_link *link)
{
    char key[REDIS_TAG_BYTES + sizeof ":shards"], number[16];
    struct buffer *out = link_command(link, LINK_EXPECTS_SHARDS, NULL);
    snprintf(key, sizeof key, "{%s}:shards", link->options.url->prefix);
    snprintf(number, sizeof number, "%u", (unsigned)link->options.shards);
    redis_command_words(out, "SET", key, number, "NX", "GET", NULL);
}

static void say_hello(struct redis_link *link)
{
    struct buffer *out = link_command(link, LINK_EXPECTS_HELLO, NULL);
    char name[REDIS_NAME_BYTES] = "", lease_key[LEASE_KEY_BYTES];
    if (link->options.name)
        redis_name_draw(name);                 /* for a queue that has none */
    random_bytes(lease_key, sizeof lease_key); /* for a shard that has none */
    link_script(link, out, REDIS_HELLO, 4);
    redis_command_text(out, link->found_run_id);
    redis_command_number(out, link->options.shards);
    redis_command_text(out, name);
    redis_command_arg(out, slice_make(lease_key, sizeof lease_key));
    link->asked_us = clock_inner_us();
}

void link_greet(struct redis_link *link, enum link_greeting_kind kind)
{
    struct buffer *out;
    link->state = LINK_GREETING;
    link->adjusted = link->unsure = 0;
    link_wake_by(link, clock_inner_ms() + LINK_SILENCE_MS);
    if (kind == LINK_GREET_CLOCK) {
        say_hello(link);
        return;
    }
    if (kind == LINK_GREET_NEW)
        introduce(link);
    keep_shards(link);
    out = link_command(link, LINK_EXPECTS_LIBRARY, NULL);
    redis_command_words(out, "FUNCTION", "LIST", "LIBRARYNAME", redis_library()->name, NULL);
    out = link_command(link, LINK_EXPECTS_INFO, NULL);
    redis_command_words(out, "INFO", NULL);
    out = link_command(link, LINK_EXPECTS_CONFIG, NULL);
    redis_command_words(out, REDIS_MASTER_CONFIG, NULL);
    out = link_command(link, LINK_EXPECTS_ROLE, NULL);
    redis_command_words(out, "ROLE", NULL);
}

static bool read_libraries(struct redis_link *link, const redisReply *reply)
{
    link->has_library = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    return reply->type == REDIS_REPLY_ARRAY;
}

static bool read_run_id(struct redis_link *link, const redisReply *reply)
{
    static const char field[] = "\nrun_id:";
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    if (!at || strcspn(at += sizeof field - 1, "\r\n") != LINK_RUN_ID_BYTES - 1)
        return false;
    memcpy(link->found_run_id, at, LINK_RUN_ID_BYTES - 1);
    link->master = (struct redis_master){0};
    redis_master_hear_info(&link->master, reply->str);
    return true;
}

static bool is_master(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "master") == 0;
}

/* ---- then: the library, hello ---- */

static void load_library(struct redis_link *link)
{
    struct buffer *out = link_command(link, LINK_EXPECTS_LOAD, NULL);
    redis_command_begin(out, 3);
    redis_command_text(out, "FUNCTION");
    redis_command_text(out, "LOAD");
    redis_command_arg(out, redis_library()->text);
}

/* By another link, meanwhile. */
static bool is_there_already(enum link_expects what, const redisReply *reply)
{
    return what == LINK_EXPECTS_LOAD && strstr(reply->str, "already exists");
}

/* The shard's clock shall go on as it ran. Another server may be quicker: then `expected` does not
 * fit, nothing is changed, and the next hello shows that all is well. */
static void set_clock(struct redis_link *link, int64_t expected_ms, int64_t apart_ms)
{
    int64_t now_ms = clock_inner_ms();
    link->options.figures->clock_disagreements += link->adjusted++ == 0;
    if (now_ms >= link->said_clock_ms) {
        link->said_clock_ms = now_ms + SAME_CLOCK_MS;
        log_event(LOG_WARN, "redis clock jumped", LOG_TEXT("shard", link->options.tag),
                  LOG_TEXT("at", link->endpoint.host), LOG_NUMBER("port", link->endpoint.port),
                  LOG_NUMBER("ahead_ms", apart_ms));
    }
    if (link->adjusted > ADJUSTS_MAX) {
        link_lost(link, "its clock does not agree with ours", true);
        return;
    }
    struct buffer *out = link_command(link, LINK_EXPECTS_ADJUST, NULL);
    link_script(link, out, REDIS_ADJUST, 3);
    redis_command_text(out, "");
    redis_command_number(out, expected_ms);
    redis_command_number(out, expected_ms - apart_ms);
    say_hello(link);
}

void link_say_gone(struct redis_link *link)
{
    if (link->said_gone)
        return;
    link->said_gone = true;
    link->options.figures->losses++;
    log_event(LOG_ERROR, "the queue is gone", LOG_TEXT("shard", link->options.tag),
              LOG_TEXT("at", link->endpoint.host), LOG_NUMBER("port", link->endpoint.port),
              LOG_TEXT("why", "redis lost its data, what is pushed from now on is kept again"));
}

static const char other_shards[] = "its queue has another number of shards, restart this server";

/* Nil: the key was missing, and is set now. An error: it is elsewhere, or there is no room. */
static void shards_reply(struct redis_link *link, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STRING && strtoul(reply->str, NULL, 10) != link->options.shards)
        link_refused(link, other_shards);
}

/* A script that refused a call has shown that the clock is behind by a millisecond at least, though
 * hello's journey may hide it; unless somebody put it right meanwhile. */
static void compare_clocks(struct redis_link *link, const struct redis_head *head)
{
    int64_t apart_ms = 0, known_ms = link->clock.adjust_ms, now_us = clock_inner_us();
    bool agrees = redis_clock_hear(&link->clock, head->now_ms, head->adjust_ms, link->asked_us,
                                   now_us, &apart_ms);
    if (agrees && link->is_behind && head->adjust_ms == known_ms)
        apart_ms = -1;
    if (apart_ms && now_us - link->asked_us > JOURNEY_US_MAX && link->unsure++ < UNSURE_MAX) {
        say_hello(link);
        return;
    }
    link->is_behind = false;
    if (apart_ms == 0)
        link_up(link);
    else
        set_clock(link, head->adjust_ms, apart_ms);
}

static void hello_reply(struct redis_link *link, const redisReply *reply)
{
    struct redis_head head;
    if (!link_read_head(reply, &head) || head.rest.len < HELLO_REST_BYTES) {
        link_refused(link, "its hello makes no sense");
        return;
    }
    const unsigned char *at = (const void *)(head.rest.at + 1);
    if (head.rest.at[0] && link->was_up)
        link_say_gone(link);
    memcpy(&link->lease_key, head.rest.at + HELLO_KEY_AT, LEASE_KEY_BYTES);
    link->has_lease_key = true;
    uint32_t shards = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (link->options.name)
        redis_name_read(
            slice_make(head.rest.at + HELLO_REST_BYTES, head.rest.len - HELLO_REST_BYTES),
            link->options.name);
    if (shards != link->options.shards)
        link_refused(link, other_shards);
    else
        compare_clocks(link, &head);
}

/* ---- what is in force there ---- */

/* False: less than it has to be, and the link is down. */
static bool learn(struct redis_link *link)
{
    const struct redis_link_options *options = &link->options;
    if (options->learned)
        options->learned(options->ctx, &link->master);
    if (redis_master_durability(&link->master) >= options->require_durability)
        return true;
    link_refused(link, redis_master_evicts(&link->master)
                           ? "it would throw jobs away when memory is short, less than "
                             "--require-durability"
                           : "it promises less than --require-durability");
    return false;
}

void redis_link_look(struct redis_link *link)
{
    if (link->state != LINK_UP || link->expected_count + 1 >= LINK_EXPECTED_MAX)
        return;
    struct buffer *out = link_command(link, LINK_EXPECTS_ROOM, NULL);
    redis_command_words(out, "INFO", "memory", "persistence", NULL);
    link_wake_by(link, clock_inner_ms() + LINK_SILENCE_MS);
}

static void room_reply(struct redis_link *link, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return;
    redis_master_hear_room(&link->master, reply->str);
    learn(link);
}

/* ---- replies ---- */

static void error_reply(struct redis_link *link, const redisReply *reply)
{
    switch (link_judge(reply->str)) {
    case LINK_VERDICT_MOVED:
        link_moved(link, reply->str);
        break;
    case LINK_VERDICT_GREET:
    case LINK_VERDICT_GONE:
    case LINK_VERDICT_CLOCK:
    case LINK_VERDICT_AGAIN:
        link_lost(link, reply->str, false);
        break;
    case LINK_VERDICT_ELSEWHERE:
        link_lost(link, reply->str, true);
        break;
    case LINK_VERDICT_NO_SPACE:
        link_refused(link, reply->str);
        link_calls_end_all(link, REDIS_CALL_NO_SPACE);
        break;
    case LINK_VERDICT_REFUSED:
        link_refused(link, reply->str);
        break;
    }
}

static bool may_fail(enum link_expects what)
{
    return what == LINK_EXPECTS_NAME || what == LINK_EXPECTS_SHARDS || what == LINK_EXPECTS_CONFIG;
}

void link_greeting_reply(struct redis_link *link, enum link_expects what, const redisReply *reply)
{
    if (what == LINK_EXPECTS_ROOM) {
        room_reply(link, reply);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR && !may_fail(what) && !is_there_already(what, reply)) {
        error_reply(link, reply);
        return;
    }
    if (what == LINK_EXPECTS_SHARDS)
        shards_reply(link, reply);
    if (what == LINK_EXPECTS_LIBRARY && !read_libraries(link, reply))
        link_refused(link, "it does not tell which functions it has");
    if (what == LINK_EXPECTS_INFO && !read_run_id(link, reply))
        link_refused(link, "it does not tell its run id");
    if (what == LINK_EXPECTS_CONFIG)
        redis_master_hear_config(&link->master, reply);
    if (what == LINK_EXPECTS_ROLE && !is_master(reply)) {
        link_lost(link, "it is not a master", true);
    } else if (what == LINK_EXPECTS_ROLE && learn(link)) {
        if (!link->has_library)
            load_library(link);
        say_hello(link);
    }
    if (what == LINK_EXPECTS_HELLO)
        hello_reply(link, reply);
}
