/* Commands of alerts, which run beside the passes: what they are told, and what came of them. */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/dead_letter_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VARIABLES_MAX = 8 };

struct alert_command {
    struct list node; /* in worker.alert_commands */
    struct dead_letter_worker *worker;
    struct alert_run *run;
    struct alert_note note; /* as it stood before */
    uint64_t died;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char program[GUARD_PATH_BYTES_MAX];
    struct buffer text, variables; /* for its standard input; NAME=VALUE with a NUL behind each */
};

/* ---- life ---- */

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

static void write_variables(struct alert_command *command)
{
    struct buffer *out = &command->variables;
    add_variable(out, "PATH", getenv("PATH"));
    add_variable(out, "HOME", getenv("HOME"));
    add_variable(out, "LANG", getenv("LANG"));
    add_variable(out, "TARRY_ALERT_TOPIC", command->topic);
    add_number(out, "TARRY_ALERT_DIED", command->died - command->note.died_before);
    add_number(out, "TARRY_ALERT_DEAD", command->worker->pass.counts.dead);
}

struct alert_command *alert_command_new(struct dead_letter_worker *worker, const char *program,
                                        struct slice text, const struct alert_note *note)
{
    struct slice topic = pass_topic(&worker->pass);
    struct alert_command *command = calloc(1, sizeof *command);
    if (!command)
        return NULL;
    command->worker = worker;
    command->note = *note;
    command->died = worker->pass.died;
    list_init(&command->node);
    memcpy(command->topic, topic.at, topic.len);
    (void)snprintf(command->program, sizeof command->program, "%s", program);
    buffer_init(&command->text, text.len + 1);
    buffer_init(&command->variables, 64 * 1024);
    buffer_append_slice(&command->text, text);
    write_variables(command);
    if (!command->text.failed && !command->variables.failed)
        return command;
    alert_command_free(command);
    return NULL;
}

void alert_command_free(struct alert_command *command)
{
    if (!command)
        return;
    list_remove(&command->node);
    buffer_fini(&command->text);
    buffer_fini(&command->variables);
    free(command);
}

/* ---- the end ---- */

/* Where it could not be kept the alert is given again: better twice than never. */
static void on_end_noted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    dead_letter_worker_replied(owner);
    dead_letter_worker_check_stopped(owner);
}

static void count(struct alert_command *command, bool is_well)
{
    struct kept *kept = dead_letter_worker_find(command->worker, slice_of(command->topic));
    if (kept)
        dead_letter_worker_count(command->worker, is_well ? &kept->alerts : &kept->alert_faults, 1);
}

static void end(struct alert_command *command, enum alert_end end)
{
    struct dead_letter_worker *worker = command->worker;
    struct alert_note note = command->note;
    if (end == ALERT_END_WELL) {
        note = (struct alert_note){.died_before = command->died, .last_ms = clock_wall_ms()};
    } else {
        log_event(LOG_WARN, "alert failed", LOG_TEXT("topic", command->topic),
                  LOG_TEXT("error", end == ALERT_END_TOO_LONG ? "the command took too long"
                                                              : "the command failed"));
        note.failed_ms = clock_wall_ms();
        note.rest_ms = end == ALERT_END_TOO_LONG ? ALERT_REST_KILLED_MS : ALERT_REST_MS;
    }
    count(command, end == ALERT_END_WELL);
    dead_letter_alert_note(worker, slice_of(command->topic), &note, on_end_noted);
    alert_command_free(command);
}

static void on_ran(void *ctx, enum alert_end how)
{
    struct alert_command *command = ctx;
    command->worker->alert_command_count--;
    end(command, how);
}

/* ---- the beginning ---- */

void alert_command_start(struct alert_command *command)
{
    struct dead_letter_worker *worker = command->worker;
    const char *variables[VARIABLES_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t at = 0; at < command->variables.len && count < VARIABLES_MAX; count++) {
        variables[count] = command->variables.at + at;
        at += strlen(variables[count]) + 1;
    }
    command->run = alert_run_start(worker->options.reactor, command->program, variables,
                                   buffer_slice(&command->text), on_ran, command);
    if (!command->run) {
        end(command, ALERT_END_FAILED);
        return;
    }
    list_add_last(&worker->alert_commands, &command->node);
    worker->alert_command_count++;
}

void alert_commands_kill(struct dead_letter_worker *worker)
{
    for (struct list *at = worker->alert_commands.next; at != &worker->alert_commands;
         at = at->next)
        alert_run_kill(list_entry(at, struct alert_command, node)->run);
}
