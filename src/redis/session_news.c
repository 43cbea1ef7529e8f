#include "redis/session_news.h"

#include "base/clock.h"
#include "base/text.h"
#include "redis/session_private.h"

#include <stdio.h>

enum { AGAIN_MS = 1000, REFUSED_AGAIN_MS = 30000, SERVER_BYTES = 8 };

/* While the session is not up it has its own to say. */
static void complain(struct session_news *news, const char *why)
{
    if (!redis_session_is_up(news->session) || strncmp(news->said, why, sizeof news->said - 1) == 0)
        return;
    snprintf(news->said, sizeof news->said, "%s", why);
    log_event(LOG_WARN, "redis sends no news", LOG_TEXT("shard", news->session->options.tag),
              LOG_TEXT("why", why));
}

static void again(struct session_news *news, int64_t pause_ms)
{
    session_news_stop(news);
    deadline_set(news->deadline, clock_inner_ms() + pause_ms);
}

/* ---- messages ---- */

/* NUMBER, a space, the topic. */
static void hear_event(const struct redis_session_options *options, enum queue_event event,
                       struct slice text, bool own)
{
    const char *space = text.len ? memchr(text.at, ' ', text.len) : NULL;
    uint64_t number;
    if (!space ||
        !text_parse_u64(slice_make(text.at, (size_t)(space - text.at)), INT64_MAX, &number))
        return;
    size_t topic_bytes = text.len - (size_t)(space + 1 - text.at);
    options->told(options->ctx, event, number, slice_make(space + 1, topic_bytes), own);
}

static bool is_own(const struct redis_session_options *options, struct slice rest)
{
    return memcmp(rest.at, options->server, SERVER_BYTES) == 0;
}

static void hear(struct session_news *news, struct slice message)
{
    const struct redis_session_options *options = &news->session->options;
    uint64_t at_ms;
    if (message.len == 0)
        return;
    struct slice rest = slice_make(message.at + 1, message.len - 1);
    if (message.at[0] == 'd' && text_parse_u64(rest, INT64_MAX, &at_ms)) {
        options->due(options->ctx, (int64_t)at_ms);
    } else if (message.at[0] == 'x') {
        hear_event(options, QUEUE_EVENT_DEAD, rest, false);
    } else if (rest.len > SERVER_BYTES) {
        struct slice text = slice_make(rest.at + SERVER_BYTES, rest.len - SERVER_BYTES);
        if (message.at[0] == 's')
            hear_event(options, QUEUE_EVENT_TOPIC, text, is_own(options, rest));
        else if (message.at[0] == 'r' && !is_own(options, rest))
            options->ready(options->ctx, text);
    }
}

static bool is_word(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_STRING && strcmp(reply->str, word) == 0;
}

static void on_array(struct session_news *news, const redisReply *reply)
{
    const redisReply *kind = reply->element[0];
    if (is_word(kind, "smessage") && reply->elements == 3 &&
        reply->element[2]->type == REDIS_REPLY_STRING) {
        hear(news, slice_make(reply->element[2]->str, (size_t)reply->element[2]->len));
    } else if (is_word(kind, "ssubscribe")) {
        news->subscribed = true;
        news->said[0] = 0;
        session_news_subscribed(news->session);
    } else if (is_word(kind, "sunsubscribe")) {
        again(news, AGAIN_MS); /* the slot is served elsewhere now */
    }
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct session_news *news = ctx;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0) {
        on_array(news, reply);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        bool passes = session_judge(reply->str) != SESSION_VERDICT_REFUSED;
        if (!passes)
            complain(news, reply->str);
        again(news, passes ? AGAIN_MS : REFUSED_AGAIN_MS);
    }
}

/* ---- connection ---- */

static void on_up(void *ctx)
{
    struct session_news *news = ctx;
    const struct redis_url *url = news->session->options.url;
    struct buffer *out = redis_connection_out(news->connection);
    char channel[REDIS_TAG_BYTES + sizeof ":news"];
    if (*url->password && *url->user)
        redis_command_words(out, "AUTH", url->user, url->password, NULL);
    else if (*url->password)
        redis_command_words(out, "AUTH", url->password, NULL);
    snprintf(channel, sizeof channel, "%s:news", news->session->options.tag);
    redis_command_words(out, "SSUBSCRIBE", channel, NULL);
}

static void on_down(void *ctx, const char *why)
{
    (void)why; /* the session's own connection says it */
    again(ctx, AGAIN_MS);
}

static void on_deadline(void *ctx)
{
    session_news_start(ctx);
}

void session_news_start(struct session_news *news)
{
    static const struct redis_connection_events events = {
        .up = on_up, .down = on_down, .reply = on_reply};
    session_news_stop(news);
    news->connection =
        redis_connection_new(news->session->options.reactor, &news->session->endpoint,
                             SESSION_CONNECT_MS, &events, news);
    if (!news->connection)
        again(news, AGAIN_MS);
}

void session_news_stop(struct session_news *news)
{
    redis_connection_free(news->connection);
    news->connection = NULL;
    news->subscribed = false;
    deadline_set(news->deadline, INT64_MAX);
}

/* ---- life ---- */

bool session_news_init(struct session_news *news, struct redis_session *session)
{
    *news = (struct session_news){.session = session};
    news->deadline = deadline_new(session->options.reactor, on_deadline, news);
    return news->deadline != NULL;
}

void session_news_fini(struct session_news *news)
{
    session_news_stop(news);
    deadline_free(news->deadline);
    news->deadline = NULL;
}
