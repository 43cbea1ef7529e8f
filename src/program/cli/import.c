/* import: pushes the lines of an export (dump.h), or any batch items, one per line, to a server. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/dump.h"
#include "cli/import_beanstalk.h"
#include "cli/import_state.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/private_file.h"
#include "cli/progress.h"
#include "cli/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- batches ---- */

/*
 * Batches of jobs in flight to a server, several at a time.
 *
 * A batch is filled line by line, sent, and retried if the server is unreachable or temporarily
 * full: a push by id creates one job even if it arrives several times. One thread.
 */

enum { IMPORT_UNDER_WAY = 4, IMPORT_ITEMS_MAX = 1000 };

/* The outcome of a line. A line that was stored by an attempt and exists at the next one counts by
 * the first. */
enum import_outcome { IMPORT_CREATED = 1, IMPORT_REPLACED, IMPORT_EXISTED, IMPORT_OUTCOMES };

struct import_item {
    uint64_t line;               /* line number, from 1 */
    size_t at, bytes;            /* in the batch's body, without the line end */
    bool has_choice;             /* the leading on_conflict was inserted here */
    enum import_outcome outcome; /* 0: not stored yet */
};

struct import_batch {
    struct client client;
    struct buffer body;
    struct import_item items[IMPORT_ITEMS_MAX];
    size_t count;
    bool under_way;
    bool is_sent; /* and its answer has not arrived */
    struct retry retry;
    int64_t again_ms; /* time of the next attempt; 0: sent to the server */
};

struct import_counts {
    uint64_t stored[IMPORT_OUTCOMES], refused;
    uint64_t finished; /* among the refused ones: finished jobs */
};

/*
 * Members of batches whose waiting job comes later in the input: each line with its number, in a temporary file without a name.
 * They are imported after the end of the input, as often as this stores at least one of them, since the waiting job may be a
 * member itself.
 */
struct aside {
    FILE *lines; /* NULL: no line, or no line is set aside any more */
    uint64_t count, first_line;
    bool is_over;
};

struct import_batches {
    CURLM *multi;
    struct import_batch batches[IMPORT_UNDER_WAY];
    struct import_batch *filling; /* NULL: no batch */
    uint64_t bytes_max;           /* maximum size of one batch, given by the server */
    const char *on_conflict;
    struct retry retry; /* initial value for each batch */
    struct import_counts counts;
    FILE *rejects;         /* NULL: rejected lines are not stored */
    uint64_t rejects_lost; /* number of lines that could not be written */
    struct aside aside;
    int exit_code; /* if not CLI_OK, no more batches are sent */
};

enum {
    SEND_BYTES = 2 << 20, /* a batch is sent when it reaches this size */
    CHOICE_BYTES_MAX = 64,
    STEP_MS = 50,
    LAST_ANSWERS_MS = 10 * 1000 /* wait for answers in transit after a failure */
};

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

/* Opens the connections. Returns false after printing an error. */
static bool import_batches_open(struct import_batches *batches, const char *url)
{
    batches->multi = curl_multi_init();
    if (!batches->multi)
        return cli_error("out of memory"), false;
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!client_open(&batch->client, url))
            return false;
        buffer_init(&batch->body, batches->bytes_max + CHOICE_BYTES_MAX);
    }
    return true;
}

static void import_batches_close(struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!batch->client.curl)
            continue;
        curl_multi_remove_handle(batches->multi, batch->client.curl);
        client_close(&batch->client);
        buffer_fini(&batch->body);
    }
    curl_multi_cleanup(batches->multi);
}

/* ---- results ---- */

static void import_keep_reject(struct import_batches *batches, struct slice text)
{
    if (batches->rejects && (fwrite(text.at, 1, text.len, batches->rejects) != text.len ||
                             fputc('\n', batches->rejects) == EOF))
        batches->rejects_lost++;
}

/* Handles a rejected line: prints it on standard error and writes it to the file of rejects. */
static void import_refuse(struct import_batches *batches, struct slice text, uint64_t line,
                          const char *code, const char *detail)
{
    batches->counts.refused++;
    progress_clear();
    fprintf(stderr, "line %llu refused: %s%s%s\n", (unsigned long long)line, code,
            detail ? ", " : "", detail ? detail : "");
    import_keep_reject(batches, text);
}

/* Sets a line aside. Returns false if that is not possible. */
static bool set_aside(struct import_batches *batches, struct slice text, uint64_t line)
{
    struct aside *aside = &batches->aside;
    if (aside->is_over || (!aside->lines && !(aside->lines = tmpfile())))
        return false;
    if (fprintf(aside->lines, "%llu ", (unsigned long long)line) < 0 ||
        fwrite(text.at, 1, text.len, aside->lines) != text.len || fputc('\n', aside->lines) == EOF)
        return false;
    if (!aside->count++ || line < aside->first_line)
        aside->first_line = line;
    return true;
}

