/* The command of an alert: started, fed, waited for, killed when it takes too long. It has a
 * session of its own, so that what it started goes with it, and neither the server's descriptors
 * nor its environment, which may hold passwords.
 */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/dead_letter_private.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HANDLES = 2, CLOSE_ON_EXEC = 1 << 2 /* CLOSE_RANGE_CLOEXEC */ };

struct alert_run {
    uv_process_t process;
    uv_pipe_t input;
    uv_write_t write;
    struct deadline *patience;
    char *text;
    char program[GUARD_PATH_BYTES_MAX]; /* for the log */
    void (*done)(void *ctx, enum alert_end end);
    void *ctx;
    int closed;
    bool is_over;
    enum alert_end end;
};

static void on_closed(uv_handle_t *handle)
{
    struct alert_run *run = handle->data;
    if (++run->closed < HANDLES)
        return;
    void (*done)(void *ctx, enum alert_end end) = run->done;
    void *ctx = run->ctx;
    enum alert_end end = run->end;
    deadline_free(run->patience);
    free(run->text);
    free(run);
    done(ctx, end);
}

static void close_input(struct alert_run *run)
{
    if (!uv_is_closing((uv_handle_t *)&run->input))
        uv_close((uv_handle_t *)&run->input, on_closed);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal_number)
{
    struct alert_run *run = process->data;
    if (status == 0 && signal_number == 0)
        run->end = ALERT_END_WELL;
    else
        log_event(LOG_WARN, "alert command failed", LOG_TEXT("program", run->program),
                  LOG_NUMBER("exit_code", status), LOG_NUMBER("signal", signal_number));
    run->is_over = true;
    close_input(run);
    uv_close((uv_handle_t *)process, on_closed);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* a program need not read all of it */
    close_input(write->data);
}

static void on_too_long(void *ctx)
{
    struct alert_run *run = ctx;
    log_event(LOG_WARN, "alert command killed", LOG_TEXT("program", run->program),
              LOG_NUMBER("after_ms", ALERT_RUN_MS_MAX));
    run->end = ALERT_END_TOO_LONG;
    alert_run_kill(run);
}

void alert_run_kill(struct alert_run *run)
{
    if (!run->is_over)
        (void)kill(-uv_process_get_pid(&run->process), SIGKILL);
}

/* Libraries open some that would be handed down. The server itself hands down none. */
static void hide_descriptors(void)
{
    (void)syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, CLOSE_ON_EXEC);
}

/* Both handles are closed also where the program could not be started; `done` then says so. */
static void spawn(struct alert_run *run, uv_loop_t *loop, const char *program,
                  const char *const *environment)
{
    char *args[] = {(char *)(uintptr_t)program, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&run->input},
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE}};
    const uv_process_options_t options = {.exit_cb = on_exit_of,
                                          .file = program,
                                          .args = args,
                                          .env = (char **)(uintptr_t)environment,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio = stdio,
                                          .stdio_count = sizeof stdio / sizeof stdio[0]};
    hide_descriptors();
    int error = uv_spawn(loop, &run->process, &options);
    if (error == 0)
        return;
    log_event(LOG_WARN, "alert command failed", LOG_TEXT("program", program),
              LOG_TEXT("error", uv_strerror(error)));
    run->is_over = true;
    close_input(run);
    uv_close((uv_handle_t *)&run->process, on_closed);
}

struct alert_run *alert_run_start(struct reactor *reactor, const char *program,
                                  const char *const *environment, struct slice input,
                                  void (*done)(void *ctx, enum alert_end end), void *ctx)
{
    uv_loop_t *loop = reactor_loop(reactor);
    struct alert_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->text = malloc(input.len ? input.len : 1);
    run->patience = deadline_new(reactor, on_too_long, run);
    if (!run->text || !run->patience) {
        deadline_free(run->patience);
        free(run->text);
        free(run);
        return NULL;
    }
    if (input.len)
        memcpy(run->text, input.at, input.len);
    (void)snprintf(run->program, sizeof run->program, "%s", program);
    run->end = ALERT_END_FAILED;
    run->done = done;
    run->ctx = ctx;
    run->process.data = run->input.data = run->write.data = run;
    uv_pipe_init(loop, &run->input, 0);
    spawn(run, loop, program, environment);
    if (run->is_over)
        return run;
    deadline_set(run->patience, clock_inner_ms() + ALERT_RUN_MS_MAX);
    uv_buf_t bytes = uv_buf_init(run->text, (unsigned)input.len);
    if (uv_write(&run->write, (uv_stream_t *)&run->input, &bytes, 1, on_written) != 0)
        close_input(run);
    return run;
}
