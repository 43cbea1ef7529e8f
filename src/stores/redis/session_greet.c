/*
 * The greeting: authenticates, checks the number of shards, loads the library, checks the server's
 * role and identity, and compares clocks. Nothing else is sent before it has succeeded.
 *
 *  AUTH, SELECT, CLIENT SETNAME, SET shards, FUNCTION LIST, INFO, CONFIG GET, ROLE in one pipeline
 *  FUNCTION LOAD if it is missing, hello     in a second pipeline
 *  adjust, hello                             while the clocks differ
 */
#include "redis/session_state.h"

#include "base/random.h"
#include "redis/name.h"

#include <stdlib.h>

enum {
    ADJUSTS_MAX = 3,
    LEASE_KEY_BYTES = sizeof(struct mac_key),
    HELLO_KEY_AT = 11,
    HELLO_MARK_AT = HELLO_KEY_AT + LEASE_KEY_BYTES,
    HELLO_REST_BYTES = HELLO_MARK_AT + SESSION_MARK_BYTES,
    JOURNEY_US_MAX = 20000, /* a slower reply is not used to set a clock */
    UNSURE_MAX = 10,
    /* Minimum interval of log events about a clock, because a clock that is slewed is set again and
     * again. */
    SAME_CLOCK_MS = 10000
};

/* ---- first pipeline: identity ---- */

static void introduce(struct redis_session *session)
{
    const struct redis_url *url = session->options.url;
    char name[32], db[16];
    struct buffer *out;
    if (*url->password)
        (void)redis_command_auth(session_command(session, SESSION_EXPECTS_AUTH, NULL), url->user,
                                 url->password);
    if (url->db && url->kind != REDIS_CLUSTER) {
        snprintf(db, sizeof db, "%u", (unsigned)url->db);
        out = session_command(session, SESSION_EXPECTS_SELECT, NULL);
        redis_command_words(out, "SELECT", db, NULL);
    }
    snprintf(name, sizeof name, "tarry-%s", session->options.server);
    out = session_command(session, SESSION_EXPECTS_NAME, NULL);
    redis_command_words(out, "CLIENT", "SETNAME", name, NULL);
}

/* Restores the number of shards after Redis lost its data, so that a server that starts then does
 * not create a different queue. In a cluster, the key is usually on another node: one of the
 * sessions connects to that node. */
static void keep_shards(struct redis_session *session)
{
    const struct redis_generation own = {session->options.generation, session->options.shards};
    char key[REDIS_TAG_BYTES + sizeof ":shards"], text[REDIS_GENERATION_BYTES];
    struct buffer *out = session_command(session, SESSION_EXPECTS_SHARDS, NULL);
    snprintf(key, sizeof key, "{%s}:shards", session->options.url->prefix);
    redis_generation_write(&own, text);
    redis_command_words(out, "SET", key, text, "NX", "GET", NULL);
}

/* Writes the name under which the shard assigns numbers. Under the same name numbers continue;
 * under a new one they begin further up (hello.lua). Another process may have lost the last writes,
 * and so may this one, if it took over the data of another server and became master again. */
static void name_run(const struct redis_session *session, char out[SESSION_RUN_ID_BYTES])
{
    const int half = (SESSION_RUN_ID_BYTES - 1) / 2;
    if (session->master.replication_id[0])
        snprintf(out, SESSION_RUN_ID_BYTES, "%.*s%.*s", half, session->found_run_id, half,
                 session->master.replication_id);
    else
        memcpy(out, session->found_run_id, SESSION_RUN_ID_BYTES);
}

/* Chooses the name for a queue without a name; the shards of a later generation keep that of the
 * previous one. */
static void offer_name(const struct redis_session *session, char out[REDIS_NAME_BYTES])
{
    if (session->options.generation && !session->was_up && session->options.name[0])
        memcpy(out, session->options.name, REDIS_NAME_BYTES);
    else
        redis_name_draw(out);
}