/* Returns the line as it was in the input. */
static struct slice line_of(const struct import_batches *batches, struct import_batch *batch,
                            const struct import_item *item)
{
    char *at = batch->body.at + item->at;
    size_t ours = strlen(batches->on_conflict) + sizeof "\"on_conflict\":\"\"," - 1;
    if (!item->has_choice)
        return slice_make(at, item->bytes);
    at[ours] = '{'; /* overwrites the end of the insertion; the batch is not sent again */
    return slice_make(at + ours, item->bytes - ours);
}

/* Notes which lines are stored, also by earlier attempts. */
static void note_outcomes(struct import_batch *batch, const json_t *results)
{
    static const char *const codes[IMPORT_OUTCOMES] = {
        [IMPORT_CREATED] = "created", [IMPORT_REPLACED] = "replaced", [IMPORT_EXISTED] = "existed"};
    for (size_t i = 0; i < batch->count; i++) {
        const json_t *result = json_array_get(results, i);
        const char *code = json_string_value(json_object_get(result, "result"));
        struct import_item *item = &batch->items[i];
        for (int outcome = 1; code && !item->outcome && outcome < IMPORT_OUTCOMES; outcome++)
            if (strcmp(code, codes[outcome]) == 0)
                item->outcome = (enum import_outcome)outcome;
    }
}

/* Counts the lines of a batch that are stored. */
static void count_stored(struct import_batches *batches, const struct import_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        batches->counts.stored[batch->items[i].outcome] += batch->items[i].outcome != 0;
}

/* Counts a line that was rejected and writes it to the rejects. */
static void count_rejected(struct import_batches *batches, struct import_batch *batch, size_t i,
                           const json_t *result)
{
    const char *code = json_string_value(json_object_get(result, "result"));
    const struct import_item *item = &batch->items[i];
    if (item->outcome)
        return;
    struct slice text = line_of(batches, batch, item);
    bool has_no_batch = code && strcmp(code, "no_batch") == 0;
    if (!has_no_batch || !set_aside(batches, text, item->line))
        import_refuse(batches, text, item->line, code ? code : "no result",
                      json_string_value(json_object_get(result, "detail")));
}

/* Returns whether the failure is temporary: the job is valid. */
static bool is_passing(const json_t *result)
{
    const char *code = json_string_value(json_object_get(result, "result"));
    return code && retry_helps_code(code);
}

static const json_t *passing_fault(const json_t *results)
{
    for (size_t i = 0; i < json_array_size(results); i++)
        if (is_passing(json_array_get(results, i)))
            return json_array_get(results, i);
    return NULL;
}

static void batches_fail(struct import_batches *batches, int exit_code)
{
    if (batches->exit_code == CLI_OK)
        batches->exit_code = exit_code;
}

static bool try_again(const struct import_batches *batches, struct import_batch *batch)
{
    int64_t pause_ms = interrupt_came() ? -1 : retry_pause_ms(&batch->retry);
    if (pause_ms < 0 || batches->exit_code != CLI_OK)
        return false;
    batch->again_ms = now_ms() + pause_ms;
    return true;
}

/* Processes the answer to a batch. A batch with a temporary failure is sent again as a whole. */
static void take_results(struct import_batches *batches, struct import_batch *batch)
{
    const json_t *results = json_object_get(batch->client.json, "results");
    const json_t *fault = passing_fault(results);
    if (json_array_size(results) != batch->count) {
        batches_fail(batches,
                     cli_error("unexpected answer from '%s', check that it is a tarry server",
                               batch->client.shown));
        return;
    }
    note_outcomes(batch, results);
    if (fault) {
        if (!try_again(batches, batch))
            batches_fail(batches, cli_error("the server has accepted no jobs for some time, %s",
                                            json_string_value(json_object_get(fault, "result"))));
        return;
    }
    count_stored(batches, batch);
    for (size_t i = 0; i < batch->count; i++)
        count_rejected(batches, batch, i, json_array_get(results, i));
    batch->under_way = false;
}

/* Ends a transfer: the batch is answered, is sent again, or ends the import. */
static void end_transfer(struct import_batches *batches, struct import_batch *batch, CURLcode code)
{
    curl_multi_remove_handle(batches->multi, batch->client.curl);
    batch->is_sent = false;
    bool is_passing = retry_helps(&batch->client, code);
    if (is_passing && (batches->exit_code != CLI_OK || try_again(batches, batch)))
        return;
    if (is_passing)
        progress_clear();
    int exit_code = client_finish(&batch->client, code);
    if (exit_code == CLI_OK)
        take_results(batches, batch);
    else
        batches_fail(batches, exit_code);
}

/* ---- batches in flight ---- */

