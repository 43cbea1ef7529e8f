#include "redis/watch.h"

#include "base/clock.h"
#include "base/text.h"
#include "redis/command.h"
#include "redis/connection.h"

#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 1000, AGAIN_MS = 1000 };

struct redis_watch {
    struct reactor *reactor;
    const struct redis_url *url;
    redis_watch_switched *switched;
    void *ctx;
    struct redis_connection *connection; /* NULL: until the deadline */
    struct deadline *deadline;
    uint32_t next; /* the sentinel to be tried next */
};

/* ---- messages ---- */

/* The next word of `rest`, which is cut off. Empty: there is none. */
static struct slice take_word(struct slice *rest)
{
    const char *space = rest->len ? memchr(rest->at, ' ', rest->len) : NULL;
    size_t len = space ? (size_t)(space - rest->at) : rest->len;
    struct slice word = slice_make(rest->at, len);
    size_t gone = space ? len + 1 : len;
    *rest = slice_make(rest->at + gone, rest->len - gone);
    return word;
}

static bool take_endpoint(struct slice *rest, struct redis_endpoint *out)
{
    struct slice host = take_word(rest), number = take_word(rest);
    uint64_t port;
    if (host.len == 0 || host.len >= sizeof out->host ||
        !text_parse_u64(number, UINT16_MAX, &port) || port == 0)
        return false;
    *out = (struct redis_endpoint){.port = (uint16_t)port};
    memcpy(out->host, host.at, host.len);
    return true;
}

/* "name old-host old-port new-host new-port" */
static void hear(struct redis_watch *watch, struct slice message)
{
    struct redis_endpoint from, to;
    struct slice name = take_word(&message);
    if (name.len != strlen(watch->url->master) ||
        memcmp(name.at, watch->url->master, name.len) != 0)
        return;
    if (take_endpoint(&message, &from) && take_endpoint(&message, &to))
        watch->switched(watch->ctx, &from, &to);
}

static void again(struct redis_watch *watch)
{
    redis_connection_free(watch->connection);
    watch->connection = NULL;
    deadline_set(watch->deadline, clock_inner_ms() + AGAIN_MS);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_watch *watch = ctx;
    if (reply->type == REDIS_REPLY_ERROR) {
        again(watch); /* a wrong password: who asks where the master is says so */
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[2]->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(reply->element[0]->str, "message") == 0)
        hear(watch, slice_make(reply->element[2]->str, (size_t)reply->element[2]->len));
}

/* ---- connection ---- */

static void on_up(void *ctx)
{
    struct redis_watch *watch = ctx;
    const char *user = watch->url->sentinel_user, *password = watch->url->sentinel_password;
    struct buffer *out = redis_connection_out(watch->connection);
    if (*password && *user)
        redis_command_words(out, "AUTH", user, password, NULL);
    else if (*password)
        redis_command_words(out, "AUTH", password, NULL);
    redis_command_words(out, "SUBSCRIBE", "+switch-master", NULL);
}

static void on_down(void *ctx, const char *why)
{
    (void)why;
    again(ctx);
}

static void on_deadline(void *ctx)
{
    static const struct redis_connection_events events = {
        .up = on_up, .down = on_down, .reply = on_reply};
    struct redis_watch *watch = ctx;
    const struct redis_endpoint *sentinel =
        &watch->url->hosts[watch->next++ % watch->url->host_count];
    watch->connection = redis_connection_new(watch->reactor, sentinel, CONNECT_MS, &events, watch);
    if (!watch->connection)
        again(watch);
}

/* ---- life ---- */

struct redis_watch *redis_watch_new(struct reactor *reactor, const struct redis_url *url,
                                    redis_watch_switched *switched, void *ctx)
{
    struct redis_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->reactor = reactor;
    watch->url = url;
    watch->switched = switched;
    watch->ctx = ctx;
    watch->deadline = deadline_new(reactor, on_deadline, watch);
    if (!watch->deadline) {
        free(watch);
        return NULL;
    }
    deadline_set(watch->deadline, clock_inner_ms());
    return watch;
}

void redis_watch_free(struct redis_watch *watch)
{
    if (!watch)
        return;
    redis_connection_free(watch->connection);
    deadline_free(watch->deadline);
    free(watch);
}
