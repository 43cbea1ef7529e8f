#include "redis/tokens.h"

#include "base/clock.h"
#include "redis/answer.h"
#include "redis/name.h"
#include "redis/survey.h"
#include "redis/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEY_BYTES = REDIS_PREFIX_BYTES + 16,
    MASTER_MS = 10 * 1000, /* how long a server found to be master is trusted */
    REDIRECTS_MAX = 5
};

struct redis_tokens {
    struct redis_url url;
    char key[KEY_BYTES];
    char version[REDIS_NAME_BYTES]; /* of the text read last; "": no text */
    bool was_read;
    struct redis_sync_connection connection;
    bool is_connected, asks_first; /* asks_first: the slot is being imported there */
    struct redis_endpoint endpoint;
    int64_t connected_us;
    struct redis_report report;
};

int redis_tokens_open(const char *url, struct redis_tokens **out, char *error)
{
    struct redis_tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens)
        return error_result(-ENOMEM, error, REDIS_TOKENS_ERROR_BYTES, "out of memory");
    if (!redis_url_parse(url, &tokens->url, error, REDIS_TOKENS_ERROR_BYTES) ||
        !redis_tls_open(&tokens->url, error, REDIS_TOKENS_ERROR_BYTES)) {
        redis_tokens_close(tokens);
        return -EINVAL;
    }
    snprintf(tokens->key, sizeof tokens->key, "{%s}:tokens", tokens->url.prefix);
    *out = tokens;
    return 0;
}

static void tokens_disconnect(struct redis_tokens *tokens)
{
    redis_sync_connection_close(&tokens->connection);
    tokens->is_connected = false;
}

void redis_tokens_close(struct redis_tokens *tokens)
{
    if (!tokens)
        return;
    tokens_disconnect(tokens);
    redis_tls_close(&tokens->url);
    explicit_bzero(&tokens->url, sizeof tokens->url);
    free(tokens);
}

/* ---- the connection ---- */

static int connect_to(struct redis_tokens *tokens, const struct redis_endpoint *endpoint)
{
    const struct redis_url *url = &tokens->url;
    tokens_disconnect(tokens);
    tokens->endpoint = *endpoint;
    tokens->asks_first = false;
    int result = redis_sync_connection_open(&tokens->connection, endpoint, &url->tls, url->user,
                                            url->password, &tokens->report);
    if (result == 0)
        result = redis_sync_connection_select(&tokens->connection, url->db);
    tokens->is_connected = true;
    tokens->connected_us = clock_boot_us();
    if (result != 0)
        tokens_disconnect(tokens);
    return result;
}

static int connect_master(struct redis_tokens *tokens)
{
    struct redis_survey *survey = NULL;
    int result = redis_survey_find(&tokens->url, &survey, &tokens->report);
    if (result != 0)
        return result;
    uint16_t master = survey->of_slot[redis_slot_of(slice_of(tokens->key))];
    result = connect_to(tokens, &survey->masters[master]);
    redis_survey_free(survey);
    return result;
}

static int tokens_connect(struct redis_tokens *tokens, char *error)
{
    bool may_be_deposed = tokens->url.kind != REDIS_SINGLE &&
                          clock_boot_us() - tokens->connected_us > MASTER_MS * INT64_C(1000);
    tokens->report = (struct redis_report){error, REDIS_TOKENS_ERROR_BYTES};
    if (tokens->is_connected && may_be_deposed)
        tokens_disconnect(tokens);
    return tokens->is_connected ? 0 : connect_master(tokens);
}

/* Reports an invalid reply and closes the connection, so that the next call reconnects. */
static int tokens_refused(struct redis_tokens *tokens, const redisReply *reply, const char *doing)
{
    int result = redis_sync_connection_refused(&tokens->connection, reply, doing);
    tokens_disconnect(tokens);
    return result;
}

static bool is_text(const redisReply *reply)
{
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL);
}

/* Returns the reply of the server that holds the key, because a cluster may be moving it. NULL:
 * reported. */
static redisReply *ask_owner(struct redis_tokens *tokens, const char *const *words)
{
    for (int i = 0; i < REDIRECTS_MAX; i++) {
        if (tokens->asks_first)
            freeReplyObject(REDIS_SYNC_ASK(&tokens->connection, "ASKING"));
        redisReply *reply = redis_sync_connection_ask(&tokens->connection, words);
        bool is_moving = redis_sync_connection_is_error(reply, "ASK ");
        struct redis_endpoint asked = tokens->endpoint, next;
        if (!(is_moving || redis_sync_connection_is_error(reply, "MOVED ")) ||
            !redis_error_endpoint(reply->str, &asked, &next))
            return reply;
        freeReplyObject(reply);
        if (connect_to(tokens, &next) != 0)
            return NULL;
        tokens->asks_first = is_moving;
    }
    REDIS_REPORT(&tokens->report, 0, "the cluster redirects in a circle, try again in a moment");
    return NULL;
}