static void send_batch(struct import_batches *batches, struct import_batch *batch)
{
    struct slice body = buffer_slice(&batch->body);
    batch->under_way = true;
    batch->again_ms = 0;
    struct buffer *url = client_begin(&batch->client);
    cli_url_add_segment(url, "jobs");
    cli_url_add_query(url, "restore", "true");
    client_add_header(&batch->client, "Content-Type: application/x-ndjson");
    if (!client_prepare(&batch->client, "POST", &body, 60 * 1000)) {
        batches_fail(batches, CLI_REFUSED);
        return;
    }
    curl_easy_setopt(batch->client.curl, CURLOPT_PRIVATE, batch);
    curl_multi_add_handle(batches->multi, batch->client.curl);
    batch->is_sent = true;
}

static void send_again(struct import_batches *batches)
{
    int64_t now = now_ms();
    if (batches->exit_code != CLI_OK)
        return;
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!batch->under_way || !batch->again_ms)
            continue;
        progress_wait("the server");
        if (batch->again_ms <= now)
            send_batch(batches, batch);
    }
}

/* Runs the transfers until one ends, `fd` is readable (-1: no descriptor), or STEP_MS passes. */
static void batches_step(struct import_batches *batches, int fd)
{
    struct curl_waitfd also = {.fd = fd, .events = CURL_WAIT_POLLIN};
    int running, left;
    send_again(batches);
    curl_multi_perform(batches->multi, &running);
    curl_multi_poll(batches->multi, &also, fd >= 0 ? 1 : 0, STEP_MS, NULL);
    curl_multi_perform(batches->multi, &running);
    for (const CURLMsg *message; (message = curl_multi_info_read(batches->multi, &left));) {
        struct import_batch *batch;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &batch);
        end_transfer(batches, batch, message->data.result);
    }
}

static struct import_batch *find_free(struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (!batches->batches[i].under_way)
            return &batches->batches[i];
    return NULL;
}

static bool is_any_sent(const struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (batches->batches[i].is_sent)
            return true;
    return false;
}

static bool is_any_under_way(const struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (batches->batches[i].under_way)
            return true;
    return false;
}

static void batches_flush(struct import_batches *batches)
{
    if (batches->filling && batches->filling->count)
        send_batch(batches, batches->filling);
    batches->filling = NULL;
}

static void need_batch(struct import_batches *batches)
{
    while (!batches->filling && batches->exit_code == CLI_OK) {
        batches->filling = find_free(batches);
        if (!batches->filling)
            batches_step(batches, -1);
    }
}

/* Adds a job's line, a JSON object without its line end. May wait for a free batch. */
static void import_batches_add(struct import_batches *batches, struct slice text, uint64_t line,
                               bool has_choice)
{
    if (batches->filling && (batches->filling->count == IMPORT_ITEMS_MAX ||
                             batches->filling->body.len + text.len > SEND_BYTES))
        batches_flush(batches);
    bool is_fresh = !batches->filling;
    need_batch(batches);
    struct import_batch *batch = batches->filling;
    if (!batch)
        return;
    if (is_fresh) {
        buffer_clear(&batch->body);
        batch->count = 0;
        batch->retry = batches->retry;
    }
    struct import_item *item = &batch->items[batch->count++];
    *item = (struct import_item){.line = line, .at = batch->body.len, .has_choice = !has_choice};
    if (!has_choice) {
        buffer_append_format(&batch->body, "{\"on_conflict\":\"%s\",", batches->on_conflict);
        text = slice_make(text.at + 1, text.len - 1);
    }
    buffer_append_slice(&batch->body, text);
    item->bytes = batch->body.len - item->at;
    buffer_append_byte(&batch->body, '\n');
    if (batch->body.failed)
        batches_fail(batches, cli_error("out of memory"));
}

/* Waits until a transfer progresses or `fd` is readable. A partial batch is sent if no other
 * batch is in flight. */
static void import_batches_wait(struct import_batches *batches, int fd)
{
    if (!is_any_under_way(batches)) /* otherwise the batch may still grow */
        batches_flush(batches);
    batches_step(batches, fd);
}

/* Waits until all added jobs are stored, rejected, or have failed. After a failure, still counts
 * what the server has stored. */
static void import_batches_drain(struct import_batches *batches)
{
    if (batches->exit_code == CLI_OK)
        batches_flush(batches);
    while (batches->exit_code == CLI_OK && is_any_under_way(batches))
        batches_step(batches, -1);
    int64_t until_ms = now_ms() + LAST_ANSWERS_MS;
    while (is_any_sent(batches) && now_ms() < until_ms)
        batches_step(batches, -1);
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (batches->batches[i].under_way)
            count_stored(batches, &batches->batches[i]);
}

/* Returns the number of leading lines that are complete, given the number of lines read. */
static uint64_t import_batches_done(const struct import_batches *batches, uint64_t read)
{
    uint64_t done = read;
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        const struct import_batch *batch = &batches->batches[i];
        bool is_open = batch->under_way || batch == batches->filling;
        if (is_open && batch->count && batch->items[0].line - 1 < done)
            done = batch->items[0].line - 1;
    }
    if (batches->aside.count && batches->aside.first_line - 1 < done)
        done = batches->aside.first_line - 1;
    return done;
}

