/*
 * The first step of a pass: sends an alert if jobs died, at most once every `alert.every` over all
 * servers. The topic's note contains the time of the last alert and the number of jobs that had
 * died by then. It also contains the time of the last failure, so that a failing command is not run
 * for each job that dies meanwhile.
 *
 * A command runs independently of the passes. Before it starts, the note records a failure at the
 * current time, so that no other server also starts it. After it ends, the note records the actual
 * result.
 */
#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/log.h"
#include "deliver/alert_command.h"
#include "deliver/dead_letter_pass.h"
#include "deliver/deliver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RUNS_MAX = 16, /* concurrent commands */
    /* concurrent runs of one program, so that hanging ones leave room for others */
    RUNS_OF_ONE_MAX = 8,
    REST_MS = 60 * 1000, /* pause after a failure; longer than a run may take */
    /* pause after a run that had to be killed: ten times its duration */
    REST_KILLED_MS = 300 * 1000,
    VARIABLES_MAX = 8,
    VARIABLES_BYTES_MAX = 64 * 1024,
    ERRORS_MAX = 10, /* kinds of errors listed in an alert */
    IDS_MAX = 5,
    ALERT_BYTES_MAX = 64 * 1024,
    NOTE_BYTES = 160,
    NO_ROOM_MS = 1000,          /* retry interval when too many commands are running */
    NO_ROOM_MS_MAX = 60 * 1000, /* maximum interval if many passes wait */
    NO_ROOM_EACH_MS = 100       /* distance between the retries of different passes */
};
static const int64_t NOTE_MS = POLICY_DELAY_MS_MAX - 24LL * 3600 * 1000;

struct alert_note { /* alert state in a topic's note */
    uint64_t died_before;
    int64_t last_ms, failed_ms; /* wall clock; 0 if never */
    int64_t rest_ms;            /* pause after a failure */
};

struct alert_run {    /* a command that runs independently of the passes */
    struct list node; /* in worker.alert_runs */
    struct dead_letter_worker *worker;
    struct dead_letter_topic *figures; /* or NULL */
    struct alert_command *command;
    struct alert_note note; /* previous content */
    uint64_t died;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char program[GUARD_PATH_BYTES_MAX];
    struct buffer text, variables; /* standard input; NAME=VALUE, each NUL-terminated */
};

struct alerting { /* state of this step */
    struct alert_note note;
    struct alert_run *run; /* to be started after the note is stored; or NULL */
};

/* ---- the note ---- */

static struct slice note_id(struct slice topic, char out[JOB_ID_BYTES_MAX + 1])
{
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "note:%016" PRIx64, hash_64(topic.at, topic.len));
    return slice_make(out, (size_t)len);
}

/* Makes the ID of an alert from the number of dead jobs and the time of the previous alert. So an
 * alert that is repeated after a crash is the same job, and an alert of a recreated topic is a
 * different one. */
static struct slice alert_id(const struct dead_letter_pass *pass, char out[JOB_ID_BYTES_MAX + 1])
{
    const struct alerting *alerting = pass->step;
    struct slice topic = dead_letter_pass_topic(pass);
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "alert:%016" PRIx64 ":%" PRIu64 ":%" PRId64,
                       hash_64(topic.at, topic.len), pass->died, alerting->note.last_ms);
    return slice_make(out, (size_t)len);
}

static int64_t member_number(struct json_value object, const char *name)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    int64_t number = 0;
    while (json_next_member(object, &cursor, &key, &value))
        if (json_string_is(key, name) && value.kind == JSON_NUMBER &&
            json_number_i64(value.raw, &number) && number >= 0)
            return number;
    return 0;
}

static void read_note(struct slice body, struct alert_note *out)
{
    struct json_value object;
    if (!json_check(body, &object, NULL) || object.kind != JSON_OBJECT)
        return;
    out->died_before = (uint64_t)member_number(object, "died");
    out->last_ms = member_number(object, "at_ms");
    out->failed_ms = member_number(object, "failed_ms");
    out->rest_ms = member_number(object, "rest_ms");
    if (!out->rest_ms) /* written by an older version */
        out->rest_ms = REST_MS;
}