static void send_hello(struct redis_session *session)
{
    struct buffer *out = session_command(session, SESSION_EXPECTS_HELLO, NULL);
    char name[REDIS_NAME_BYTES] = "", lease_key[LEASE_KEY_BYTES], run[SESSION_RUN_ID_BYTES];
    if (session->options.name)
        offer_name(session, name);
    char core[SESSION_CORE_BYTES];
    random_bytes(lease_key, sizeof lease_key); /* for a shard without a key */
    bool is_held = session->options.test_clock_ms != 0;
    session_script(session, out, REDIS_HELLO, 7);
    name_run(session, run);
    memcpy(session->greeted_replication_id, session->master.replication_id,
           sizeof session->greeted_replication_id);
    redis_command_text(out, run);
    redis_command_number(out, session->options.shards);
    redis_command_text(out, name);
    redis_command_arg(out, slice_make(lease_key, sizeof lease_key));
    if (is_held)
        redis_command_number(out, session->options.test_clock_ms);
    else
        redis_command_text(out, "");
    if (session->has_lease_key)
        session_name_core(session, core);
    redis_command_arg(out, slice_make(core, session->has_lease_key ? sizeof core : 0));
    redis_command_number(out, session->options.place);
    session->asked_us = clock_inner_us();
}

void session_greet(struct redis_session *session, enum session_greeting_kind kind)
{
    struct buffer *out;
    session->state = SESSION_GREETING;
    session->adjusted = session->unsure = 0;
    session_wake_by(session, clock_inner_ms() + SESSION_SILENCE_MS);
    if (kind == SESSION_GREET_CLOCK) {
        send_hello(session);
        return;
    }
    if (kind == SESSION_GREET_NEW)
        introduce(session);
    keep_shards(session);
    out = session_command(session, SESSION_EXPECTS_LIBRARY, NULL);
    redis_command_words(out, "FUNCTION", "LIST", "LIBRARYNAME", redis_library()->name, NULL);
    out = session_command(session, SESSION_EXPECTS_INFO, NULL);
    redis_command_words(out, "INFO", NULL);
    out = session_command(session, SESSION_EXPECTS_CONFIG, NULL);
    redis_command_words(out, REDIS_MASTER_CONFIG, NULL);
    out = session_command(session, SESSION_EXPECTS_ROLE, NULL);
    redis_command_words(out, "ROLE", NULL);
}

static bool read_libraries(struct redis_session *session, const redisReply *reply)
{
    session->has_library = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    return reply->type == REDIS_REPLY_ARRAY;
}

static bool read_run_id(struct redis_session *session, const redisReply *reply)
{
    static const char field[] = "\nrun_id:";
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    if (!at || strcspn(at += sizeof field - 1, "\r\n") != SESSION_RUN_ID_BYTES - 1)
        return false;
    memcpy(session->found_run_id, at, SESSION_RUN_ID_BYTES - 1);
    session->master = (struct redis_master){0};
    redis_master_read_info(&session->master, reply->str);
    return true;
}

static bool is_master(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "master") == 0;
}

/* ---- second pipeline: the library, hello ---- */

static void load_library(struct redis_session *session)
{
    struct buffer *out = session_command(session, SESSION_EXPECTS_LOAD, NULL);
    redis_command_begin(out, 3);
    redis_command_text(out, "FUNCTION");
    redis_command_text(out, "LOAD");
    redis_command_arg(out, redis_library()->text);
}

/* Returns whether another session has loaded the library meanwhile. */
static bool is_there_already(enum session_expects what, const redisReply *reply)
{
    return what == SESSION_EXPECTS_LOAD && strstr(reply->str, "already exists");
}

/* ---- results of a greeting ---- */

static const struct session_greeting goes_on = {0};

static struct session_greeting greeting_ends(enum redis_decision decision, const char *why)
{
    return (struct session_greeting){.decision = decision, .why = why};
}

/* Sets the shard's clock to continue at its previous rate. If another server is faster, `expected`
 * does not match, nothing changes, and the next hello shows that the clock is correct. */