#define ASK_OWNER(TOKENS, ...) ask_owner((TOKENS), (const char *const[]){__VA_ARGS__, NULL})

/* ---- reading ---- */

/* Reads the current version; "" if there is no text. */
static int read_version(struct redis_tokens *tokens, char version[REDIS_NAME_BYTES])
{
    redisReply *reply = ASK_OWNER(tokens, "HGET", tokens->key, "version");
    int result = 0;
    if (!is_text(reply))
        result = tokens_refused(tokens, reply, "read the tokens");
    else
        snprintf(version, REDIS_NAME_BYTES, "%s",
                 reply->type == REDIS_REPLY_STRING ? reply->str : "");
    freeReplyObject(reply);
    return result;
}

/* Reads text and version together. */
static int read_text(struct redis_tokens *tokens, struct buffer *out)
{
    redisReply *reply = ASK_OWNER(tokens, "HMGET", tokens->key, "version", "text");
    int result = 0;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !is_text(reply->element[0]) || !is_text(reply->element[1])) {
        result = tokens_refused(tokens, reply, "read the tokens");
    } else {
        const redisReply *version = reply->element[0], *text = reply->element[1];
        snprintf(tokens->version, sizeof tokens->version, "%s",
                 version->type == REDIS_REPLY_STRING ? version->str : "");
        tokens->was_read = true;
        if (text->type == REDIS_REPLY_STRING)
            buffer_append(out, text->str, text->len);
        if (out->failed)
            result = REDIS_REPORT(&tokens->report, -EFBIG, "the tokens in redis are too large");
    }
    freeReplyObject(reply);
    return result;
}

int redis_tokens_read(struct redis_tokens *tokens, struct buffer *out, bool *is_changed,
                      char *error)
{
    char version[REDIS_NAME_BYTES] = "";
    *is_changed = false;
    int result = tokens_connect(tokens, error);
    if (result == 0)
        result = read_version(tokens, version);
    if (result != 0 || (tokens->was_read && strcmp(version, tokens->version) == 0))
        return result;
    result = read_text(tokens, out);
    *is_changed = result == 0;
    return result;
}

/* ---- writing ---- */

static int ask_ok(struct redis_tokens *tokens, const char *const *words)
{
    redisReply *reply = redis_sync_connection_ask(&tokens->connection, words);
    int result = 0;
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        result = tokens_refused(tokens, reply, "write the tokens");
    freeReplyObject(reply);
    return result;
}

#define ASK_OK(TOKENS, ...) ask_ok((TOKENS), (const char *const[]){__VA_ARGS__, NULL})

static int exec(struct redis_tokens *tokens)
{
    redisReply *reply = REDIS_SYNC_ASK(&tokens->connection, "EXEC");
    int result = 0;
    if (reply && reply->type == REDIS_REPLY_NIL)
        result = -EAGAIN;
    else if (!reply || reply->type != REDIS_REPLY_ARRAY)
        result = tokens_refused(tokens, reply, "write the tokens");
    freeReplyObject(reply);
    return result;
}

/* Writes the text, which must end with NUL. */
static int write_text(struct redis_tokens *tokens, const char *text)
{
    char version[REDIS_NAME_BYTES] = "", drawn[REDIS_NAME_BYTES];
    int result = ASK_OK(tokens, "WATCH", tokens->key);
    if (result == 0)
        result = read_version(tokens, version);
    if (result == 0 && strcmp(version, tokens->version) != 0) {
        result = ASK_OK(tokens, "UNWATCH");
        return result == 0 ? -EAGAIN : result;
    }
    redis_name_draw(drawn);
    if (result == 0)
        result = ASK_OK(tokens, "MULTI");
    if (result == 0)
        result = ASK_OK(tokens, "HSET", tokens->key, "version", drawn, "text", text);
    if (result == 0)
        result = exec(tokens);
    if (result == 0)
        memcpy(tokens->version, drawn, sizeof drawn);
    return result;
}

int redis_tokens_write(struct redis_tokens *tokens, struct slice text, char *error)
{
    int result = tokens_connect(tokens, error);
    char *copy = result == 0 ? strndup(text.at ? text.at : "", text.len) : NULL;
    if (result == 0 && !copy)
        result = REDIS_REPORT(&tokens->report, -ENOMEM, "out of memory");
    if (result == 0)
        result = write_text(tokens, copy);
    free(copy);
    return result;
}
