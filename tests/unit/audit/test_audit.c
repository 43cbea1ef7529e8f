/* The audit's file, read back: one line an event, whatever is in it, and what a full disk does. */
#include "audit/audit.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/log.h"
#include "unit/cases.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOW_MS INT64_C(1795165200123)

static char dir[] = "/tmp/tarry-audit-XXXXXX", path[64], moved[64], log_path[64];
static char content[1 << 16];

static int setup(void **state)
{
    (void)state;
    clock_fake_start(NOW_MS, NOW_MS);
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/audit", dir);
    snprintf(moved, sizeof moved, "%s/audit.1", dir);
    snprintf(log_path, sizeof log_path, "%s/log", dir);
    return log_open(log_path, LOG_INFO, false) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    audit_close();
    unlink(path);
    unlink(moved);
    unlink(log_path);
    clock_fake_end();
    return rmdir(dir);
}

static void start(void)
{
    unlink(path);
    unlink(moved);
    assert_int_equal(truncate(log_path, 0), 0);
    assert_true(audit_open(path));
}

static const char *written(const char *from)
{
    int fd = open(from, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, content, sizeof content - 1);
    assert_true(len >= 0);
    close(fd);
    content[len] = '\0';
    return content;
}

static const struct audit_event purge = {.action = "topic purged",
                                         .caller = "anna",
                                         .kind = "token",
                                         .peer = "10.0.0.7:4711",
                                         .topic = "orders",
                                         .counts_jobs = true,
                                         .jobs = 12,
                                         .outcome = AUDIT_OUTCOME_OK};

static const char purge_line[] =
    "{\"time\":\"2026-11-20T09:00:00.123Z\",\"action\":\"topic purged\",\"caller\":\"anna\","
    "\"kind\":\"token\",\"peer\":\"10.0.0.7:4711\",\"topic\":\"orders\",\"jobs\":12,"
    "\"outcome\":\"ok\"}\n";

static void writes_one_line_to_file_and_log(void **state)
{
    (void)state;
    uint64_t before = audit_events();
    start();
    audit_event(&purge);
    assert_string_equal(written(path), purge_line);
    assert_string_equal(written(log_path),
                        "time=2026-11-20T09:00:00.123Z level=info event=audit "
                        "action=\"topic purged\" caller=anna kind=token peer=10.0.0.7:4711 "
                        "topic=orders outcome=ok jobs=12\n");
    assert_int_equal(audit_events(), before + 1);
}

static void omits_members_that_do_not_apply(void **state)
{
    (void)state;
    start();
    audit_event(&(struct audit_event){.action = "drain begun", .outcome = "unavailable"});
    assert_string_equal(written(path),
                        "{\"time\":\"2026-11-20T09:00:00.123Z\",\"action\":\"drain begun\","
                        "\"outcome\":\"unavailable\"}\n");
    assert_non_null(strstr(written(log_path), "level=warn event=audit action=\"drain begun\""));
}

static void no_text_begins_a_line(void **state)
{
    static const char evil[] = "x\"}\n{\"action\":\"forged\"\r\n\x7f\xc2\x85\xe2\x80\xa8\xff\\";
    struct audit_event event = purge;
    struct json_value value;
    (void)state;
    start();
    event.caller = event.peer = event.topic = event.detail = event.kind = evil;
    audit_event(&event);
    const char *file = written(path);
    assert_ptr_equal(strchr(file, '\n'), file + strlen(file) - 1);
    assert_true(json_check(slice_make(file, strlen(file) - 1), &value, NULL));
    const char *log = written(log_path);
    assert_ptr_equal(strchr(log, '\n'), log + strlen(log) - 1);
    assert_null(strchr(log, '\r'));
}

