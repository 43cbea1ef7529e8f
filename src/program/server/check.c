/* Checks a valid configuration against its files, without starting a server: tarry serve --check. */
#include "base/error.h"
#include "intake/intake.h"
#include "server/callers.h"
#include "server/certificates.h"
#include "server/config.h"
#include "server/delivery.h"
#include "server/protocol.h"
#include "server/secret.h"
#include "server/server.h"
#include "server/traces.h"
#include "store/datadir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ERROR_BYTES = SERVER_ERROR_BYTES };

/* Checks that the server may create or write the file. */
static bool check_writable(const char *path, const char *what, char *error)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!path[0] || access(path, W_OK) == 0)
        return true;
    int result = errno;
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (result == ENOENT && access(directory, W_OK | X_OK) == 0)
        return true;
    return error_text(error, ERROR_BYTES, "cannot write the %s '%.300s', %s", what, path,
                      strerror(errno));
}

/* Checks that the data directory exists or can be created in its parent. */
static bool check_data(const struct config *config, char *error)
{
    char path[PATH_MAX];
    struct stat info;
    if (config_is_redis(config) || config_is_sql(config))
        return true;
    snprintf(path, sizeof path, "%s", config->data);
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
        path[len - 1] = '\0';
    bool is_there = stat(path, &info) == 0;
    if (is_there && !S_ISDIR(info.st_mode))
        return error_text(error, ERROR_BYTES, "'%.300s' is not a directory, name one with --data",
                          config->data);
    if (!is_there)
        return check_writable(path, "data directory", error);
    if (access(path, R_OK | W_OK | X_OK) != 0)
        return error_text(error, ERROR_BYTES, "cannot use the data directory '%.300s', %s",
                          config->data, strerror(errno));
    return datadir_refuse_foreign(path, error, ERROR_BYTES) == 0;
}

bool server_check_options(const struct config *config, char error[SERVER_ERROR_BYTES])
{
    return (!config->sqs[0] || protocol_sqs.check(config, error)) &&
           (!config->amqp_in[0] ||
            intake_check(&intake_amqp, config->amqp_in, config->deliver[0], error)) &&
           (!config->kafka_in[0] ||
            intake_check(&intake_kafka, config->kafka_in, config->deliver[0], error));
}

uint32_t server_check(const struct config *config, void (*report)(void *ctx, const char *fault),
                      void *ctx)
{
    char error[ERROR_BYTES], secret[ERROR_BYTES];
    uint32_t faults = certificates_check(config, report, ctx);
    const char *password = config->redis_password_file;
    const bool are_good[] = {
        callers_check(config, error) || (report(ctx, error), false),
        delivery_check(config->deliver, error) || (report(ctx, error), false),
        traces_check(config, error) || (report(ctx, error), false),
        server_check_options(config, error) || (report(ctx, error), false),
        check_writable(config->log, "log", error) || (report(ctx, error), false),
        check_writable(config->audit, "audit file", error) || (report(ctx, error), false),
        check_data(config, error) || (report(ctx, error), false),
        !password[0] || secret_read(password, secret, sizeof secret, error, sizeof error) == 0 ||
            (report(ctx, error), false),
    };
    explicit_bzero(secret, sizeof secret);
    for (size_t i = 0; i < sizeof are_good / sizeof are_good[0]; i++)
        faults += !are_good[i];
    return faults;
}