/* Completeness check of the export that is being read. Several exports may follow each other. */
struct import_whole {
    bool has_head, has_end;
    bool has_lines; /* at least one line was read */
    uint64_t topics, jobs, finished;
    char fault[192]; /* the first sign of missing lines; empty if there is no sign */
};

struct import {
    struct import_batches batches;
    struct import_state state;
    struct client client;
    struct retry retry;
    const char *path; /* "-": standard input */
    struct lines in;
    uint64_t skip, lines, topics;
    uint64_t jobs_total;         /* from the head; 0: unknown */
    uint64_t bytes, bytes_total; /* total 0: unknown */
    struct import_whole whole;
    uint64_t
        first_aside; /* the first line of the pass that is not complete over lines set aside; 0: none */
    bool is_over;        /* the end of the input was reached, and no line is set aside */
    bool is_other_input; /* the input is not the one of the saved state */
    bool wants_all_settings;
};

/* ---- topics ---- */

/* Members of the settings of a topic that not every store has (docs/flow.md). */
static const char *const optional_settings[] = {"limit",          "rate",        "burst",
                                                "group_limit",    "group_rate",  "group_burst",
                                                "group_max_jobs", "group_order", "one_shard"};
enum { OPTIONAL_SETTINGS = sizeof optional_settings / sizeof optional_settings[0] };

static int send_settings(struct import *import, const char *topic, const struct slice *settings)
{
    struct client *client = &import->client;
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, topic);
    client_add_header(client, "Content-Type: application/json");
    return retry_call(&import->retry, client, "PUT", settings);
}

/* Removes the settings that the store lacks by the answer of the server, and reports them: the one that the answer names, or all that are optional. Returns false if the topic has no such setting. */
static bool leave_out(const struct import *import, const char *topic, json_t *settings)
{
    const char *problem = import->client.problem;
    bool is_all = strstr(problem, "does not have groups") != NULL, has_left_out = false;
    for (size_t i = 0; i < OPTIONAL_SETTINGS; i++) {
        char quoted[32];
        (void)snprintf(quoted, sizeof quoted, "'%s'", optional_settings[i]);
        if ((!is_all && !strstr(problem, quoted)) ||
            json_object_del(settings, optional_settings[i]) != 0)
            continue;
        has_left_out = true;
        progress_clear();
        fprintf(stderr,
                "line %llu: '%s' of the topic '%s' is left out, the server's store lacks it\n",
                (unsigned long long)import->lines, optional_settings[i], topic);
    }
    return has_left_out;
}

/* Sets a topic. Settings that the store lacks are left out, unless --all-settings is given. */
static int put_settings(struct import *import, const struct dump_line *line)
{
    struct client *client = &import->client;
    client->is_silent = true;
    int exit_code = send_settings(import, line->topic, &line->settings);
    json_t *settings = json_loadb(line->settings.at, line->settings.len, 0, NULL);
    while (exit_code != CLI_OK && client->status == 501 && !import->wants_all_settings &&
           settings && leave_out(import, line->topic, settings)) {
        char *text = json_dumps(settings, JSON_COMPACT);
        struct slice body = slice_of(text ? text : "");
        if (!text)
            break;
        exit_code = send_settings(import, line->topic, &body);
        free(text);
    }
    json_decref(settings);
    client->is_silent = false;
    if (exit_code != CLI_OK)
        cli_error("%s", client->problem);
    return exit_code;
}

/* Creates or updates a topic with these settings. If it was paused at the export, it is paused
 * until the same time, or until it is resumed manually. */
static int put_topic(struct import *import, const struct dump_line *line)
{
    struct client *client = &import->client;
    struct buffer *target;
    int exit_code = put_settings(import, line);
    int64_t left_ms = line->paused_until_ms - clock_wall_ms();
    bool is_over = line->paused_until_ms && left_ms <= 0;
    if (exit_code != CLI_OK || !line->paused || is_over)
        return exit_code;
    target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, line->topic);
    cli_url_add_segment(target, "pause");
    if (line->paused_until_ms)
        cli_url_add_query_ms(target, "for", left_ms < 1000 ? 1000 : left_ms);
    return retry_call(&import->retry, client, "POST", NULL);
}

/* Replaces the settings of a group. */
static int put_group(struct import *import, const struct dump_line *line)
{
    struct client *client = &import->client;
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, line->topic);
    cli_url_add_segment(target, "groups");
    cli_url_add_segment(target, line->group);
    client_add_header(client, "Content-Type: application/json");
    return retry_call(&import->retry, client, "PUT", &line->settings);
}

