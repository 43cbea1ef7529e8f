#include "store/fsck.h"
#include "cli/cli.h"
#include "cli/commands.h"

enum { REPORT_BYTES_MAX = 1 << 20 };

static void print(const struct fsck_report *report, bool json)
{
    struct buffer text;
    buffer_init(&text, REPORT_BYTES_MAX);
    if (json)
        fsck_emit_json(&text, report);
    else
        fsck_emit_text(&text, report);
    fwrite(text.at, 1, text.len, stdout);
    if (text.len > 0 && text.at[text.len - 1] != '\n')
        putchar('\n');
    buffer_fini(&text);
}

int cli_fsck(int argc, char **argv)
{
    static struct fsck_report report; /* large */
    bool json = false;
    const struct cli_flag flags[] = {
        {"json", CLI_SWITCH, &json, NULL, "print one JSON object, for programs"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "fsck DIR [--json]",
        .about =
            "Checks a data directory that no server is using, and changes no byte of it: every\n"
            "file, batch and record, and whether they make sense together. Exit code 1 where\n"
            "something is wrong. The half-written end that a crash leaves is not.",
        .flags = flags,
        .least = 1,
        .most = 1,
        .is_local = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    int result = fsck_run(args.list.at[0], &report);
    if (result == 0 || json)
        print(&report, json);
    if (result != 0)
        return cli_error("%s", report.error);
    return report.finding_count == 0 ? CLI_OK : CLI_REFUSED;
}
