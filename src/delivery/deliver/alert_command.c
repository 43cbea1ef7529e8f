#include "deliver/alert_command.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "guard/guard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { HANDLES = 2 };

struct alert_command {
    uv_process_t process;
    uv_pipe_t input;
    uv_write_t write;
    struct deadline *timeout;
    char *text;
    char program[GUARD_PATH_BYTES_MAX]; /* for the log */
    void (*done)(void *ctx, enum alert_command_end end);
    void *ctx;
    int closed;
    bool is_over;
    enum alert_command_end end;
};

static void on_closed(uv_handle_t *handle)
{
    struct alert_command *command = handle->data;
    if (++command->closed < HANDLES)
        return;
    void (*done)(void *ctx, enum alert_command_end end) = command->done;
    void *ctx = command->ctx;
    enum alert_command_end end = command->end;
    deadline_free(command->timeout);
    free(command->text);
    free(command);
    done(ctx, end);
}

static void command_close_input(struct alert_command *command)
{
    if (!uv_is_closing((uv_handle_t *)&command->input))
        uv_close((uv_handle_t *)&command->input, on_closed);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal_number)
{
    struct alert_command *command = process->data;
    if (status == 0 && signal_number == 0)
        command->end = ALERT_COMMAND_WELL;
    else
        log_event(LOG_WARN, "alert command failed", LOG_TEXT("program", command->program),
                  LOG_NUMBER("exit_code", status), LOG_NUMBER("signal", signal_number));
    command->is_over = true;
    command_close_input(command);
    uv_close((uv_handle_t *)process, on_closed);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* a program need not read all its input */
    command_close_input(write->data);
}

static void on_too_long(void *ctx)
{
    struct alert_command *command = ctx;
    log_event(LOG_WARN, "alert command killed", LOG_TEXT("program", command->program),
              LOG_NUMBER("after_ms", ALERT_COMMAND_MS_MAX));
    command->end = ALERT_COMMAND_TOO_LONG;
    alert_command_kill(command);
}

void alert_command_kill(struct alert_command *command)
{
    if (!command->is_over)
        (void)kill(-uv_process_get_pid(&command->process), SIGKILL);
}

/* Starts the program. Both handles are closed even if it could not be started; `done` then reports
 * that. */
static void command_spawn(struct alert_command *command, uv_loop_t *loop, const char *program,
                          const char *const *environment)
{
    char *args[] = {(char *)(uintptr_t)program, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&command->input},
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE}};
    const uv_process_options_t options = {.exit_cb = on_exit_of,
                                          .file = program,
                                          .args = args,
                                          .env = (char **)(uintptr_t)environment,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio = stdio,
                                          .stdio_count = sizeof stdio / sizeof stdio[0]};
    descriptors_hide();
    int error = uv_spawn(loop, &command->process, &options);
    if (error == 0)
        return;
    log_event(LOG_WARN, "alert command failed", LOG_TEXT("program", program),
              LOG_TEXT("error", uv_strerror(error)));
    command->is_over = true;
    command_close_input(command);
    uv_close((uv_handle_t *)&command->process, on_closed);
}

struct alert_command *alert_command_start(struct reactor *reactor, const char *program,
                                          const char *const *environment, struct slice input,
                                          void (*done)(void *ctx, enum alert_command_end end),
                                          void *ctx)
{
    uv_loop_t *loop = reactor_loop(reactor);
    struct alert_command *command = calloc(1, sizeof *command);
    if (!command)
        return NULL;
    command->text = malloc(input.len ? input.len : 1);
    command->timeout = deadline_new(reactor, on_too_long, command);
    if (!command->text || !command->timeout) {
        deadline_free(command->timeout);
        free(command->text);
        free(command);
        return NULL;
    }
    if (input.len)
        memcpy(command->text, input.at, input.len);
    (void)snprintf(command->program, sizeof command->program, "%s", program);
    command->end = ALERT_COMMAND_FAILED;
    command->done = done;
    command->ctx = ctx;
    command->process.data = command->input.data = command->write.data = command;
    uv_pipe_init(loop, &command->input, 0);
    command_spawn(command, loop, program, environment);
    if (command->is_over)
        return command;
    deadline_set(command->timeout, clock_inner_ms() + ALERT_COMMAND_MS_MAX);
    uv_buf_t bytes = uv_buf_init(command->text, (unsigned)input.len);
    if (uv_write(&command->write, (uv_stream_t *)&command->input, &bytes, 1, on_written) != 0)
        command_close_input(command);
    return command;
}
