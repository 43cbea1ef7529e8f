#include "redis/sync_connection.h"

#include "redis/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 16, READ_BYTES = 16 * 1024, SEALED_BYTES_MAX = 64 << 20 };
enum { WHY_BYTES = REDIS_SYNC_WHY_BYTES };

static const char SILENT[] = "it does not answer";

/* ---- with TLS, which this hiredis does not support ---- */

/* Returns false on failure; `why` receives the reason. */
static bool send_sealed(const struct redis_sync_connection *connection, struct buffer *sealed,
                        char *why)
{
    size_t done = 0;
    while (done < sealed->len && !sealed->failed) {
        ssize_t some = write(connection->context->fd, sealed->at + done, sealed->len - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return error_text(why, WHY_BYTES, "%s", strerror(errno));
        done += (size_t)some;
    }
    bool failed = sealed->failed;
    buffer_clear(sealed);
    return !failed || error_text(why, WHY_BYTES, "out of memory");
}

/* Passes received bytes to the hiredis reader, and sends the bytes that TLS requires in response.
 * Returns false on failure; `why` receives the reason. */
static bool receive_sealed(const struct redis_sync_connection *connection, struct buffer *sealed,
                           char *why)
{
    char bytes[READ_BYTES], plain[READ_BYTES];
    ssize_t got = read(connection->context->fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return error_text(why, WHY_BYTES, "%s",
                          got == 0          ? "it closed the connection"
                          : errno == EAGAIN ? SILENT
                                            : strerror(errno));
    tls_feed(connection->session, bytes, (size_t)got);
    while ((got = tls_read(connection->session, plain, sizeof plain, sealed)) > 0)
        (void)redisReaderFeed(connection->context->reader, plain, (size_t)got);
    if (got < 0 && tls_state_of(connection->session) == TLS_FAILED)
        redis_tls_explain(connection->session, why, WHY_BYTES);
    else if (got < 0)
        (void)snprintf(why, WHY_BYTES, "it closed the connection");
    if (sealed->len && !send_sealed(connection, sealed, got < 0 ? (char[WHY_BYTES]){0} : why))
        return false;
    return got >= 0;
}

static bool shake_hands(struct redis_sync_connection *connection, const struct redis_tls *tls,
                        const struct redis_endpoint *endpoint, char *why)
{
    struct buffer sealed;
    buffer_init(&sealed, SEALED_BYTES_MAX);
    connection->session = redis_tls_connect(tls, endpoint, &sealed);
    bool is_good = connection->session ? send_sealed(connection, &sealed, why)
                                       : error_text(why, WHY_BYTES, "out of memory");
    while (is_good && tls_state_of(connection->session) == TLS_HANDSHAKE)
        is_good = receive_sealed(connection, &sealed, why);
    buffer_fini(&sealed);
    return is_good;
}

/* Returns NULL on failure; `why` receives the reason. */
static redisReply *ask_sealed(const struct redis_sync_connection *connection, int argc,
                              const char **argv, const size_t *lengths, char *why)
{
    struct buffer sealed;
    char *command = NULL;
    void *reply = NULL;
    int len = redisFormatCommandArgv(&command, argc, argv, lengths);
    buffer_init(&sealed, SEALED_BYTES_MAX);
    bool is_good = len > 0 && tls_write(connection->session, command, (size_t)len, &sealed) &&
                   send_sealed(connection, &sealed, why);
    if (command)
        redisFreeCommand(command);
    while (is_good) {
        redisReader *reader = connection->context->reader;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
            is_good = error_text(why, WHY_BYTES, "%s", reader->errstr);
        if (!is_good || reply)
            break;
        is_good = receive_sealed(connection, &sealed, why);
    }
    buffer_fini(&sealed);
    return reply;
}

/* ---- with or without TLS ---- */

bool redis_sync_connection_is_error(const redisReply *reply, const char *prefix)
{
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, prefix, strlen(prefix)) == 0;
}

redisReply *redis_sync_connection_try(const struct redis_sync_connection *connection, int argc,
                                      const char **argv, const size_t *lengths, char *why)
{
    const redisContext *context = connection->context;
    (void)snprintf(why, WHY_BYTES, "out of memory");
    if (connection->session)
        return ask_sealed(connection, argc, argv, lengths, why);
    redisReply *reply = redisCommandArgv(connection->context, argc, argv, lengths);
    if (!reply)
        (void)snprintf(why, WHY_BYTES, "%s",
                       context->err == REDIS_ERR_IO && errno == EAGAIN ? SILENT : context->errstr);
    return reply;
}

/* Returns a hint if the connection ended before its first reply. */
static const char *help_of(const struct redis_sync_connection *connection, const char *why)
{
    if (connection->has_answered || strstr(why, "in the URL"))
        return "";
    return connection->session ? "; it may require a certificate, give cert and key in the URL"
                               : "; if this port uses TLS, write rediss://";
}

redisReply *redis_sync_connection_ask(struct redis_sync_connection *connection,
                                      const char *const *words)
{
    const char *argv[WORDS_MAX];
    int argc = 0;
    for (; words[argc] && argc < WORDS_MAX; argc++)
        argv[argc] = words[argc];
    char why[WHY_BYTES];
    redisReply *reply = redis_sync_connection_try(connection, argc, argv, NULL, why);
    if (!reply)
        REDIS_REPORT(connection->report, 0, "the connection to redis at '%s' was lost, %s%s",
                     connection->place, why, help_of(connection, why));
    connection->has_answered |= reply != NULL;
    return reply;
}

int redis_sync_connection_refused(const struct redis_sync_connection *connection,
                                  const redisReply *reply, const char *doing)
{
    if (!reply)
        return -EHOSTUNREACH;
    if (redis_sync_connection_is_error(reply, "NOAUTH"))
        return REDIS_REPORT(connection->report, -EACCES,
                            "redis at '%s' requires a password, give it with --redis-password-file",
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
                        reply->type == REDIS_REPLY_ERROR ? reply->str : "without a reason");
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
    const struct timeval timeout = {.tv_sec = REDIS_SYNC_MS / 1000};
    redisContext *context = endpoint->port
                                ? redisConnectWithTimeout(endpoint->host, endpoint->port, timeout)
                                : redisConnectUnixWithTimeout(endpoint->host, timeout);
    if (context && !context->err)
        redisSetTimeout(context, timeout);
    return context;
}

int redis_sync_connection_open(struct redis_sync_connection *connection,
                               const struct redis_endpoint *endpoint, const struct redis_tls *tls,
                               const char *user, const char *password,
                               const struct redis_report *report)
{
    char why[WHY_BYTES] = "";
    *connection = (struct redis_sync_connection){.report = report, .context = connect_to(endpoint)};
    redis_endpoint_name(endpoint, connection->place);
    if (!connection->context)
        return REDIS_REPORT(report, -ENOMEM, "out of memory");
    if (connection->context->err)
        return REDIS_REPORT(
            report, -EHOSTUNREACH,
            "cannot reach redis at '%s', %s, check that it runs, and the URL in --store",
            connection->place, connection->context->errstr);
    if (tls->is_on && !shake_hands(connection, tls, endpoint, why))
        return REDIS_REPORT(
            report, -EHOSTUNREACH, "cannot reach redis at '%s', %s%s", connection->place, why,
            strcmp(why, SILENT) == 0 ? "; if this port does not use TLS, write redis://" : "");
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
    tls_session_free(connection->session);
    connection->context = NULL;
    connection->session = NULL;
}
