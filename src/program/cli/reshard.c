/* reshard: changes the number of shards of a queue in Redis while servers use it. */
#include "redis/reshard.h"

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/redis_store.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void on_progress(void *ctx, uint64_t moved, uint64_t total)
{
    (void)ctx;
    if (total)
        progress_show(moved, total, -1);
}

static bool on_is_enough(void *ctx)
{
    (void)ctx;
    return interrupt_came();
}

static void print_json(const struct redis_reshard_report *report)
{
    printf("{\"from\":%u,\"to\":%u,\"generation\":%u,\"begun_before\":%s,\"done\":%s,"
           "\"moved\":%" PRIu64 ",\"took_ms\":%" PRId64 "}\n",
           (unsigned)report->from.shards, (unsigned)report->into.shards,
           (unsigned)report->into.number, report->was_begun ? "true" : "false",
           report->is_done ? "true" : "false", report->moved, report->took_ms);
}

static void print_text(const struct redis_reshard_report *report)
{
    if (report->is_done)
        printf("%u shard%s now, %" PRIu64 " job%s moved in %" PRId64 ".%01" PRId64 " s\n",
               (unsigned)report->into.shards, report->into.shards == 1 ? "" : "s", report->moved,
               report->moved == 1 ? "" : "s", report->took_ms / 1000, report->took_ms % 1000 / 100);
}

static int reshard(const char *store, const char *password_file, uint32_t shards, bool json)
{
    struct redis_reshard_report report;
    char url[REDIS_URL_BYTES_MAX];
    const struct redis_reshard_options options = {
        .url = url, .shards = shards, .progress = on_progress, .is_enough = on_is_enough};
    int exit_code = redis_store_url(store, password_file, url);
    if (exit_code != CLI_OK)
        return exit_code;
    (void)log_open(NULL, LOG_ERROR, false);
    interrupt_catch();
    progress_begin("moved", false);
    int result = redis_reshard_run(&options, &report);
    explicit_bzero(url, sizeof url);
    progress_clear();
    if (result != 0)
        return cli_store_error(result, report.error);
    if (json)
        print_json(&report);
    else
        print_text(&report);
    if (!report.is_done)
        return cli_error("stopped before all jobs had moved, run it again to complete it");
    return CLI_OK;
}

/* Parses the number of shards; returns 0 if it is invalid. */
static uint32_t parse_shards(const char *text)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    bool is_number = text_is_digit(*text) && *end == '\0' && errno == 0;
    return is_number && number <= REDIS_SHARDS_MAX ? (uint32_t)number : 0;
}

static int reshard_command(int argc, char **argv)
{
    const char *store = NULL, *password_file = NULL, *number = NULL;
    bool json = false;
    const struct cli_flag flags[] = {
        {"store", CLI_TEXT, &store, "URL", "Queue in this Redis; the URL is that of 'tarry serve'"},
        {"shards", CLI_TEXT, &number, "N", "New number of shards, 1 to 64"},
        {"redis-password-file", CLI_TEXT, &password_file, "FILE",
         "File whose first line is the password"},
        {"json", CLI_SWITCH, &json, NULL, "Print one JSON object"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "reshard --store URL --shards N [--json]",
        .about = "Changes the number of shards of a queue in Redis while servers are at work: new "
                 "jobs go to\n"
                 "the new shards immediately, and the servers move the existing ones. Leased jobs "
                 "move when\n"
                 "their lease ends; the command waits for the last.\n"
                 "\n"
                 "It may be stopped or killed at any moment without losing or delaying jobs: run "
                 "it again\n"
                 "with the same number to continue. Until it ends, do not start a server\nof an "
                 "older version, or with another --shards.",
        .flags = flags,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!store || !number)
        return cli_usage("give --store and the URL of a Redis, and --shards");
    uint32_t shards = parse_shards(number);
    if (!shards)
        return cli_usage("'--shards' is '%s', give a number from 1 to %d", number,
                         REDIS_SHARDS_MAX);
    (void)signal(SIGPIPE, SIG_IGN); /* a closed Redis connection is then a write error */
    return reshard(store, password_file, shards, json);
}

const struct cli_command cli_reshard_commands[] = {
    {.name = "reshard",
     .run = reshard_command,
     .help = "change the number of shards of a queue in Redis"},
    {0},
};
