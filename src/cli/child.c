#include "cli/child.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIABLES = 6 };

/* The body as a file in memory: a command may read it, or not, without anybody waiting on a pipe.
 */
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

/* The environment with the job's variables; the last VARIABLES strings are on the heap and also
 * stand in `ours`. */
static char **make_environment(const struct child_job *job, const char *url, char *ours[VARIABLES])
{
    static const char *const names[VARIABLES] = {"TARRY_TOPIC",        "TARRY_ID",
                                                 "TARRY_ATTEMPT",      "TARRY_LEASE",
                                                 "TARRY_CONTENT_TYPE", "TARRY_URL"};
    const struct slice values[VARIABLES] = {job->topic, job->id,           job->attempt,
                                            job->lease, job->content_type, slice_of(url)};
    size_t count = 0, kept = 0;
    bool ok = true;
    while (environ[count])
        count++;
    char **environment = calloc(count + VARIABLES + 1, sizeof(*environment));
    for (size_t i = 0; environment && i < count; i++)
        if (!is_ours(environ[i], names))
            environment[kept++] = environ[i];
    for (size_t i = 0; i < VARIABLES; i++) {
        ours[i] = NULL;
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

static int spawn(pid_t *pid, char **argv, char **environment, int input)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -error;
}

int child_start(struct child *child, char **argv, const struct child_job *job, const char *url)
{
    char *ours[VARIABLES];
    pid_t pid;
    int input = body_file(job->body);
    if (input < 0)
        return input;
    char **environment = make_environment(job, url, ours);
    if (!environment) {
        close(input);
        return -ENOMEM;
    }
    int result = spawn(&pid, argv, environment, input);
    free_environment(environment, ours);
    close(input);
    if (result != 0)
        return result;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        result = -errno;
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return result;
    }
    *child = (struct child){.pid = pid, .pidfd = pidfd};
    return 0;
}

bool child_reap(struct child *child)
{
    if (waitpid(child->pid, &child->status, WNOHANG) != child->pid)
        return false;
    close(child->pidfd);
    child->pid = 0;
    child->pidfd = -1;
    return true;
}

bool child_is_final(const struct child *child)
{
    return WIFEXITED(child->status) && WEXITSTATUS(child->status) == CHILD_FINAL;
}

void child_explain(const struct child *child, char *out, size_t out_bytes)
{
    if (WIFSIGNALED(child->status))
        snprintf(out, out_bytes, "signal %d", WTERMSIG(child->status));
    else if (WEXITSTATUS(child->status) != 0)
        snprintf(out, out_bytes, "exit %d", WEXITSTATUS(child->status));
    else
        out[0] = '\0';
}
