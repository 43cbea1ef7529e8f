#include "cli/fsck_redis.h"

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/redis_store.h"
#include "redis/fsck.h"

#include <string.h>

enum { REPORT_BYTES_MAX = 16 << 20 };

static void on_progress(void *ctx, uint64_t jobs, uint64_t total)
{
    (void)ctx;
    progress_show(jobs, total, -1);
}

static void print(const struct redis_fsck_report *report, bool json)
{
    struct buffer text;
    buffer_init(&text, REPORT_BYTES_MAX);
    if (json)
        redis_fsck_emit_json(&text, report);
    else
        redis_fsck_emit_text(&text, report);
    fwrite(text.at, 1, text.len, stdout);
    if (text.len > 0 && text.at[text.len - 1] != '\n')
        putchar('\n');
    buffer_fini(&text);
}

int fsck_redis(const char *store, const char *password_file, bool repair, bool json)
{
    static struct redis_fsck_report report; /* too large for the stack */
    char url[REDIS_URL_BYTES_MAX];
    progress_begin("checked", false);
    const struct redis_fsck_options options = {
        .url = url, .repair = repair, .progress = progress_is_on() ? on_progress : NULL};
    int exit_code = redis_store_url(store, password_file, url);
    if (exit_code != CLI_OK)
        return exit_code;
    int result = redis_fsck_run(&options, &report);
    explicit_bzero(url, sizeof url);
    progress_clear();
    if (json || report.shards)
        print(&report, json);
    if (result != 0)
        exit_code = cli_store_error(result, report.error);
    else if (report.finding_count > report.mended)
        exit_code = CLI_REFUSED;
    redis_fsck_report_fini(&report);
    return exit_code;
}
