/* An assert of the library fails in a child, whose host has closed a descriptor that is the queue's: the hook is called, the
 * process is aborted, and standard error gets a text only without a hook. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tarry.h>
#include <unistd.h>

static void on_assert(void *ctx, const char *text)
{
    const int *fd = ctx;
    if (write(*fd, text, strlen(text)) < 0)
        _exit(3);
}

static void on_done(void *owner, const struct tarry_reply *reply)
{
    (void)owner;
    (void)reply;
}

/* Runs until its eventfd, which came behind the descriptor, is missed. */
static void host_go_wrong(void)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    const struct rlimit no_core = {0, 0};
    tarry *queue;
    setrlimit(RLIMIT_CORE, &no_core);
    if (tarry_open(NULL, &queue, NULL, 0))
        _exit(1);
    close(tarry_fd(queue) + 1);
    push.topic = "t";
    call.kind = TARRY_CALL_PUSH;
    call.items = &push;
    call.n = 1;
    tarry_submit(queue, &call, on_done, NULL);
    _exit(2);
}

/* Runs a child, and collects its output to the hook and to standard error. Returns false if it was not aborted. */
static int run(int has_hook, char received[1024], char output[1024])
{
    int to_hook[2], to_error[2], status;
    ssize_t bytes;
    if (pipe(to_hook) || pipe(to_error))
        return 0;
    pid_t child = fork();
    if (child == 0) {
        dup2(to_error[1], STDERR_FILENO);
        if (has_hook)
            tarry_on_assert(on_assert, &to_hook[1]);
        host_go_wrong();
    }
    close(to_hook[1]);
    close(to_error[1]);
    bytes = read(to_hook[0], received, 1023);
    received[bytes > 0 ? bytes : 0] = '\0';
    bytes = read(to_error[0], output, 1023);
    output[bytes > 0 ? bytes : 0] = '\0';
    close(to_hook[0]);
    close(to_error[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void)
{
    static char received[1024], output[1024];
    if (!run(1, received, output) || !strstr(received, "descriptor.c:") ||
        !strstr(received, "' failed") ||
        (output[0] && strncmp(output, "qemu: ", 6))) /* qemu reports each abort */
        return fprintf(stderr, "hook: received '%s', printed '%s'\n", received, output), 1;
    if (!run(0, received, output) || received[0] || !strstr(output, "descriptor.c:"))
        return fprintf(stderr, "no hook: received '%s', printed '%s'\n", received, output), 1;
    puts("good");
    return 0;
}
