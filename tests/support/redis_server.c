#include "support/redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ports below those that the system gives to outgoing connections, with those of the bus: so no other program
 * takes the port of a server that is down for a while. */
enum { PORT_FIRST = 10000, PORT_LAST = 22000, BUS_ABOVE = 10000 };
enum { TRIES = 20, START_MS = 30000, STOP_MS = 10000, LOOK_MS = 5, ASK_S = 60 };

static _Noreturn void give_up(const struct redis_server *server, const char *what)
{
    char command[160];
    fprintf(stderr, "redis-server in '%s': %s (%s)\n", server->directory, what, strerror(errno));
    snprintf(command, sizeof command, "cat '%s/log' >&2", server->directory);
    if (system(command) != 0)
        fprintf(stderr, "it has no log\n");
    abort();
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- port ---- */

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool free_now = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return free_now;
}

static uint16_t free_port(const struct redis_server *server)
{
    for (int i = 0; i < 1000; i++) {
        uint16_t draw, port;
        if (getrandom(&draw, sizeof draw, 0) != sizeof draw)
            break;
        port = (uint16_t)(PORT_FIRST + draw % (PORT_LAST - PORT_FIRST));
        if (is_free(port) && is_free((uint16_t)(port + BUS_ABOVE)))
            return port;
    }
    give_up(server, "no free port");
}

/* ---- processes ---- */

/* Starts a shell that removes the directory when the last process with the other end of its input has ended. */
static void start_sweeper(struct redis_server *server)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || (server->sweeper = fork()) < 0)
        give_up(server, "no sweeper");
    if (server->sweeper == 0) {
        (void)setpgid(0, 0); /* ^C is for the test, this one has work to do after it */
        if (dup2(ends[0], STDIN_FILENO) < 0)
            _exit(127);
        execl("/bin/sh", "sh", "-c", "read -r _; rm -rf -- \"$0\"", server->directory, NULL);
        _exit(127);
    }
    close(ends[0]);
    server->sweeper_fd = ends[1];
}

static void run(const struct redis_server *server, pid_t parent)
{
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)server->port);
    const char *words[REDIS_SERVER_WORDS_MAX + 1] = {"redis-server",
                                                     server->options.config,
                                                     "--port",
                                                     port,
                                                     "--bind",
                                                     "127.0.0.1",
                                                     "--dir",
                                                     ".",
                                                     "--unixsocket",
                                                     server->path,
                                                     "--logfile",
                                                     "log",
                                                     "--save",
                                                     "",
                                                     "--shutdown-timeout",
                                                     "0",
                                                     "--enable-debug-command",
                                                     "yes",
                                                     "--jemalloc-bg-thread",
                                                     "no", /* spins while a faked clock is behind */
                                                     "--daemonize",
                                                     "no"};
    size_t count = 2; /* the first two are set, to nothing without a configuration */
    while (words[count])
        count++;
    for (const char *const *more = server->options.words; more && *more; more++) {
        if (count == REDIS_SERVER_WORDS_MAX)
            _exit(127);
        words[count++] = *more;
    }
    if (server->options.preload && setenv("LD_PRELOAD", server->options.preload, 1) != 0)
        _exit(127);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        chdir(server->directory) != 0)
        _exit(127);
    if (!server->options.config)
        memmove(&words[1], &words[2], sizeof words - 2 * sizeof words[0]);
    execvp(words[0], (char **)(void *)words);
    _exit(127);
}

static bool has_ended(struct redis_server *server)
{
    pid_t ended = waitpid(server->pid, NULL, WNOHANG);
    if (ended == 0)
        return false;
    server->pid = 0;
    return true;
}

static void hang_up(struct redis_server *server)
{
    if (server->asking)
        redisFree(server->asking);
    server->asking = NULL;
}

/* Returns true for any answer except that it is loading: it may require a password. By the unix socket, which is
 * private, because another server might answer on the port. */
static bool answers(struct redis_server *server)
{
    redisReply *reply = redis_server_ask(server, "PING");
    bool ready = reply && !(reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "LOADING", 7));
    if (reply)
        freeReplyObject(reply);
    return ready;
}

/* Starts the server. False: it ended immediately, because the port was taken meanwhile. */
static bool launch(struct redis_server *server)
{
    pid_t parent = getpid();
    (void)unlink(server->path); /* left by one that was killed */
    if ((server->pid = fork()) < 0)
        give_up(server, "no process");
    if (server->pid == 0)
        run(server, parent);
    for (int waited = 0; waited < START_MS; waited += LOOK_MS) {
        if (has_ended(server))
            return false;
        if (answers(server))
            return true;
        pause_ms(LOOK_MS);
    }
    give_up(server, "does not answer");
}

/* ---- life ---- */

struct redis_server *redis_server_new(const struct redis_server_options *options)
{
    struct redis_server *server = calloc(1, sizeof *server);
    if (!server)
        abort();
    if (options)
        server->options = *options;
    strcpy(server->directory, "/tmp/tarry-redis-XXXXXX");
    if (!mkdtemp(server->directory))
        give_up(server, "no directory");
    start_sweeper(server);
    snprintf(server->path, sizeof server->path, "%s/socket", server->directory);
    for (int i = 0; i < TRIES; i++) {
        server->port = free_port(server);
        if (launch(server))
            return server;
    }
    give_up(server, "ends as soon as it is started");
}

void redis_server_start(struct redis_server *server)
{
    if (server->pid)
        give_up(server, "started although it runs");
    if (!launch(server))
        give_up(server, "ends as soon as it is started again");
}

void redis_server_stop(struct redis_server *server, int signal)
{
    hang_up(server);
    if (!server->pid)
        return;
    (void)kill(server->pid, signal);
    for (int waited = 0; !has_ended(server); waited += LOOK_MS) {
        if (waited == STOP_MS)
            (void)kill(server->pid, SIGKILL);
        pause_ms(LOOK_MS);
    }
}

void redis_server_free(struct redis_server *server)
{
    if (!server)
        return;
    redis_server_stop(server, SIGTERM);
    close(server->sweeper_fd);
    while (waitpid(server->sweeper, NULL, 0) < 0 && errno == EINTR)
        ;
    free(server);
}

/* ---- asking ---- */

static bool call(struct redis_server *server)
{
    struct timeval timeout = {.tv_sec = ASK_S};
    if (server->asking)
        return true;
    server->asking = redisConnectUnixWithTimeout(server->path, timeout);
    if (server->asking && !server->asking->err &&
        redisSetTimeout(server->asking, timeout) == REDIS_OK)
        return true;
    hang_up(server);
    return false;
}

static redisReply *ask(struct redis_server *server, const char *format, va_list arguments)
{
    if (!call(server))
        return NULL;
    redisReply *reply = redisvCommand(server->asking, format, arguments);
    if (!reply)
        hang_up(server);
    return reply;
}

redisReply *redis_server_ask(struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    return reply;
}

void redis_server_do(struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "'%s': %s\n", format, reply ? reply->str : "no answer");
        give_up(server, "rejects a command");
    }
    freeReplyObject(reply);
}