static void on_noted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    dead_letter_replied(worker);
    if (dead_letter_is_pushed(reply))
        dead_letter_pass_next(worker);
    else
        dead_letter_pass_fail(worker, "the record of an alert could not be stored");
}

/* Continues even if the failure was not recorded; then the alert is retried sooner. */
static void on_failure_noted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    dead_letter_replied(owner);
    dead_letter_pass_next(owner);
}

static void write_note(struct dead_letter_worker *worker, struct slice topic,
                       const struct alert_note *note, queue_done *done)
{
    char id[JOB_ID_BYTES_MAX + 1], body[NOTE_BYTES];
    int len = snprintf(body, sizeof body,
                       "{\"died\":%" PRIu64 ",\"at_ms\":%" PRId64 ",\"failed_ms\":%" PRId64
                       ",\"rest_ms\":%" PRId64 "}",
                       note->died_before, note->last_ms, note->failed_ms, note->rest_ms);
    struct queue_push push = {.topic = slice_of(DEAD_LETTER_TOPIC),
                              .id = note_id(topic, id),
                              .is_own = true,
                              .content_type = slice_of("application/json"),
                              .body = slice_make(body, (size_t)len),
                              .when = {.due = QUEUE_DUE_DELAY, .ms = NOTE_MS},
                              .priority = QUEUE_PRIORITY_UNSET,
                              .on_conflict = CONFLICT_REPLACE};
    queue_push(worker->options.queue, &push, 1, dead_letter_reply_to(worker, done));
}

static void write_note_of_pass(struct dead_letter_worker *worker, const struct alert_note *note,
                               queue_done *done)
{
    write_note(worker, dead_letter_pass_topic(&worker->pass), note, done);
}

/* ---- the result ---- */

static void alert_done(struct dead_letter_worker *worker)
{
    const struct alert_note now = {.died_before = worker->pass.died, .last_ms = clock_wall_ms()};
    if (worker->pass.figures)
        dead_letter_count(worker, &worker->pass.figures->tally->alerts, 1);
    write_note_of_pass(worker, &now, on_noted);
}

/* Records a failed alert; the pass continues. */
static void alert_failed(struct dead_letter_worker *worker, const char *error)
{
    struct dead_letter_pass *pass = &worker->pass;
    struct alerting *alerting = pass->step;
    if (pass->figures)
        dead_letter_count(worker, &pass->figures->tally->alert_faults, 1);
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    (void)snprintf(topic, sizeof topic, "%.*s", (int)pass->topic_bytes, pass->topic);
    log_event(LOG_WARN, "alert failed", LOG_TEXT("topic", topic), LOG_TEXT("error", error));
    dead_letter_pass_again(worker, clock_inner_ms() + REST_MS);
    alerting->note.failed_ms = clock_wall_ms();
    alerting->note.rest_ms = REST_MS;
    write_note_of_pass(worker, &alerting->note, on_failure_noted);
}

/* ---- a command ---- */

static void add_variable(struct buffer *out, const char *name, const char *value)
{
    if (!value)
        return;
    buffer_append_format(out, "%s=%s", name, value);
    buffer_append_byte(out, '\0');
}

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
    buffer_append_format(out, "%s=%" PRIu64, name, value);
    buffer_append_byte(out, '\0');
}

static void alert_run_free(struct alert_run *run)
{
    list_remove(&run->node);
    buffer_fini(&run->text);
    buffer_fini(&run->variables);
    free(run);
}

/* Returns NULL when out of memory. */
static struct alert_run *alert_run_new(struct dead_letter_worker *worker, const char *program,
                                       struct slice text)
{
    const struct dead_letter_pass *pass = &worker->pass;
    const struct alerting *alerting = pass->step;
    struct alert_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->worker = worker;
    run->figures = pass->figures;
    run->note = alerting->note;
    run->died = pass->died;
    list_init(&run->node);
    memcpy(run->topic, pass->topic, pass->topic_bytes);
    (void)snprintf(run->program, sizeof run->program, "%s", program);
    buffer_init(&run->text, text.len + 1);
    buffer_init(&run->variables, VARIABLES_BYTES_MAX);
    buffer_append_slice(&run->text, text);
    add_variable(&run->variables, "PATH", getenv("PATH"));
    add_variable(&run->variables, "HOME", getenv("HOME"));
    add_variable(&run->variables, "LANG", getenv("LANG"));
    add_variable(&run->variables, "TARRY_ALERT_TOPIC", run->topic);
    add_number(&run->variables, "TARRY_ALERT_DIED", run->died - run->note.died_before);
    add_number(&run->variables, "TARRY_ALERT_DEAD", pass->counts.dead);
    if (!run->text.failed && !run->variables.failed)
        return run;
    alert_run_free(run);
    return NULL;
}

