#include "redis/sync_connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 16 };

bool redis_sync_connection_is_error(const redisReply *reply, const char *prefix)
{
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, prefix, strlen(prefix)) == 0;
}

redisReply *redis_sync_connection_ask(struct redis_sync_connection *connection,
                                      const char *const *words)
{
    const char *argv[WORDS_MAX];
    int argc = 0;
    for (; words[argc] && argc < WORDS_MAX; argc++)
        argv[argc] = words[argc];
    redisReply *reply = redisCommandArgv(connection->context, argc, argv, NULL);
    if (!reply)
        REDIS_REPORT(connection->report, 0, "the connection to redis at '%s' broke, %s",
                     connection->place,
                     connection->context->err == REDIS_ERR_IO && errno == EAGAIN
                         ? "it does not answer"
                         : connection->context->errstr);
    return reply;
}

int redis_sync_connection_refused(const struct redis_sync_connection *connection,
                                  const redisReply *reply, const char *doing)
{
    if (!reply)
        return -EHOSTUNREACH;
    if (redis_sync_connection_is_error(reply, "NOAUTH"))
        return REDIS_REPORT(connection->report, -EACCES,
                            "redis at '%s' wants a password, give it by --redis-password-file",
                            connection->place);
    if (redis_sync_connection_is_error(reply, "NOPERM"))
        return REDIS_REPORT(connection->report, -EACCES,
                            "redis at '%s' does not let this user %s, %.160s; see docs/redis.md "
                            "for the ACL rule",
                            connection->place, doing, reply->str);
    if (redis_sync_connection_is_error(reply, "LOADING"))
        return REDIS_REPORT(connection->report, -EHOSTUNREACH,
                            "redis at '%s' is still loading its data, start again once it is done",
                            connection->place);
    return REDIS_REPORT(connection->report, -EINVAL, "redis at '%s' refused to %s, %.200s",
                        connection->place, doing,
                        reply->type == REDIS_REPLY_ERROR ? reply->str : "with no reason");
}

static int log_in(struct redis_sync_connection *connection, const char *user, const char *password)
{
    redisReply *reply = user[0] ? REDIS_SYNC_ASK(connection, "AUTH", user, password)
                                : REDIS_SYNC_ASK(connection, "AUTH", password);
    int result = 0;
    if (redis_sync_connection_is_error(reply, "WRONGPASS"))
        result = REDIS_REPORT(connection->report, -EACCES,
                              "wrong %s for redis at '%s', check the URL and --redis-password-file",
                              user[0] ? "user or password" : "password", connection->place);
    else if (redis_sync_connection_is_error(reply, "ERR AUTH"))
        result =
            REDIS_REPORT(connection->report, -EACCES,
                         "redis at '%s' has no password, leave it out of the URL or name a user",
                         connection->place);
    else if (!reply || reply->type == REDIS_REPLY_ERROR)
        result = redis_sync_connection_refused(connection, reply, "log in");
    freeReplyObject(reply);
    return result;
}

static redisContext *connect_to(const struct redis_endpoint *endpoint)
{
    const struct timeval patience = {.tv_sec = REDIS_SYNC_MS / 1000};
    redisContext *context = endpoint->port
                                ? redisConnectWithTimeout(endpoint->host, endpoint->port, patience)
                                : redisConnectUnixWithTimeout(endpoint->host, patience);
    if (context && !context->err)
        redisSetTimeout(context, patience);
    return context;
}

int redis_sync_connection_open(struct redis_sync_connection *connection,
                               const struct redis_endpoint *endpoint, const char *user,
                               const char *password, const struct redis_report *report)
{
    *connection = (struct redis_sync_connection){.report = report, .context = connect_to(endpoint)};
    redis_endpoint_name(endpoint, connection->place);
    if (!connection->context)
        return REDIS_REPORT(report, -ENOMEM, "out of memory");
    if (connection->context->err)
        return REDIS_REPORT(report, -EHOSTUNREACH,
                            "cannot reach redis at '%s', %s, check that it runs and the --store",
                            connection->place, connection->context->errstr);
    return user[0] || password[0] ? log_in(connection, user, password) : 0;
}

int redis_sync_connection_select(struct redis_sync_connection *connection, uint32_t db)
{
    char number[16];
    int result = 0;
    if (!db)
        return 0;
    snprintf(number, sizeof number, "%u", (unsigned)db);
    redisReply *reply = REDIS_SYNC_ASK(connection, "SELECT", number);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        result = redis_sync_connection_refused(connection, reply, "select the database of the URL");
    freeReplyObject(reply);
    return result;
}

void redis_sync_connection_close(struct redis_sync_connection *connection)
{
    if (connection->context)
        redisFree(connection->context);
    connection->context = NULL;
}