static struct session_greeting set_clock(struct redis_session *session, int64_t expected_ms,
                                         int64_t apart_ms)
{
    int64_t now_ms = clock_inner_ms();
    session->options.figures->clock_disagreements += session->adjusted++ == 0;
    if (now_ms >= session->logged_clock_ms) {
        session->logged_clock_ms = now_ms + SAME_CLOCK_MS;
        log_event(LOG_WARN, "redis clock jumped", LOG_TEXT("shard", session->options.tag),
                  LOG_TEXT("at", session->endpoint.host),
                  LOG_NUMBER("port", session->endpoint.port), LOG_NUMBER("ahead_ms", apart_ms));
    }
    if (session->adjusted > ADJUSTS_MAX)
        return greeting_ends(REDIS_DECISION_ELSEWHERE, "its clock differs from this server's");
    struct buffer *out = session_command(session, SESSION_EXPECTS_ADJUST, NULL);
    session_script(session, out, REDIS_ADJUST, 3);
    redis_command_text(out, "");
    redis_command_number(out, expected_ms);
    redis_command_number(out, expected_ms - apart_ms);
    send_hello(session);
    return goes_on;
}

static const char other_shards[] = "its queue has another number of shards, restart this server";

/* Handles the reply to SET shards. Nil: the key was missing and is set now. An error: the key is on
 * another node, or there is no room. The previous generation exists until all its jobs have
 * moved. */
static struct session_greeting shards_reply(const struct redis_session *session,
                                            const redisReply *reply)
{
    const struct redis_session_options *options = &session->options;
    struct redis_generation found;
    if (reply->type != REDIS_REPLY_STRING)
        return goes_on;
    if (!redis_generation_parse(slice_make(reply->str, reply->len), &found) ||
        found.number > options->generation ||
        (found.number == options->generation && found.shards != options->shards))
        return greeting_ends(REDIS_DECISION_REFUSED, other_shards);
    return goes_on;
}

/* Compares the clocks. If a script refused a call, the clock is behind by at least a millisecond,
 * even if hello's round trip hides it, unless it was corrected meanwhile. */
static struct session_greeting compare_clocks(struct redis_session *session,
                                              const struct redis_head *head)
{
    if (head->is_held != (session->options.test_clock_ms != 0))
        return greeting_ends(REDIS_DECISION_REFUSED, head->is_held
                                                         ? "its jobs use a test clock"
                                                         : "its jobs do not use a test clock");
    if (head->is_held) {
        session_hold_clock(session, head->now_ms);
        return (struct session_greeting){.is_up = true};
    }
    int64_t apart_ms = 0, known_ms = session->clock.adjust_ms, now_us = clock_inner_us();
    bool agrees = peer_clock_observe(&session->clock, head->now_ms, head->adjust_ms,
                                     session->asked_us, now_us, &apart_ms);
    if (agrees && session->is_behind && head->adjust_ms == known_ms)
        apart_ms = -1;
    if (apart_ms && now_us - session->asked_us > JOURNEY_US_MAX && session->unsure++ < UNSURE_MAX) {
        send_hello(session);
        return goes_on;
    }
    session->is_behind = false;
    if (apart_ms)
        return set_clock(session, head->adjust_ms, apart_ms);
    return (struct session_greeting){.is_up = true};
}