/* Ignores a failure to store the note; the alert is then repeated: better twice than never. */
static void on_end_noted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    dead_letter_replied(owner);
    dead_letter_check_stopped(owner);
}

/* Counts the result, writes the topic's note, and frees the run. */
static void alert_run_end(struct alert_run *run, enum alert_command_end end)
{
    struct dead_letter_worker *worker = run->worker;
    struct alert_note note = run->note;
    if (end == ALERT_COMMAND_WELL) {
        note = (struct alert_note){.died_before = run->died, .last_ms = clock_wall_ms()};
    } else {
        log_event(LOG_WARN, "alert failed", LOG_TEXT("topic", run->topic),
                  LOG_TEXT("error", end == ALERT_COMMAND_TOO_LONG ? "the command took too long"
                                                                  : "the command failed"));
        note.failed_ms = clock_wall_ms();
        note.rest_ms = end == ALERT_COMMAND_TOO_LONG ? REST_KILLED_MS : REST_MS;
    }
    if (run->figures)
        dead_letter_count(worker,
                          end == ALERT_COMMAND_WELL ? &run->figures->tally->alerts
                                                    : &run->figures->tally->alert_faults,
                          1);
    write_note(worker, slice_of(run->topic), &note, on_end_noted);
    alert_run_free(run);
}

static void on_command_ended(void *ctx, enum alert_command_end end)
{
    struct alert_run *run = ctx;
    run->worker->alert_runs.count--;
    alert_run_end(run, end);
}

static void alert_run_start(struct alert_run *run)
{
    struct dead_letter_worker *worker = run->worker;
    const char *variables[VARIABLES_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t at = 0; at < run->variables.len && count < VARIABLES_MAX; count++) {
        variables[count] = run->variables.at + at;
        at += strlen(variables[count]) + 1;
    }
    run->command = alert_command_start(worker->options.reactor, run->program, variables,
                                       buffer_slice(&run->text), on_command_ended, run);
    if (!run->command) {
        alert_run_end(run, ALERT_COMMAND_FAILED);
        return;
    }
    list_add_last(&worker->alert_runs.list, &run->node);
    worker->alert_runs.count++;
}

void dead_letter_alert_stop(struct dead_letter_worker *worker)
{
    const struct list *runs = &worker->alert_runs.list;
    for (const struct list *at = runs->next; at != runs; at = at->next)
        alert_command_kill(list_entry(at, struct alert_run, node)->command);
}

static void on_noted_ahead(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct alerting *alerting = worker->pass.step;
    (void)tag;
    dead_letter_replied(worker);
    if (!dead_letter_is_pushed(reply) || worker->is_stopping) {
        alert_run_free(alerting->run);
        dead_letter_pass_fail(worker, "the record of an alert could not be stored");
        return;
    }
    alert_run_start(alerting->run);
    alerting->run = NULL;
    dead_letter_pass_again(worker, clock_inner_ms() + REST_MS);
    dead_letter_pass_next(worker);
}

/* Returns true if another command of this program may be started. */
static bool alert_has_room(const struct alert_runs *runs, const char *program)
{
    size_t same = 0;
    for (const struct list *at = runs->list.next; at != &runs->list; at = at->next)
        same += strcmp(list_entry(at, struct alert_run, node)->program, program) == 0;
    return runs->count < RUNS_MAX && same < RUNS_OF_ONE_MAX;
}

/* Returns the time of the next attempt of a pass whose command may not start yet. Each pass gets a
 * later time than the one before, so that many waiting passes cost no more than few. */
