/* The log, read back from the file it wrote. */
#include "base/log.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOW_MS INT64_C(1795165200123)
#define HEAD "time=2026-11-20T09:00:00.123Z level=info event="

static char dir[] = "/tmp/tarry-log-XXXXXX", path[64], moved[64];
static char content[1 << 20];

static int setup(void **state)
{
    (void)state;
    clock_fake_start(NOW_MS, NOW_MS);
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(moved, sizeof moved, "%s/log.1", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(moved);
    clock_fake_end();
    return rmdir(dir);
}

static void start(enum log_level least, bool json)
{
    unlink(path);
    assert_true(log_open(path, least, json));
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

CLAIM(writes_an_event_without_fields)
{
    start(LOG_INFO, false);
    log_event(LOG_INFO, "started");
    assert_string_equal(written(path), HEAD "started\n");
}

CLAIM(quotes_only_values_with_special_characters)
{
    static const struct {
        const char *text, *written, *sentence;
    } rows[] = {
        {"127.0.0.1:8279", "127.0.0.1:8279", "plain text stays plain"},
        {"", "\"\"", "nothing is quoted"},
        {NULL, "\"\"", "a text that is missing is nothing"},
        {"two words", "\"two words\"", "a blank"},
        {"a=b", "\"a=b\"", "an equals sign"},
        {"say \"hi\"", "\"say \\\"hi\\\"\"", "quotes"},
        {"C:\\", "\"C:\\\\\"", "a backslash"},
        {"x\nlevel=error event=forged", "\"x\\nlevel=error event=forged\"", "a line break"},
        {"\x1b[31m\r\x7f", "\"\\u001b[31m\\u000d\\u007f\"", "control bytes"},
        {"caf\xc3\xa9", "\"caf\xc3\xa9\"", "UTF-8"},
        {"\xc2\x9b"
         "31m",
         "\"\\u009b31m\"", "a control that a terminal takes in UTF-8"},
        {"a\xe2\x80\xae"
         "b",
         "\"a\\u202eb\"", "an override of direction"},
        {"a\xe2\x80\xa8"
         "b",
         "\"a\\u2028b\"", "a line separator"},
        {"a\xff\xc3", "\"a\\xff\\xc3\"", "bytes that are no UTF-8"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[200];
        start(LOG_INFO, false);
        log_event(LOG_INFO, "seen", LOG_TEXT("text", rows[i].text), LOG_NUMBER("n", -7));
        snprintf(expected, sizeof expected, HEAD "seen text=%s n=-7\n", rows[i].written);
        CASE_HOLDS(rows[i].sentence, strcmp(written(path), expected) == 0);
    }
}

CLAIM(writes_json_that_is_json)
{
    struct json_value line;

    start(LOG_INFO, true);
    log_event(LOG_WARN, "job dead", LOG_TEXT("id", "a\"\n\xff"), LOG_NUMBER("attempt", 16));
    const char *text = written(path);
    assert_string_equal(text,
                        "{\"time\":\"2026-11-20T09:00:00.123Z\",\"level\":\"warn\","
                        "\"event\":\"job dead\",\"id\":\"a\\\"\\n\xef\xbf\xbd\",\"attempt\":16}\n");
    assert_true(json_check(slice_of(text), &line, NULL));
}

CLAIM(json_escapes_terminal_control_characters)
{
    static const struct {
        const char *text, *written, *sentence;
    } rows[] = {
        {"a\x7f", "\"a\\u007f\"", "DEL"},
        {"\xc2\x9b"
         "31m",
         "\"\\u009b31m\"", "a C1 control"},
        {"a\xe2\x80\xae"
         "b",
         "\"a\\u202eb\"", "an override of direction"},
        {"a\xe2\x80\xa8"
         "b",
         "\"a\\u2028b\"", "a line separator"},
        {"caf\xc3\xa9", "\"caf\xc3\xa9\"", "letters stay"},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"", "characters of four bytes stay"},
        {"\xc2"
         "A",
         "\"\xef\xbf\xbd"
         "A\"",
         "half a character"},
    };
    struct json_value line;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char expected[100];
        start(LOG_INFO, true);
        log_event(LOG_INFO, "seen", LOG_TEXT("text", rows[i].text));
        const char *text = written(path);
        snprintf(expected, sizeof expected, ",\"text\":%s}\n", rows[i].written);
        CASE_HOLDS(rows[i].sentence, strstr(text, expected) != NULL);
        CASE_HOLDS(rows[i].sentence, json_check(slice_of(text), &line, NULL));
    }
}

CLAIM(cuts_long_text_between_characters)
{
    char text[400];

    memset(text, 'x', sizeof text);
    memcpy(text + 254, "\xe2\x82\xac", 3);
    text[399] = '\0';
    start(LOG_INFO, false);
    log_event(LOG_INFO, "seen", LOG_TEXT("text", text));
    assert_int_equal(strlen(written(path)), strlen(HEAD "seen text=\n") + 254);
    memset(text, 'y', 256);
    text[256] = '\0';
    start(LOG_INFO, false);
    log_event(LOG_INFO, "seen", LOG_TEXT("text", text));
    assert_int_equal(strlen(written(path)), strlen(HEAD "seen text=\n") + 256);
}

CLAIM(omits_messages_below_its_level)
{
    start(LOG_WARN, false);
    log_event(LOG_DEBUG, "one");
    log_event(LOG_INFO, "two");
    log_event(LOG_WARN, "three");
    log_event(LOG_ERROR, "four");
    const char *text = written(path);
    assert_null(strstr(text, "one"));
    assert_null(strstr(text, "two"));
    assert_non_null(strstr(text, "level=warn event=three\n"));
    assert_non_null(strstr(text, "level=error event=four\n"));
}

CLAIM(continues_in_a_new_file_after_rotation)
{
    start(LOG_INFO, false);
    log_event(LOG_INFO, "before");
    assert_int_equal(rename(path, moved), 0);
    log_event(LOG_INFO, "between");
    assert_true(log_reopen());
    log_event(LOG_INFO, "after");
    assert_string_equal(written(path), HEAD "after\n");
    assert_string_equal(written(moved), HEAD "before\n" HEAD "between\n");
}

CLAIM(keeps_the_old_log_when_a_file_cannot_be_opened)
{
    start(LOG_INFO, false);
    errno = 0;
    assert_false(log_open("/proc/nonexistent/log", LOG_ERROR, true));
    assert_int_equal(errno, ENOENT);
    log_event(LOG_INFO, "still here");
    assert_string_equal(written(path), HEAD "\"still here\"\n");
}

CLAIM(writes_sixteen_fields_and_no_more)
{
    struct log_field fields[20];

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        fields[i] = LOG_NUMBER("n", i);
    start(LOG_INFO, false);
    log_fields(LOG_INFO, "many", fields);
    assert_string_equal(written(path), HEAD "many n=0 n=1 n=2 n=3 n=4 n=5 n=6 n=7 n=8 n=9 n=10 "
                                            "n=11 n=12 n=13 n=14 n=15\n");
}

CLAIM(keeps_errno_unchanged)
{
    start(LOG_INFO, false);
    errno = EXDEV;
    log_event(LOG_INFO, "seen");
    assert_int_equal(errno, EXDEV);
}

static void *write_many(void *name)
{
    for (int i = 0; i < 500; i++)
        log_event(LOG_INFO, "seen", LOG_TEXT("by", name), LOG_TEXT("again", name));
    return NULL;
}

CLAIM(never_mixes_lines_of_two_threads)
{
    pthread_t threads[4];
    char names[4][9] = {"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"};
    int lines = 0;

    start(LOG_INFO, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    written(path);
    for (char *line = content, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        char by[9], again[9];
        assert_int_equal(sscanf(line, HEAD "seen by=%8s again=%8s\n", by, again), 2);
        assert_string_equal(by, again);
    }
    assert_int_equal(lines, 2000);
}

static void *change_format(void *is_over)
{
    for (bool json = false; !atomic_load((atomic_bool *)is_over); json = !json)
        log_set(LOG_INFO, json);
    return NULL;
}

CLAIM(never_mixes_two_formats_in_a_line)
{
    pthread_t threads[4], changer;
    char name[] = "a";
    atomic_bool is_over = false;
    struct json_value value;

    start(LOG_INFO, false);
    assert_int_equal(pthread_create(&changer, NULL, change_format, &is_over), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, name), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    is_over = true;
    pthread_join(changer, NULL);
    written(path);
    for (char *line = content, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (line[0] == '{')
            assert_true(json_check(slice_of(line), &value, NULL));
        else
            assert_string_equal(line, HEAD "seen by=a again=a");
    }
}

CLAIM(a_full_pipe_leaves_the_next_line_whole)
{
    int ends[2], own = dup(STDERR_FILENO);
    char filler[256], got[1 << 17];

    memset(filler, '.', sizeof filler);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    dup2(ends[1], STDERR_FILENO);
    bool is_open = log_open(NULL, LOG_INFO, false);
    /* A line of more than PIPE_BUF bytes is written in parts: here its second part has no room. */
    struct log_field fields[LOG_FIELDS_MAX + 1] = {0};
    for (int i = 0; i < LOG_FIELDS_MAX; i++)
        fields[i] = LOG_TEXT("text", filler);
    filler[sizeof filler - 1] = '\0';
    log_fields(LOG_INFO, "long", fields);
    ssize_t first = read(ends[0], got, sizeof got);
    log_event(LOG_INFO, "next");
    ssize_t second = read(ends[0], got + first, sizeof got - (size_t)first);
    dup2(own, STDERR_FILENO);
    close(own);
    close(ends[0]);
    close(ends[1]);
    assert_true(is_open && log_open(NULL, LOG_INFO, false));
    assert_int_equal(first, 4096);
    assert_true(second > 0);
    got[first + second] = '\0';
    assert_string_equal(got + first, "\n" HEAD "next\n");
}

/* Standard error is the file, and the environment names it as the journal, rightly or wrongly. */
static const char *reported_to_journal(bool json, bool lies)
{
    char stream[64];
    struct stat status;
    int own = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(fstat(fd, &status), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev,
             (uintmax_t)status.st_ino + lies);
    setenv("JOURNAL_STREAM", stream, 1);
    dup2(fd, STDERR_FILENO);
    bool is_open = log_open(NULL, LOG_DEBUG, json);
    log_event(LOG_DEBUG, "a");
    log_event(LOG_INFO, "b", LOG_NUMBER("n", 1));
    log_event(LOG_WARN, "c");
    log_event(LOG_ERROR, "d");
    dup2(own, STDERR_FILENO);
    close(own);
    close(fd);
    unsetenv("JOURNAL_STREAM");
    assert_true(is_open && log_open(NULL, LOG_INFO, false));
    return written(path);
}

CLAIM(the_journal_gets_priorities_and_no_time)
{
    assert_string_equal(reported_to_journal(false, false), "<7>level=debug event=a\n"
                                                           "<6>level=info event=b n=1\n"
                                                           "<4>level=warn event=c\n"
                                                           "<3>level=error event=d\n");
    assert_string_equal(reported_to_journal(true, false),
                        "<7>{\"level\":\"debug\",\"event\":\"a\"}\n"
                        "<6>{\"level\":\"info\",\"event\":\"b\",\"n\":1}\n"
                        "<4>{\"level\":\"warn\",\"event\":\"c\"}\n"
                        "<3>{\"level\":\"error\",\"event\":\"d\"}\n");
    assert_memory_equal(reported_to_journal(false, true), "time=", 5);
}

CLAIM(a_file_is_not_recognised_as_the_journal)
{
    setenv("JOURNAL_STREAM", "1:1", 1);
    start(LOG_INFO, false);
    unsetenv("JOURNAL_STREAM");
    log_event(LOG_INFO, "started");
    assert_string_equal(written(path), HEAD "started\n");
}

CLAIMS_MAIN(setup, teardown)