static void other_users_cannot_read_the_file(void **state)
{
    struct stat status;
    (void)state;
    (void)umask(0);
    start();
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void a_moved_audit_file_is_recreated(void **state)
{
    (void)state;
    start();
    audit_event(&purge);
    assert_int_equal(rename(path, moved), 0);
    audit_event(&purge);
    assert_true(audit_reopen());
    audit_event(&purge);
    assert_string_equal(written(path), purge_line);
    assert_int_equal(strlen(written(moved)), 2 * strlen(purge_line));
}

static void a_full_disk_is_logged_once_and_leaves_no_partial_line(void **state)
{
    struct rlimit all, little;
    uint64_t before = audit_failures();
    (void)state;
    start();
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    little = all;
    little.rlim_cur = sizeof purge_line - 1 + 20;
    audit_event(&purge);
    assert_int_equal(truncate(log_path, 0), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    audit_event(&purge); /* the first twenty bytes of it */
    audit_event(&purge);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(audit_failures(), before + 2);
    audit_event(&purge);
    audit_event(&purge);
    assert_int_equal(audit_failures(), before + 2);
    const char *file = written(path);
    assert_memory_equal(file, purge_line, sizeof purge_line - 1);
    file += sizeof purge_line - 1;
    assert_memory_equal(file, purge_line, 20);
    assert_int_equal(file[20], '\n');
    assert_memory_equal(file + 21, purge_line, sizeof purge_line - 1);
    assert_string_equal(file + 21 + sizeof purge_line - 1, purge_line);
    assert_non_null(strstr(written(log_path), "event=\"the audit file is written again\""));
}

static size_t count_of(const char *text)
{
    size_t count = 0;
    for (const char *at = written(path); (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* Returns the number of events in the caller's summary; 0 without a summary. */
static unsigned long left_out_of(const char *caller)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "\"action\":\"events left out\",\"caller\":\"%s\"", caller);
    const char *at = strstr(written(path), wanted);
    const char *number = at ? strstr(at, "\"left_out\":") : NULL;
    return number ? strtoul(number + sizeof "\"left_out\":" - 1, NULL, 10) : 0;
}

static void repeat(const char *caller, const char *outcome, int times)
{
    for (int i = 0; i < times; i++)
        audit_event(&(struct audit_event){
            .action = "topic deleted", .caller = caller, .kind = "token", .outcome = outcome});
}

static void refused_calls_at_any_rate_are_few_lines_and_a_number(void **state)
{
    (void)state;
    start();
    int64_t began_ms = clock_boot_ms();
    repeat("flood", "not_found", 1000);
    repeat("other", "forbidden", 1);
    size_t more = (size_t)(clock_boot_ms() - began_ms) * AUDIT_REFUSED_PER_S / 1000 +
                  1; /* on a slow machine */
    size_t count = count_of("\"caller\":\"flood\"");
    assert_in_range(count, AUDIT_REFUSED_BURST, AUDIT_REFUSED_BURST + more);
    assert_int_equal(count_of("\"caller\":\"other\""), 1); /* no other caller is left out */
    assert_true(audit_log_left_out());
    assert_int_equal(left_out_of("flood"), 1000 - count);
    assert_int_equal(left_out_of("other"), 0);
    assert_false(audit_log_left_out());
}

static void completed_changes_are_always_written(void **state)
{
    (void)state;
    start();
    repeat("busy", AUDIT_OUTCOME_OK, 300);
    assert_int_equal(count_of("\"caller\":\"busy\""), 300);
    assert_false(audit_log_left_out());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_one_line_to_file_and_log),
        cmocka_unit_test(omits_members_that_do_not_apply),
        cmocka_unit_test(no_text_begins_a_line),
        cmocka_unit_test(other_users_cannot_read_the_file),
        cmocka_unit_test(a_moved_audit_file_is_recreated),
        cmocka_unit_test(refused_calls_at_any_rate_are_few_lines_and_a_number),
        cmocka_unit_test(completed_changes_are_always_written),
        cmocka_unit_test(a_full_disk_is_logged_once_and_leaves_no_partial_line),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