static struct session_greeting hello_reply(struct redis_session *session, const redisReply *reply)
{
    struct redis_head head;
    struct session_greeting greeting;
    if (!redis_head_read(reply, &head) || head.rest.len < HELLO_REST_BYTES)
        return greeting_ends(REDIS_DECISION_REFUSED, "its greeting cannot be read");
    const unsigned char *at = (const void *)(head.rest.at + 1);
    bool is_other = session->has_lease_key &&
                    memcmp(&session->lease_key, head.rest.at + HELLO_KEY_AT, LEASE_KEY_BYTES) != 0;
    memcpy(&session->lease_key, head.rest.at + HELLO_KEY_AT, LEASE_KEY_BYTES);
    session->has_lease_key = true;
    memcpy(session->mark, head.rest.at + HELLO_MARK_AT, SESSION_MARK_BYTES);
    uint32_t shards = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (session->options.name)
        redis_name_read(
            slice_make(head.rest.at + HELLO_REST_BYTES, head.rest.len - HELLO_REST_BYTES),
            session->options.name);
    greeting = shards == session->options.shards
                   ? compare_clocks(session, &head)
                   : greeting_ends(REDIS_DECISION_REFUSED, other_shards);
    greeting.is_gone = (head.rest.at[0] || is_other) && session->was_up;
    return greeting;
}

/* Reports the master's settings and checks that they meet the requirement. */
static struct session_greeting learn(const struct redis_session *session)
{
    const struct redis_session_options *options = &session->options;
    if (options->learned)
        options->learned(options->ctx, &session->master);
    if (redis_master_durability(&session->master) >= options->require_durability)
        return goes_on;
    return greeting_ends(
        REDIS_DECISION_REFUSED,
        redis_master_evicts(&session->master)
            ? "it would evict jobs when memory is short, less than --require-durability"
            : "it promises less than --require-durability");
}

static struct session_greeting room_reply(struct redis_session *session, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return goes_on;
    redis_master_read_capacity(&session->master, reply->str);
    struct session_greeting greeting = learn(session);
    if (!greeting.decision &&
        strcmp(session->master.replication_id, session->greeted_replication_id) != 0)
        return greeting_ends(REDIS_DECISION_GREET, "its data belong to another queue");
    return greeting;
}

static struct session_greeting role_reply(struct redis_session *session, const redisReply *reply)
{
    if (!is_master(reply))
        return greeting_ends(REDIS_DECISION_ELSEWHERE, "it is not a master");
    struct session_greeting greeting = learn(session);
    if (greeting.decision)
        return greeting;
    if (!session->has_library)
        load_library(session);
    send_hello(session);
    return goes_on;
}

/* ---- replies ---- */

static bool may_fail(enum session_expects what)
{
    return what == SESSION_EXPECTS_NAME || what == SESSION_EXPECTS_SHARDS ||
           what == SESSION_EXPECTS_CONFIG;
}

/* Converts an error to a result. An error that would require another greeting leads to a retry
 * after a pause, because the greeting itself failed. */
static struct session_greeting error_reply(const char *error)
{
    enum redis_decision decision = redis_error_classify(error);
    if (decision == REDIS_DECISION_GREET || decision == REDIS_DECISION_GONE ||
        decision == REDIS_DECISION_CLOCK)
        decision = REDIS_DECISION_AGAIN;
    return greeting_ends(decision, error);
}

struct session_greeting session_greeting_reply(struct redis_session *session,
                                               enum session_expects what, const redisReply *reply)
{
    if (what == SESSION_EXPECTS_ROOM)
        return room_reply(session, reply);
    if (reply->type == REDIS_REPLY_ERROR && !may_fail(what) && !is_there_already(what, reply))
        return error_reply(reply->str);
    switch (what) {
    case SESSION_EXPECTS_SHARDS:
        return shards_reply(session, reply);
    case SESSION_EXPECTS_LIBRARY:
        if (!read_libraries(session, reply))
            return greeting_ends(REDIS_DECISION_REFUSED, "it does not list its functions");
        break;
    case SESSION_EXPECTS_INFO:
        if (!read_run_id(session, reply))
            return greeting_ends(REDIS_DECISION_REFUSED, "it does not return its run id");
        break;
    case SESSION_EXPECTS_CONFIG:
        redis_master_read_config(&session->master, reply);
        break;
    case SESSION_EXPECTS_ROLE:
        return role_reply(session, reply);
    case SESSION_EXPECTS_HELLO:
        return hello_reply(session, reply);
    default:
        break;
    }
    return goes_on;
}
