/* The command of an alert, with real programs: what it gets, what it cannot do to the server. */
#include "base/clock.h"
#include "deliver/alert_command.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_US = 20 * 1000 * 1000 };

struct stage {
    struct reactor *reactor;
    char directory[64], program[96], notified[96];
    bool is_starting;
    int ends;
    enum alert_command_end end;
};

static void on_ended(void *ctx, enum alert_command_end end)
{
    struct stage *stage = ctx;
    assert_false(stage->is_starting);
    stage->ends++;
    stage->end = end;
}

/* `script` runs in a directory of its own. */
static struct stage *raise_stage(const char *script)
{
    struct stage *stage = calloc(1, sizeof *stage);
    strcpy(stage->directory, "/tmp/tarry-alert-XXXXXX");
    assert_non_null(mkdtemp(stage->directory));
    snprintf(stage->program, sizeof stage->program, "%s/program", stage->directory);
    snprintf(stage->notified, sizeof stage->notified, "%s/output", stage->directory);
    FILE *file = fopen(stage->program, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ncd %s\n%s\n", stage->directory, script);
    assert_int_equal(fchmod(fileno(file), 0700), 0);
    assert_int_equal(fclose(file), 0);
    stage->reactor = reactor_new(0);
    assert_non_null(stage->reactor);
    return stage;
}

static void strike_stage(struct stage *stage)
{
    reactor_free(stage->reactor);
    unlink(stage->program);
    unlink(stage->notified);
    assert_int_equal(rmdir(stage->directory), 0);
    free(stage);
}

static struct alert_command *start(struct stage *stage, const char *program, struct slice input)
{
    static const char *const environment[] = {"PATH=/usr/bin:/bin", "WORD=value", NULL};
    stage->is_starting = true;
    struct alert_command *command =
        alert_command_start(stage->reactor, program, environment, input, on_ended, stage);
    stage->is_starting = false;
    assert_non_null(command);
    return command;
}

static void run_until_ended(struct stage *stage)
{
    int64_t limit_us = clock_boot_us() + PATIENCE_US;
    while (!stage->ends && clock_boot_us() < limit_us)
        uv_run(reactor_loop(stage->reactor), UV_RUN_ONCE);
    for (int i = 0; i < 3; i++)
        uv_run(reactor_loop(stage->reactor), UV_RUN_NOWAIT);
    assert_int_equal(stage->ends, 1);
}

static void read_reported(const struct stage *stage, char *out, size_t out_bytes)
{
    FILE *file = fopen(stage->notified, "re");
    assert_non_null(file);
    out[fread(out, 1, out_bytes - 1, file)] = '\0';
    fclose(file);
}

CLAIM(gets_its_input_and_only_the_environment_it_was_given)
{
    struct stage *stage =
        raise_stage("cat >output; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= "
                    "-e ^OLDPWD= | sort >>output; echo \"$# arguments\" >>output");
    char notified[256];
    setenv("REDIS_PASSWORD", "hunter2", 1);
    start(stage, stage->program, slice_of("input\n"));
    run_until_ended(stage);
    assert_int_equal(stage->end, ALERT_COMMAND_WELL);
    read_reported(stage, notified, sizeof notified);
    assert_string_equal(notified, "input\nPATH=/usr/bin:/bin\nWORD=value\n0 arguments\n");
    strike_stage(stage);
}

CLAIM(a_flood_of_output_goes_nowhere)
{
    struct stage *stage = raise_stage("head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2");
    start(stage, stage->program, slice_of("x"));
    run_until_ended(stage);
    assert_int_equal(stage->end, ALERT_COMMAND_WELL);
    strike_stage(stage);
}

CLAIM(unread_input_does_not_block)
{
    struct stage *stage = raise_stage("exec 0<&-\nexit 0");
    enum { INPUT_BYTES = 4 << 20 }; /* more than a pipe holds */
    char *input = calloc(1, INPUT_BYTES);
    start(stage, stage->program, slice_make(input, INPUT_BYTES));
    free(input); /* it has a copy */
    run_until_ended(stage);
    assert_int_equal(stage->end, ALERT_COMMAND_WELL);
    strike_stage(stage);
}

CLAIM(a_child_that_outlives_its_command_does_not_block)
{
    struct stage *stage = raise_stage("sleep 60 & echo $! >output\nexit 3");
    char notified[32];
    start(stage, stage->program, slice_of("x"));
    run_until_ended(stage);
    assert_int_equal(stage->end, ALERT_COMMAND_FAILED);
    read_reported(stage, notified, sizeof notified);
    kill((pid_t)atol(notified), SIGKILL);
    strike_stage(stage);
}

CLAIM(a_command_that_cannot_start_fails_once)
{
    static const char *const programs[] = {"/nowhere/program", "/tmp", "/etc/passwd"};
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        struct stage *stage = raise_stage("");
        start(stage, programs[i], slice_of("x"));
        run_until_ended(stage);
        assert_int_equal(stage->end, ALERT_COMMAND_FAILED);
        strike_stage(stage);
    }
}

CLAIM(a_kill_ends_the_command_and_its_children)
{
    /* It ignores every signal except SIGKILL. */
    struct stage *stage =
        raise_stage("trap '' TERM HUP INT\nsleep 600 &\necho $! >new\nmv new output\n"
                    "while :; do sleep 600; done");
    char notified[32];
    struct alert_command *command = start(stage, stage->program, slice_of("x"));
    int64_t limit_us = clock_boot_us() + PATIENCE_US;
    while (access(stage->notified, F_OK) != 0 && clock_boot_us() < limit_us)
        uv_run(reactor_loop(stage->reactor), UV_RUN_NOWAIT);
    read_reported(stage, notified, sizeof notified);
    pid_t child = (pid_t)atol(notified);
    assert_int_equal(kill(child, 0), 0);
    alert_command_kill(command);
    run_until_ended(stage);
    assert_int_equal(stage->end, ALERT_COMMAND_FAILED);
    char state_path[64], line[256] = "";
    snprintf(state_path, sizeof state_path, "/proc/%d/stat", (int)child);
    for (limit_us = clock_boot_us() + PATIENCE_US; clock_boot_us() < limit_us;) {
        FILE *file = fopen(state_path, "re");
        bool is_gone = !file || !fgets(line, sizeof line, file) || strstr(line, ") Z ");
        if (file)
            fclose(file);
        if (is_gone)
            break;
    }
    assert_true(clock_boot_us() < limit_us);
    strike_stage(stage);
}

CLAIMS_MAIN(NULL, NULL)
