/* fsck: checks and repairs a data directory or a queue in Redis. */
#include "fsck/fsck.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/fsck_redis.h"
#include "cli/fsck_sql.h"
#include "cli/progress.h"

#include <errno.h>
#include <string.h>

enum { REPORT_BYTES_MAX = 16 << 20 };

static void print(struct buffer *text)
{
    fwrite(text->at, 1, text->len, stdout);
    if (text->len > 0 && text->at[text->len - 1] != '\n')
        putchar('\n');
    buffer_fini(text);
}

/* ---- a data directory ---- */

/* Prints a message on standard error, to keep a report in JSON valid. */
static void on_text(void *ctx, const char *text)
{
    (void)ctx;
    progress_clear();
    fprintf(stderr, "%s\n", text);
}

static void on_records(void *ctx, uint64_t records, uint64_t total)
{
    (void)ctx;
    progress_show(records, total, -1);
}

struct mending {
    bool repair;
    const char *salvage; /* NULL, or the new directory */
};

static int check_directory(const char *directory, const struct mending *mending, bool json)
{
    static struct fsck_report report; /* too large for the stack */
    const struct fsck_options options = {.repair = mending->repair,
                                         .salvage = mending->salvage,
                                         .progress = on_records,
                                         .report_step = on_text};
    progress_begin("checked", false);
    int result = fsck_run_with(directory, &options, &report);
    progress_clear();
    if (result == 0 || json) {
        struct buffer text;
        buffer_init(&text, REPORT_BYTES_MAX);
        if (json)
            fsck_emit_json(&text, &report);
        else
            fsck_emit_text(&text, &report);
        print(&text);
    }
    fsck_report_fini(&report);
    if (result != 0)
        return cli_error("%s", report.error);
    return report.finding_count == report.mended ? CLI_OK : CLI_REFUSED;
}

/* ---- directory or store ---- */

static int choose(const char *directory, const char *store, const struct mending *mending,
                  const char *password_file)
{
    if (directory && store)
        return cli_usage("give a data directory or --store, not both");
    if (!directory && !store)
        return cli_usage(
            "give a data directory, or --store URL: redis://…, postgres://… or mysql://…");
    if (store && !strstr(store, "://"))
        return cli_usage("not a URL: '%.64s', write redis://…, postgres://… or mysql://…", store);
    if (mending->salvage && !directory)
        return cli_usage("'--salvage' is for a data directory, leave it out: in Redis '--repair' "
                         "removes no job");
    if (mending->salvage && mending->repair)
        return cli_usage("give '--repair' or '--salvage', not both");
    if (directory && password_file)
        return cli_usage("'--redis-password-file' is for '--store', give both or leave both out");
    return CLI_OK;
}

static int fsck_command(int argc, char **argv)
{
    const char *store = NULL, *password_file = NULL;
    struct mending mending = {0};
    bool json = false;
    const struct cli_flag flags[] = {
        {"store", CLI_TEXT, &store, "URL",
         "Check the queue in this Redis or SQL database; the URL is that of 'tarry serve'"},
        {"repair", CLI_SWITCH, &mending.repair, NULL,
         "Repair everything that can be repaired without loss"},
        {"salvage", CLI_TEXT, &mending.salvage, "NEWDIR",
         "Write all readable jobs to a new data directory"},
        {"redis-password-file", CLI_TEXT, &password_file, "FILE",
         "File whose first line is the password"},
        {"json", CLI_SWITCH, &json, NULL, "Print one JSON object"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "fsck DIR [--repair | --salvage NEWDIR] [--json]\n"
                 "       tarry fsck --store URL [--repair] [--json]",
        .about =
            "Checks a data directory that no server uses, and changes nothing: every file, batch "
            "and\n"
            "record, and whether they are consistent. The incomplete end that a crash leaves is "
            "normal.\n"
            "\n"
            "--repair rebuilds derived files (tables of keys, counts) without any loss, and "
            "reports\n"
            "what it does. No option discards data in DIR: --salvage writes all readable jobs to\n"
            "NEWDIR, which must be missing or empty, reports how many of each topic, and only "
            "reads\n"
            "DIR.\n"
            "\n"
            "With --store, checks a queue in Redis or a SQL database while servers are at work: "
            "every\n"
            "shard, topic and job, its place, counts and leases. --repair repairs what it finds,\n"
            "including the effects of a lost shard, and removes no job; in a SQL database it "
            "repairs\n"
            "counts and the list of priorities.\n"
            "\n"
            "Exit code 1: a fault was found and not repaired. With --salvage, NEWDIR is still "
            "complete\n"
            "unless an error is printed.",
        .flags = flags,
        .least = 0,
        .most = 1,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    const char *directory = args.list.count ? args.list.at[0] : NULL;
    exit_code = choose(directory, store, &mending, password_file);
    if (exit_code != CLI_OK)
        return exit_code;
    if (store && fsck_sql_is_store(store))
        return fsck_sql(store, mending.repair, json);
    return directory ? check_directory(directory, &mending, json)
                     : fsck_redis(store, password_file, mending.repair, json);
}

const struct cli_command cli_fsck_commands[] = {
    {.name = "fsck",
     .run = fsck_command,
     .help = "check and repair a data directory, or a queue in a database"},
    {0},
};
