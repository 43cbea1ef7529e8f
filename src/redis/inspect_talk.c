/* One blocking conversation with one server. */
#include "redis/inspect_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 16 };

int redis_report(const struct redis_report *report, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(report->error, report->error_bytes, format, args);
    va_end(args);
    return code;
}

void redis_talk_place(const struct redis_endpoint *endpoint, char out[REDIS_TALK_PLACE_BYTES])
{
    if (!endpoint->port)
        snprintf(out, REDIS_TALK_PLACE_BYTES, "%s", endpoint->host);
    else if (strchr(endpoint->host, ':'))
        snprintf(out, REDIS_TALK_PLACE_BYTES, "[%s]:%u", endpoint->host, (unsigned)endpoint->port);
    else
        snprintf(out, REDIS_TALK_PLACE_BYTES, "%s:%u", endpoint->host, (unsigned)endpoint->port);
}

bool redis_talk_is_error(const redisReply *reply, const char *prefix)
{
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, prefix, strlen(prefix)) == 0;
}

redisReply *redis_talk_ask(struct redis_talk *talk, const char *const *words)
{
    const char *argv[WORDS_MAX];
    int argc = 0;
    for (; words[argc] && argc < WORDS_MAX; argc++)
        argv[argc] = words[argc];
    redisReply *reply = redisCommandArgv(talk->context, argc, argv, NULL);
    if (!reply)
        redis_report(talk->report, 0, "the connection to redis at '%s' broke, %s", talk->place,
                     talk->context->err == REDIS_ERR_IO && errno == EAGAIN ? "it does not answer"
                                                                           : talk->context->errstr);
    return reply;
}

int redis_talk_refused(const struct redis_talk *talk, const redisReply *reply, const char *doing)
{
    if (!reply)
        return -EHOSTUNREACH;
    if (redis_talk_is_error(reply, "NOAUTH"))
        return redis_report(talk->report, -EACCES,
                            "redis at '%s' wants a password, give it by --redis-password-file",
                            talk->place);
    if (redis_talk_is_error(reply, "NOPERM"))
        return redis_report(talk->report, -EACCES,
                            "redis at '%s' does not let this user %s, %.160s; see docs/redis.md "
                            "for the ACL rule",
                            talk->place, doing, reply->str);
    if (redis_talk_is_error(reply, "LOADING"))
        return redis_report(talk->report, -EHOSTUNREACH,
                            "redis at '%s' is still loading its data, start again once it is done",
                            talk->place);
    return redis_report(talk->report, -EINVAL, "redis at '%s' refused to %s, %.200s", talk->place,
                        doing, reply->type == REDIS_REPLY_ERROR ? reply->str : "with no reason");
}

static int log_in(struct redis_talk *talk, const char *user, const char *password)
{
    redisReply *reply = user[0] ? REDIS_TALK_ASK(talk, "AUTH", user, password)
                                : REDIS_TALK_ASK(talk, "AUTH", password);
    int result = 0;
    if (redis_talk_is_error(reply, "WRONGPASS"))
        result = redis_report(talk->report, -EACCES,
                              "wrong %s for redis at '%s', check the URL and --redis-password-file",
                              user[0] ? "user or password" : "password", talk->place);
    else if (redis_talk_is_error(reply, "ERR AUTH"))
        result = redis_report(
            talk->report, -EACCES,
            "redis at '%s' has no password, leave it out of the URL or name a user", talk->place);
    else if (!reply || reply->type == REDIS_REPLY_ERROR)
        result = redis_talk_refused(talk, reply, "log in");
    freeReplyObject(reply);
    return result;
}

static redisContext *connect_to(const struct redis_endpoint *endpoint)
{
    const struct timeval patience = {.tv_sec = REDIS_INSPECT_MS / 1000};
    redisContext *context = endpoint->port
                                ? redisConnectWithTimeout(endpoint->host, endpoint->port, patience)
                                : redisConnectUnixWithTimeout(endpoint->host, patience);
    if (context && !context->err)
        redisSetTimeout(context, patience);
    return context;
}

int redis_talk_open(struct redis_talk *talk, const struct redis_endpoint *endpoint,
                    const char *user, const char *password, const struct redis_report *report)
{
    *talk = (struct redis_talk){.report = report, .context = connect_to(endpoint)};
    redis_talk_place(endpoint, talk->place);
    if (!talk->context)
        return redis_report(report, -ENOMEM, "out of memory");
    if (talk->context->err)
        return redis_report(report, -EHOSTUNREACH,
                            "cannot reach redis at '%s', %s, check that it runs and the --store",
                            talk->place, talk->context->errstr);
    return user[0] || password[0] ? log_in(talk, user, password) : 0;
}

void redis_talk_close(struct redis_talk *talk)
{
    if (talk->context)
        redisFree(talk->context);
    talk->context = NULL;
}
