#include "cli/child.h"

#include "base/descriptors.h"
#include "base/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIABLES = 8, ALWAYS = 6 }; /* the trace context is set only if the job has one */

/* Writes the body to a file in memory, so that the command may read it or not without blocking a
 * pipe. */
static int body_file(struct slice body)
{
    int fd = memfd_create("body", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < body.len;) {
        ssize_t wrote = write(fd, body.at + done, body.len - done);
        if (wrote < 0 && errno != EINTR) {
            int error = -errno;
            close(fd);
            return error;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static bool is_ours(const char *variable, const char *const names[VARIABLES])
{
    for (size_t i = 0; i < VARIABLES; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(variable, names[i], len) == 0 && variable[len] == '=')
            return true;
    }
    return false;
}

static void free_environment(char **environment, char *const *ours)
{
    for (size_t i = 0; i < VARIABLES; i++)
        free(ours[i]);
    free(environment);
}

/* Builds the environment with the job's variables. The last VARIABLES strings are allocated and
 * are also stored in `ours`. */
static char **make_environment(const struct child_job *job, const char *url, char *ours[VARIABLES])
{
    static const char *const names[VARIABLES] = {
        "TARRY_TOPIC",        "TARRY_ID",  "TARRY_ATTEMPT", "TARRY_LEASE",
        "TARRY_CONTENT_TYPE", "TARRY_URL", "TRACEPARENT",   "TRACESTATE"};
    const struct slice values[VARIABLES] = {job->topic,       job->id,           job->attempt,
                                            job->lease,       job->content_type, slice_of(url),
                                            job->traceparent, job->tracestate};
    size_t count = 0, kept = 0;
    bool ok = true;
    while (environ[count])
        count++;
    char **environment = calloc(count + VARIABLES + 1, sizeof *environment);
    for (size_t i = 0; environment && i < count; i++)
        if (!is_ours(environ[i], names))
            environment[kept++] = environ[i];
    for (size_t i = 0; i < VARIABLES; i++) {
        ours[i] = NULL;
        if (i >= ALWAYS && !values[i].len)
            continue;
        ok = asprintf(&ours[i], "%s=%.*s", names[i], (int)values[i].len,
                      values[i].len ? values[i].at : "") >= 0 &&
             ok;
        if (environment)
            environment[kept++] = ours[i];
    }
    if (environment && ok)
        return environment;
    free_environment(environment, ours);
    return NULL;
}

/* ---- the new process until exec ---- */

struct start {
    char **argv, **environment;
    int input, errors; /* its standard input and standard error */
    int failure;       /* receives errno if the command cannot be run; closed by exec */
    pid_t parent;
};

/* Replaces the process by the command. Only functions that are allowed between fork and exec may
 * be called here. */
static _Noreturn void become_command(const struct start *start)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    descriptors_hide();
    /* The kernel sends no signal if the parent ended before this prctl. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == start->parent &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0 && dup2(start->input, STDIN_FILENO) >= 0 &&
        dup2(start->errors, STDERR_FILENO) >= 0)
        execvpe(start->argv[0], start->argv, start->environment);
    int error = errno;
    if (write(start->failure, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* Starts the process. Returns its id, or a negative errno, also if the command cannot be run. */
static pid_t spawn(struct start *start)
{
    int failure[2], error = 0;
    if (pipe2(failure, O_CLOEXEC) != 0)
        return -errno;
    start->failure = failure[1];
    start->parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become_command(start);
    if (pid < 0)
        error = errno;
    close(failure[1]);
    ssize_t got;
    do
        got = pid > 0 ? read(failure[0], &error, sizeof error) : 0;
    while (got < 0 && errno == EINTR);
    close(failure[0]);
    if (error && pid > 0)
        waitpid(pid, NULL, 0);
    return error ? -error : pid;
}

/* ---- start to end ---- */

static int start_process(struct child *child, struct start *start)
{
    int errors[2];
    if (pipe2(errors, O_CLOEXEC) != 0)
        return -errno;
    start->errors = errors[1];
    pid_t pid = spawn(start);
    close(errors[1]);
    if (pid < 0) {
        close(errors[0]);
        return pid;
    }
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    *child = (struct child){.pid = pid, .errors = errors[0]};
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child->pidfd >= 0)
        return 0;
    int result = -errno;
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(errors[0]);
    return result;
}

int child_start(struct child *child, char **argv, const struct child_job *job, const char *url)
{
    char *ours[VARIABLES];
    struct start start = {.argv = argv, .input = body_file(job->body)};
    if (start.input < 0)
        return start.input;
    start.environment = make_environment(job, url, ours);
    int result = start.environment ? start_process(child, &start) : -ENOMEM;
    if (start.environment)
        free_environment(start.environment, ours);
    close(start.input);
    return result;
}

/* Keeps the last CHILD_TAIL_BYTES of the output. */
static void keep_tail(struct child *child, const char *text, size_t len)
{
    if (len > CHILD_TAIL_BYTES) {
        text += len - CHILD_TAIL_BYTES;
        len = CHILD_TAIL_BYTES;
    }
    if (child->tail_len + len > CHILD_TAIL_BYTES) {
        size_t gone = child->tail_len + len - CHILD_TAIL_BYTES;
        memmove(child->tail, child->tail + gone, child->tail_len - gone);
        child->tail_len -= gone;
    }
    memcpy(child->tail + child->tail_len, text, len);
    child->tail_len += len;
}

void child_pass_errors(struct child *child)
{
    enum { READS_MAX = 16 }; /* then continue with the other children */
    char text[4096];
    for (int i = 0; i < READS_MAX && child->errors >= 0; i++) {
        ssize_t got = read(child->errors, text, sizeof text);
        if (got > 0) {
            fwrite(text, 1, (size_t)got, stderr);
            keep_tail(child, text, (size_t)got);
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            close(child->errors);
            child->errors = -1;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

bool child_reap(struct child *child)
{
    if (waitpid(child->pid, &child->status, WNOHANG) != child->pid)
        return false;
    child_pass_errors(child);
    if (child->tail_len > 0 && child->tail[child->tail_len - 1] != '\n')
        fputc('\n', stderr); /* the next message begins on a new line */
    if (child->errors >= 0)
        close(child->errors);
    close(child->pidfd);
    child->pid = 0;
    child->pidfd = child->errors = -1;
    return true;
}

bool child_is_final(const struct child *child)
{
    return WIFEXITED(child->status) && WEXITSTATUS(child->status) == CHILD_FINAL;
}

/* ---- the end of its output ---- */

/* Returns the length of a terminal escape sequence at `at`, such as a colour, or 0. */
static size_t escape_len(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\x1b' || at[1] != '[')
        return 0;
    const char *from = at;
    for (at += 2; at < end; at++)
        if (*at >= 0x40 && *at <= 0x7e)
            return (size_t)(at + 1 - from);
    return (size_t)(end - from);
}

/* Returns the length in bytes of the character at `at`; 0 if it is not UTF-8. */
static size_t character_len(const char *at, const char *end)
{
    for (size_t len = 1; len <= 4 && at + len <= end; len++)
        if (json_utf8_is_valid(slice_make(at, len)))
            return len;
    return 0;
}

/* Joins lines with "; " and replaces characters that are not text with "?". Returns the length. */
static size_t clean(const char *at, const char *end, char out[2 * CHILD_TAIL_BYTES])
{
    size_t len = 0;
    bool is_new_line = false;
    while (at < end) {
        size_t escape = escape_len(at, end), bytes = character_len(at, end);
        bool is_blank = *at == ' ' || *at == '\t' || *at == '\r';
        if (escape > 0) {
            at += escape;
            continue;
        }
        if (*at == '\n' || (is_blank && (len == 0 || is_new_line || out[len - 1] == ' '))) {
            is_new_line = is_new_line || *at == '\n';
            at++;
            continue;
        }
        if (is_new_line && len > 0) {
            len -= out[len - 1] == ' ';
            out[len++] = ';';
            out[len++] = ' ';
        }
        is_new_line = false;
        bool is_control = (unsigned char)*at < 0x20 || *at == 0x7f ||
                          (bytes == 2 && *at == '\xc2' && (unsigned char)at[1] < 0xa0);
        if (is_blank)
            out[len++] = ' ';
        else if (bytes == 0 || is_control)
            out[len++] = '?';
        else
            for (size_t i = 0; i < bytes; i++)
                out[len++] = at[i];
        at += bytes ? bytes : 1;
    }
    return len > 0 && out[len - 1] == ' ' ? len - 1 : len;
}

/* Returns the end of the text that fits, beginning at a whole line if possible, else at a whole
 * character. */
static struct slice cut_front(struct slice text, size_t bytes_max)
{
    if (text.len <= bytes_max)
        return text;
    struct slice rest = slice_make(text.at + text.len - bytes_max, bytes_max);
    const char *line = memmem(rest.at, rest.len, "; ", 2);
    size_t gone = line ? (size_t)(line - rest.at) + 2 : 0;
    while (gone < rest.len && ((unsigned char)rest.at[gone] & 0xc0) == 0x80)
        gone++;
    return slice_make(rest.at + gone, rest.len - gone);
}

/* Returns the beginning of the last lines of the tail, without a line whose beginning is lost. */
static const char *last_lines(const struct child *child)
{
    enum { LINES_MAX = 3 };
    const char *at = child->tail + child->tail_len;
    int lines = 0;
    while (at > child->tail && at[-1] == '\n')
        at--;
    for (; at > child->tail; at--)
        if (at[-1] == '\n' && ++lines == LINES_MAX)
            return at;
    const char *line = memchr(child->tail, '\n', child->tail_len);
    bool is_cut = child->tail_len == CHILD_TAIL_BYTES && lines > 0;
    return is_cut ? line + 1 : child->tail;
}

void child_explain(const struct child *child, char out[CHILD_ERROR_BYTES])
{
    char words[2 * CHILD_TAIL_BYTES];
    bool is_killed = WIFSIGNALED(child->status);
    int number = is_killed ? WTERMSIG(child->status) : WEXITSTATUS(child->status);
    out[0] = '\0';
    if (number == 0)
        return;
    size_t len =
        (size_t)snprintf(out, CHILD_ERROR_BYTES, "%s %d", is_killed ? "signal" : "exit", number);
    size_t words_len = clean(last_lines(child), child->tail + child->tail_len, words);
    struct slice last = cut_front(slice_make(words, words_len), CHILD_ERROR_BYTES - len - 3);
    if (last.len > 0)
        snprintf(out + len, CHILD_ERROR_BYTES - len, ": %.*s", (int)last.len, last.at);
}