/* Imports the settings of a topic or of a group. What the store of the server lacks (501) is rejected like other errors of the line. */
static void import_settings(struct import *import, struct slice text, const struct dump_line *line)
{
    struct import_batches *batches = &import->batches;
    bool is_group = line->kind == DUMP_GROUP;
    progress_clear();
    int exit_code = is_group ? put_group(import, line) : put_topic(import, line);
    if (exit_code == CLI_OK) {
        import->topics += !is_group;
    } else if (exit_code == CLI_UNREACHABLE ||
               (import->client.status >= 500 && import->client.status != 501)) {
        batches->exit_code = exit_code;
        import->lines--; /* not done */
    } else {
        import_refuse(batches, text, import->lines,
                      is_group ? "the group cannot be set" : "the topic cannot be set", NULL);
    }
}

/* ---- completeness of the export ---- */

static void whole_lacks(struct import_whole *whole, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void whole_lacks(struct import_whole *whole, const char *format, ...)
{
    va_list args;
    if (whole->fault[0])
        return;
    va_start(args, format);
    (void)vsnprintf(whole->fault, sizeof whole->fault, format, args);
    va_end(args);
}

/* Checks the counts in the end line against the lines since the first line of the export. */
static void whole_check_end(struct import_whole *whole, const struct dump_line *end)
{
    if (!whole->has_head)
        whole_lacks(whole, "it has an end line but not the first line of an export");
    else if (whole->jobs != end->jobs || whole->topics != end->topic_lines)
        whole_lacks(whole,
                    "its end line has %llu jobs of %llu topics, but the file has %llu of %llu",
                    (unsigned long long)end->jobs, (unsigned long long)end->topic_lines,
                    (unsigned long long)whole->jobs, (unsigned long long)whole->topics);
    else if (whole->finished != end->finished_lines)
        whole_lacks(whole, "its end line has %llu finished jobs, but the file has %llu",
                    (unsigned long long)end->finished_lines, (unsigned long long)whole->finished);
}

/* Checks a line. Every line is added, including skipped ones. */
static void whole_add(struct import_whole *whole, const struct dump_line *line, uint64_t number)
{
    whole->has_lines = true;
    if (line->kind == DUMP_HEAD) {
        if (whole->has_head && !whole->has_end)
            whole_lacks(whole, "another one begins at line %llu, before its end line",
                        (unsigned long long)number);
        whole->has_head = true;
        whole->has_end = false;
        whole->topics = whole->jobs = whole->finished = 0;
        return;
    }
    if (whole->has_end)
        whole_lacks(whole, "its end line is not the last line, line %llu follows it",
                    (unsigned long long)number);
    whole->topics += line->kind == DUMP_TOPIC;
    whole->jobs += line->kind == DUMP_JOB;
    whole->finished += line->kind == DUMP_FINISHED;
    if (line->kind == DUMP_END) {
        whole_check_end(whole, line);
        whole->has_end = true;
    }
}

/* Returns an exit code, and prints an error if the export is incomplete. Existing lines have
 * been imported by then. */
static int whole_evaluate(const struct import_whole *whole, const char *path)
{
    if (!whole->has_lines)
        return cli_error("'%s' is empty, there is nothing to import", path);
    if (whole->fault[0])
        return cli_error("'%s' is not a complete export: %s; copy it again or export again", path,
                         whole->fault);
    if (whole->has_head && !whole->has_end)
        return cli_error("'%s' is an interrupted export: complete it with 'tarry export --resume' "
                         "and import it again",
                         path);
    return CLI_OK;
}

/* ---- lines ---- */

static void import_job(struct import *import, struct slice text, const struct dump_line *line)
{
    if (text.len + 64 > import->batches.bytes_max)
        import_refuse(&import->batches, text, import->lines, "body_too_big",
                      "the line is longer than the server's limit of a batch");
    else
        import_batches_add(&import->batches, text, import->lines, line->has_on_conflict);
}

/* Rejects a finished job: a push can only create a job that will run. One message for all of them is enough. */
static void import_finished(struct import *import, struct slice text)
{
    struct import_batches *batches = &import->batches;
    if (batches->counts.finished++ == 0) {
        import_refuse(batches, text, import->lines, "finished_job",
                      "an import cannot store finished jobs; all of them are skipped");
        return;
    }
    batches->counts.refused++;
    import_keep_reject(batches, text);
}

static struct slice trimmed(const char *at, size_t len)
{
    while (len && (at[len - 1] == '\n' || at[len - 1] == '\r' || at[len - 1] == ' '))
        len--;
    while (len && *at == ' ')
        at++, len--;
    return slice_make(at, len);
}

static void import_head(struct import *import, const struct dump_line *line)
{
    import->jobs_total = line->jobs;
    if (line->version != 1)
        import->batches.exit_code =
            cli_error("'%s' is of a later version than this program", import->path);
}

/* Imports a line, unless it was imported before (--skip, --state). */
static void import_line(struct import *import, struct slice text)
{
    struct dump_line line;
    dump_read(text, &line);
    whole_add(&import->whole, &line, import->lines);
    if (line.kind == DUMP_HEAD)
        import_head(import, &line);
    if (import->lines <= import->skip)
        return;
    if (line.kind == DUMP_MALFORMED)
        import_refuse(&import->batches, text, import->lines, "bad_json",
                      "the line is not a JSON object");
    else if (line.kind == DUMP_TOPIC || line.kind == DUMP_GROUP)
        import_settings(import, text, &line);
    else if (line.kind == DUMP_FINISHED)
        import_finished(import, text);
    else if (line.kind == DUMP_JOB)
        import_job(import, text, &line);
}

/* Shows the progress. Skipped lines take no time, so the speed is measured after them. */
static void show_progress(const struct import *import)
{
    const struct import_counts *counts = &import->batches.counts;
    if (import->lines >= import->skip)
        progress_show(counts->stored[IMPORT_CREATED] + counts->stored[IMPORT_REPLACED] +
                          counts->stored[IMPORT_EXISTED],
                      import->skip ? 0 : import->jobs_total,
                      import->bytes_total ? (double)import->bytes / (double)import->bytes_total
                                          : -1);
}

/* Returns the number of leading lines that are complete. */
static uint64_t lines_done(const struct import *import)
{
    uint64_t done = import_batches_done(&import->batches, import->lines);
    return import->first_aside && import->first_aside - 1 < done ? import->first_aside - 1 : done;
}

/* Saves the state. The lines it counts are stored in the server or among the rejects. */
static void keep_state(struct import *import, bool now)
{
    struct import_batches *batches = &import->batches;
    if (!import->state.path)
        return;
    if (batches->rejects && fflush(batches->rejects) != 0) {
        batches->rejects_lost++;
        return;
    }
    int exit_code = import_state_keep(&import->state, lines_done(import), now);
    if (batches->exit_code == CLI_OK)
        batches->exit_code = exit_code;
}

static void read_line(struct import *import, struct slice line, size_t bytes)
{
    import->lines++;
    import->bytes += bytes;
    if (!import_state_add(&import->state, line, import->lines)) {
        import->is_other_input = true;
        import->batches.exit_code = CLI_REFUSED;
        return;
    }
    line = trimmed(line.at, line.len);
    if (line.len)
        import_line(import, line);
}

static void read_lines(struct import *import)
{
    struct import_batches *batches = &import->batches;
    enum lines_next next = LINES_ONE;
    struct slice line;
    size_t bytes;
    while (batches->exit_code == CLI_OK && !interrupt_came() &&
           (next = lines_next(&import->in, &line, &bytes)) <= LINES_NONE_YET) {
        show_progress(import);
        keep_state(import, false);
        if (next == LINES_NONE_YET)
            import_batches_wait(batches, import->in.fd);
        else
            read_line(import, line, bytes);
    }
    if (next == LINES_FAILED)
        batches->exit_code =
            cli_error("cannot read '%s', %s", import->path, strerror(import->in.error));
    import->is_over = next == LINES_OVER;
    import->is_other_input |= import->is_over && import->lines < import->skip;
    if (import->is_over && import->is_other_input)
        batches->exit_code =
            cli_error("'%s' ends before line %llu, where the import should continue", import->path,
                      (unsigned long long)import->skip);
}

/* Imports the lines that were set aside before. Lines are set aside again if their waiting job is still missing. */
static void import_aside(struct import *import, FILE *lines)
{
    struct import_batches *batches = &import->batches;
    struct dump_line line;
    char *text = NULL, *rest;
    size_t cap = 0;
    ssize_t got = 0;
    bool is_read = fflush(lines) == 0 && fseeko(lines, 0, SEEK_SET) == 0;
    while (is_read && batches->exit_code == CLI_OK && !interrupt_came() &&
           (got = getline(&text, &cap, lines)) > 0) {
        unsigned long long number = strtoull(text, &rest, 10);
        struct slice job = slice_make(rest + 1, (size_t)(text + got - 1 - (rest + 1)));
        dump_read(job, &line);
        import_batches_add(batches, job, number, line.has_on_conflict);
    }
    if ((!is_read || ferror(lines)) && batches->exit_code == CLI_OK)
        batches->exit_code = cli_error("cannot read the lines that were set aside");
    free(text);
}

/* Imports the lines that were set aside. The last pass rejects those that still have no batch. The lines stay those to
 * continue from until their pass is complete. */
static void import_all_aside(struct import *import)
{
    struct import_batches *batches = &import->batches;
    uint64_t before = UINT64_MAX;
    while (batches->exit_code == CLI_OK && import->is_over && batches->aside.count &&
           !interrupt_came()) {
        struct aside last = batches->aside;
        batches->aside = (struct aside){.is_over = last.count >= before};
        import->first_aside = last.first_line;
        import_aside(import, last.lines);
        import_batches_drain(batches);
        fclose(last.lines);
        before = last.count;
        import->is_over = batches->exit_code == CLI_OK && !interrupt_came();
    }
    import->is_over = import->is_over && !batches->aside.count;
    if (import->is_over)
        import->first_aside = 0;
    if (batches->aside.lines)
        fclose(batches->aside.lines);
}

/* ---- the complete import ---- */

/* Fetches the maximum batch size. This also checks that the server is reachable before any input
 * is read. */
static int learn_limits(struct import *import)
{
    cli_url_add_segment(client_begin(&import->client), "info");
    int exit_code = client_call(&import->client, "GET", NULL, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    json_int_t bytes = json_integer_value(
        json_object_get(json_object_get(import->client.json, "limits"), "batch_bytes"));
    if (bytes <= 0)
        return cli_error("unexpected answer from '%s', check that it is a tarry server",
                         import->client.shown);
    import->batches.bytes_max = (uint64_t)bytes;
    return CLI_OK;
}

static int open_files(struct import *import, const char *rejects)
{
    struct stat stat;
    bool is_input = strcmp(import->path, "-") == 0;
    lines_init(&import->in, is_input ? STDIN_FILENO : open(import->path, O_RDONLY | O_CLOEXEC));
    if (import->in.fd < 0)
        return cli_error("cannot read '%s', %s", import->path, strerror(errno));
    if (fstat(import->in.fd, &stat) == 0 && S_ISREG(stat.st_mode))
        import->bytes_total = (uint64_t)stat.st_size;
    if (rejects && !(import->batches.rejects = private_file_open(rejects, "a", 0)))
        return cli_error("cannot write '%s', %s", rejects, strerror(errno));
    return CLI_OK;
}

static int end_rejects(struct import *import, const char *rejects)
{
    bool is_kept = !import->batches.rejects_lost;
    if (import->batches.rejects && fclose(import->batches.rejects) != 0)
        is_kept = false;
    import->batches.rejects = NULL;
    return is_kept ? CLI_OK : cli_error("cannot write all rejected lines to '%s'", rejects);
}

static void print_how_to_continue(const struct import *import)
{
    uint64_t done = lines_done(import);
    if (import->state.kept_line)
        cli_error("stopped before the end of '%s', continue with --state '%s'", import->path,
                  import->state.path);
    else
        cli_error("stopped before the end of '%s', continue with --skip %llu", import->path,
                  (unsigned long long)done);
}

static void print_counts(const struct import_counts *counts, bool has_json)
{
    unsigned long long created = counts->stored[IMPORT_CREATED],
                       replaced = counts->stored[IMPORT_REPLACED],
                       existed = counts->stored[IMPORT_EXISTED], refused = counts->refused,
                       sum = created + replaced + existed;
    fprintf(stderr, "imported %llu job%s: %llu created, %llu replaced, %llu existed; %llu refused",
            sum, sum == 1 ? "" : "s", created, replaced, existed, refused);
    if (counts->finished)
        fprintf(stderr, ", of which %llu finished", (unsigned long long)counts->finished);
    fputc('\n', stderr);
    if (has_json)
        printf("{\"created\":%llu,\"replaced\":%llu,\"existed\":%llu,\"refused\":%llu}\n", created,
               replaced, existed, refused);
}

/* Prints the summary, and where to continue if the import is incomplete. */
static int import_conclude(struct import *import, bool has_json)
{
    const struct import_counts *counts = &import->batches.counts;
    progress_clear();
    if (import->is_other_input)
        return import->batches.exit_code;
    keep_state(import, true);
    bool is_cut = import->batches.exit_code != CLI_OK || !import->is_over;
    print_counts(counts, has_json);
    if (is_cut) {
        print_how_to_continue(import);
        return import->batches.exit_code != CLI_OK ? import->batches.exit_code : CLI_REFUSED;
    }
    import_state_remove(&import->state);
    int exit_code = whole_evaluate(&import->whole, import->path);
    return exit_code == CLI_OK && counts->refused ? CLI_REFUSED : exit_code;
}

static int import_run(struct import *import, const char *rejects, bool has_json)
{
    int exit_code = open_files(import, rejects);
    if (exit_code == CLI_OK)
        exit_code = learn_limits(import);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!import_batches_open(&import->batches, import->client.base))
        return CLI_REFUSED;
    interrupt_catch();
    read_lines(import);
    import_batches_drain(&import->batches);
    import_all_aside(import);
    exit_code = import_conclude(import, has_json);
    int lost = end_rejects(import, rejects);
    import_batches_close(&import->batches);
    return exit_code != CLI_OK ? exit_code : lost;
}

/* The options on the command line. */
struct import_options {
    const char *on_conflict, *rejects, *state; /* NULL: not given */
    uint64_t skip;
    struct cli_list tubes;
    bool is_dry, wants_all_settings;
};

static bool is_beanstalk(const char *path)
{
    return strncmp(path, "beanstalk://", strlen("beanstalk://")) == 0;
}

/* Checks that the options are compatible with each other and with the source. */
static int check_options(const struct import_options *options, const char *path)
{
    const char *what = options->on_conflict;
    bool is_of_file = what || options->rejects || options->state || options->skip;
    if (is_beanstalk(path) && is_of_file)
        return cli_usage("'--on-conflict', '--rejects', '--state' and '--skip' are for files, "
                         "leave them out: an import from beanstalkd takes all remaining jobs");
    if (!is_beanstalk(path) && (options->tubes.count || options->is_dry))
        return cli_usage("'--tube' and '--dry-run' are for beanstalkd, give an address such as "
                         "beanstalk://127.0.0.1:11300");
    if (what && strcmp(what, "keep") != 0 && strcmp(what, "replace") != 0)
        return cli_usage("bad value '%s' for '--on-conflict', give keep or replace", what);
    if (options->state && options->skip)
        return cli_usage("both '--state' and '--skip' are given, leave '--skip' out: the state "
                         "contains the line to continue from");
    return CLI_OK;
}

static int import_file(struct import *import, const struct import_options *options,
                       const struct cli_args *args)
{
    import->skip = options->skip;
    import->wants_all_settings = options->wants_all_settings;
    import->batches.on_conflict = options->on_conflict ? options->on_conflict : "keep";
    import->batches.retry = import->retry;
    int exit_code = import_state_open(&import->state, options->state, args->url);
    if (exit_code != CLI_OK)
        return exit_code;
    if (options->state)
        import->skip = import->state.line;
    exit_code = import_run(import, options->rejects, args->json);
    lines_fini(&import->in);
    if (import->in.fd > STDIN_FILENO)
        close(import->in.fd);
    return exit_code;
}

static int import_from_beanstalk(struct import *import, const struct import_options *options,
                                 const struct cli_args *args)
{
    int exit_code = options->is_dry ? CLI_OK : learn_limits(import);
    const struct import_beanstalk_wish wish = {.from = import->path,
                                               .tubes = options->tubes,
                                               .is_dry = options->is_dry,
                                               .has_json = args->json,
                                               .client = &import->client,
                                               .batch_bytes = import->batches.bytes_max,
                                               .retry = import->retry};
    return exit_code == CLI_OK ? import_beanstalk(&wish) : exit_code;
}

static int import_command(int argc, char **argv)
{
    static struct import import;          /* too large for the stack */
    static struct import_options options; /* too large for the stack */
    const char *retry = RETRY_TEXT;
    bool wants_progress = false;
    const struct cli_flag flags[] = {
        {"on-conflict", CLI_TEXT, &options.on_conflict, "WHAT",
         "If the id exists: keep (default) or replace"},
        {"rejects", CLI_TEXT, &options.rejects, "FILE", "Append rejected lines to FILE"},
        {"state", CLI_TEXT, &options.state, "FILE",
         "Store the progress in FILE, and continue from there"},
        {"skip", CLI_COUNT, &options.skip, "N", "Skip the first N lines"},
        {"all-settings", CLI_SWITCH, &options.wants_all_settings, NULL,
         "Reject a topic with a setting that the server's store lacks (default: leave it out)"},
        {"tube", CLI_LIST, &options.tubes, "NAME", "Only this tube of beanstalkd; repeatable"},
        {"dry-run", CLI_SWITCH, &options.is_dry, NULL,
         "Show the pending jobs of beanstalkd, and change nothing"},
        {"retry-for", CLI_DURATION, &retry, "TIME",
         "How long to wait for a server that is away (default: " RETRY_TEXT ")"},
        {"progress", CLI_SWITCH, &wants_progress, NULL,
         "Print progress lines although standard error is not a terminal"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "import [FILE|beanstalk://HOST[:PORT]] [--state FILE] [--rejects FILE]",
        .about =
            "Reads the output of 'tarry export' from FILE or standard input: sets topics and "
            "pushes\n"
            "jobs with their attempts. A repeated import changes nothing as long as no job has\n"
            "finished: keep the topics paused until it ends.\n"
            "From a beanstalkd it moves ready, delayed and buried jobs, each tube into the topic "
            "with\n"
            "its name: a job is deleted there after it is stored here. Meanwhile the tubes are "
            "paused.\n"
            "Reserved jobs stay. After an interruption, run the import again.",
        .flags = flags,
        .most = 1,
    };
    struct cli_args args;
    options = (struct import_options){0};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    import = (struct import){.path = args.list.count ? args.list.at[0] : "-"};
    exit_code = check_options(&options, import.path);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!retry_parse(retry, &import.retry))
        return CLI_USAGE;
    progress_begin("imported", wants_progress);
    if (!client_open(&import.client, args.url))
        return CLI_REFUSED;
    exit_code = is_beanstalk(import.path) ? import_from_beanstalk(&import, &options, &args)
                                          : import_file(&import, &options, &args);
    client_close(&import.client);
    return exit_code;
}

const struct cli_command cli_import_commands[] = {
    {.name = "import", .run = import_command, .help = "push the jobs of an export"},
    {0},
};