static int64_t alert_next_room_ms(struct alert_runs *runs)
{
    int64_t now_ms = clock_inner_ms();
    runs->next_room_ms += NO_ROOM_EACH_MS;
    if (runs->next_room_ms < now_ms + NO_ROOM_MS)
        runs->next_room_ms = now_ms + NO_ROOM_MS;
    if (runs->next_room_ms > now_ms + NO_ROOM_MS_MAX)
        runs->next_room_ms = now_ms + NO_ROOM_MS_MAX;
    return runs->next_room_ms;
}

static void alert_run_command(struct dead_letter_worker *worker, struct slice text)
{
    struct alerting *alerting = worker->pass.step;
    char program[GUARD_PATH_BYTES_MAX];
    if (!guard_find_command(worker->options.guard, slice_of(worker->pass.rules.alert_command),
                            program)) {
        alert_failed(worker, "the policy file of this server has no such command");
        return;
    }
    if (!alert_has_room(&worker->alert_runs, program)) {
        dead_letter_pass_again(worker, alert_next_room_ms(&worker->alert_runs));
        dead_letter_pass_next(worker);
        return;
    }
    alerting->run = alert_run_new(worker, program, text);
    if (!alerting->run) {
        alert_failed(worker, "out of memory");
        return;
    }
    struct alert_note ahead = alerting->note;
    ahead.failed_ms = clock_wall_ms();
    ahead.rest_ms = REST_MS;
    write_note_of_pass(worker, &ahead, on_noted_ahead);
}

/* ---- a callback ---- */

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    dead_letter_replied(worker);
    if (dead_letter_is_pushed(reply))
        alert_done(worker);
    else
        alert_failed(worker, "the queue did not accept the callback");
}

static void alert_push_callback(struct dead_letter_worker *worker, struct slice text)
{
    struct dead_letter_pass *pass = &worker->pass;
    char id[JOB_ID_BYTES_MAX + 1];
    struct buffer meta;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    if (job_meta_add(&meta, slice_of(DELIVER_CALLBACK_META), slice_of(pass->rules.alert_to)) !=
        JOB_META_OK) {
        buffer_fini(&meta);
        alert_failed(worker, "the URL is too long");
        return;
    }
    struct queue_push push = {.topic = slice_of(DEAD_LETTER_CALLBACKS_TOPIC),
                              .id = alert_id(pass, id),
                              .is_own = true,
                              .content_type = slice_of("application/json"),
                              .meta = buffer_slice(&meta),
                              .body = text,
                              .when = {.due = QUEUE_DUE_NOW},
                              .priority = QUEUE_PRIORITY_UNSET,
                              .on_conflict = CONFLICT_KEEP};
    queue_push(worker->options.queue, &push, 1, dead_letter_reply_to(worker, on_pushed));
    buffer_fini(&meta);
}

/* ---- the text ---- */

struct error_count {
    struct slice error;
    uint32_t jobs;
};

static size_t count_errors(const struct queue_job *jobs, size_t count,
                           struct error_count out[ERRORS_MAX])
{
    size_t kinds = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < kinds && !slice_equals(out[k].error, jobs[i].job.error))
            k++;
        if (k == ERRORS_MAX)
            continue;
        if (k == kinds)
            out[kinds++] = (struct error_count){.error = jobs[i].job.error};
        out[k].jobs++;
    }
    return kinds;
}

static void write_errors(struct buffer *out, const struct queue_job *jobs, size_t count)
{
    struct error_count errors[ERRORS_MAX];
    size_t kinds = count_errors(jobs, count, errors);
    buffer_append_text(out, ",\"errors\":[");
    for (size_t i = 0; i < kinds; i++) {
        buffer_append_text(out, i ? ",{\"error\":" : "{\"error\":");
        json_write_string(out, errors[i].error);
        buffer_append_format(out, ",\"jobs\":%" PRIu32 "}", errors[i].jobs);
    }
    buffer_append_text(out, "],\"ids\":[");
    for (size_t i = 0; i < count && i < IDS_MAX; i++) {
        if (i)
            buffer_append_byte(out, ',');
        json_write_string(out, jobs[i].job.id);
    }
    buffer_append_byte(out, ']');
}

static void write_text(struct buffer *out, const struct dead_letter_pass *pass,
                       const struct queue_reply *sample)
{
    const struct alerting *alerting = pass->step;
    buffer_append_text(out, "{\"type\":\"tarry.dead_letters\",\"topic\":");
    json_write_string(out, dead_letter_pass_topic(pass));
    buffer_append_format(out, ",\"died\":%" PRIu64 ",\"dead\":%" PRIu64,
                         pass->died - alerting->note.died_before, pass->counts.dead);
    if (alerting->note.last_ms) {
        buffer_append_text(out, ",\"since\":");
        json_write_time(out, alerting->note.last_ms);
    }
    buffer_append_text(out, ",\"at\":");
    json_write_time(out, clock_wall_ms());
    write_errors(out, sample->jobs, sample->job_count);
    buffer_append_byte(out, '}');
}

static void on_sample(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct buffer text;
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK) {
        dead_letter_pass_fail(worker, "the queue did not return the dead jobs");
        return;
    }
    buffer_init(&text, ALERT_BYTES_MAX);
    write_text(&text, &worker->pass, reply);
    if (text.failed)
        alert_failed(worker, "out of memory");
    else if (worker->pass.rules.alert_to)
        alert_push_callback(worker, buffer_slice(&text));
    else
        alert_run_command(worker, buffer_slice(&text));
    buffer_fini(&text);
}

/* ---- is an alert due? ---- */

static void alert_ask_sample(struct dead_letter_worker *worker)
{
    struct queue_list list = {.topic = dead_letter_pass_topic(&worker->pass),
                              .state = JOB_DEAD,
                              .limit = DEAD_LETTER_PAGE};
    queue_list(worker->options.queue, &list, dead_letter_reply_to(worker, on_sample));
}

/* Returns the rest of `ms` since that time, but never more than `ms`, even if the wall clock was
 * set back. */
static int64_t left_of(int64_t ms, int64_t since_ms)
{
    int64_t left_ms = since_ms + ms - clock_wall_ms();
    return !since_ms || left_ms < 0 ? 0 : left_ms > ms ? ms : left_ms;
}

/* Returns the remaining quiet time. */
static int64_t quiet_ms(const struct dead_letter_pass *pass, const struct alert_note *note)
{
    int64_t notified_ms = left_of(pass->rules.alert_every_ms, note->last_ms);
    int64_t failed_ms = left_of(note->rest_ms, note->failed_ms);
    return notified_ms > failed_ms ? notified_ms : failed_ms;
}

static void on_note(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct dead_letter_pass *pass = &worker->pass;
    struct alerting *alerting = pass->step;
    struct alert_note *note = &alerting->note;
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        dead_letter_pass_fail(worker, "the queue did not return the record of the last alert");
        return;
    }
    if (reply->status == QUEUE_OK && reply->job_count == 1)
        read_note(reply->jobs[0].job.body, note);
    bool is_new = pass->died < note->died_before; /* or a failover lost counts */
    if (is_new)
        note->died_before = 0;
    if (is_new && pass->died == 0) {
        write_note_of_pass(worker, note, on_noted);
    } else if (pass->died == note->died_before) {
        dead_letter_pass_next(worker);
    } else if (quiet_ms(pass, note) > 0) {
        dead_letter_pass_again(worker, clock_inner_ms() + quiet_ms(pass, note));
        dead_letter_pass_next(worker);
    } else {
        alert_ask_sample(worker);
    }
}

void dead_letter_alert(struct dead_letter_worker *worker)
{
    struct dead_letter_pass *pass = &worker->pass;
    char id[JOB_ID_BYTES_MAX + 1];
    if (!pass->rules.alert_to && !pass->rules.alert_command) {
        dead_letter_pass_next(worker);
        return;
    }
    pass->step = calloc(1, sizeof(struct alerting));
    if (!pass->step) {
        dead_letter_pass_fail(worker, "out of memory");
        return;
    }
    queue_get(worker->options.queue, slice_of(DEAD_LETTER_TOPIC),
              note_id(dead_letter_pass_topic(pass), id), dead_letter_reply_to(worker, on_note));
}
