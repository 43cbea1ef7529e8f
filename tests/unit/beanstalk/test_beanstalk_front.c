/* A front on a real socket: how long a client is waited for, and what its buffers may take. */
#include "beanstalk/front.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG_MS = 3600 * 1000, SHORT_MS = 200, JOB_BYTES = 1 << 20, BUDGET_BYTES = 1 << 20 };

/* ---- a queue that never answers ---- */

static void submit(struct queue *queue, const struct command *command, struct queue_reply_to to)
{
    (void)queue;
    (void)command;
    (void)to;
}

static void watch(struct queue *queue, struct slice topic, bool on)
{
    (void)queue;
    (void)topic;
    (void)on;
}

static void info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){.store = "none"};
}

static const struct queue_ops ops = {.submit = submit, .watch = watch, .info = info};

/* ---- the front ---- */

static struct queue queue = {.ops = &ops};
static struct budget budget;
static struct reactor *reactor;
static struct waiters *waiters;
static struct listeners listeners;
static struct beanstalk_front *front;

static void rig_open(struct beanstalk_options options)
{
    char error[LISTENER_ERROR_BYTES];
    struct listener_options loopback = {.kind = LISTENER_TCP};
    struct sockaddr_in *address = (struct sockaddr_in *)&loopback.address;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listeners = (struct listeners){0};
    budget = (struct budget){.bytes_max = BUDGET_BYTES};
    assert_true(listeners_open(&listeners, &loopback, 1, error));
    reactor = reactor_new(0);
    waiters = waiters_new(&queue, 100);
    options.reactor = reactor;
    options.queue = &queue;
    options.waiters = waiters;
    options.listener = &listeners.at[0];
    options.budget = &budget;
    options.job_bytes_max = JOB_BYTES;
    options.connections_max = 1000;
    front = beanstalk_front_new(&options, error);
    assert_non_null(front);
    beanstalk_front_start(front);
    assert_int_equal(reactor_start(reactor), 0);
}

static void on_stopped(void *ctx)
{
    reactor_stop(ctx);
}

static void on_stop(struct letter *letter)
{
    beanstalk_front_stop(front, on_stopped, reactor);
    free(letter);
}

static void rig_close(void)
{
    struct letter *letter = calloc(1, sizeof *letter);
    letter->run = on_stop;
    reactor_post(reactor, letter);
    reactor_join(reactor);
    beanstalk_front_free(front);
    waiters_free(waiters);
    listeners_close(&listeners);
    reactor_free(reactor);
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(listeners.at[0].address.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void show(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes += sent;
        len -= (size_t)sent;
    }
}

/* Has the server ended its only connection within so long? What it answers stays unread, so the client does not
 * see the end. */
static bool ends(int within_ms)
{
    bool has_begun = false;
    for (int waited_ms = 0; waited_ms < within_ms; waited_ms += 5) {
        uint64_t used = budget_used(&budget);
        if (has_begun && !used)
            return true;
        has_begun |= used > 0;
        (void)poll(NULL, 0, 5);
    }
    return false;
}

/* Pipelines what takes many bytes to answer. */
static void ask_for_much(int fd)
{
    char line[300];
    for (int i = 0; i < 60; i++) {
        int len = snprintf(line, sizeof line, "watch %0190d\r\n", i);
        show(fd, line, (size_t)len);
    }
    for (int i = 0; i < 2000; i++)
        show(fd, "list-tubes-watched\r\n", 20);
}

static const struct {
    const char *sentence, *bytes;
    struct beanstalk_options limits;
    bool ends;
} rows[] = {
    {"a client that does nothing", "", {.idle_ms = SHORT_MS}, true},
    {"and one behind a command", "list-tube-used\r\n", {.idle_ms = SHORT_MS}, true},
    {"half a line", "list-tu", {.line_ms = SHORT_MS}, true},
    {"a line without end", NULL, {.line_ms = SHORT_MS}, true},
    {"half a job", "put 0 0 60 1000\r\nhalf", {.body_ms = SHORT_MS}, true},
    {"half a job that is too large", "put 0 0 60 99999999\r\nhalf", {.body_ms = SHORT_MS}, true},
    {"answers that are not read", "much", {.write_ms = SHORT_MS}, true},
    {"a client that is idle for less", "list-tube-used\r\n", {.line_ms = SHORT_MS}, false},
};

CLAIM(a_client_is_waited_for_as_long_as_its_phase_allows)
{
    char line[1000];
    memset(line, 'x', sizeof line);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct beanstalk_options options = rows[i].limits;
        int64_t *limits[] = {&options.idle_ms, &options.line_ms, &options.body_ms,
                             &options.write_ms};
        for (size_t k = 0; k < COUNT_OF(limits); k++)
            if (!*limits[k])
                *limits[k] = LONG_MS;
        rig_open(options);
        int fd = dial();
        if (!rows[i].bytes)
            show(fd, line, sizeof line);
        else if (strcmp(rows[i].bytes, "much") == 0)
            ask_for_much(fd);
        else
            show(fd, rows[i].bytes, strlen(rows[i].bytes));
        CASE_HOLDS(rows[i].sentence, ends(rows[i].ends ? 20000 : 3 * SHORT_MS) == rows[i].ends);
        close(fd);
        rig_close();
        CASE_HOLDS(rows[i].sentence, budget_used(&budget) == 0);
    }
}

CLAIM(unfinished_jobs_take_no_more_than_the_budget)
{
    enum { CLIENTS = 20, PART_BYTES = 200 * 1024 };
    static char part[PART_BYTES];
    int fds[CLIENTS], refused = 0;
    rig_open((struct beanstalk_options){.idle_ms = LONG_MS});
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial();
        show(fds[i], "put 0 0 60 1000000\r\n", 20);
        show(fds[i], part, PART_BYTES);
    }
    uint64_t most = 0;
    for (int i = 0; i < 50; i++) {
        most = budget_used(&budget) > most ? budget_used(&budget) : most;
        (void)poll(NULL, 0, 10);
    }
    /* Each may have read a little before it was refused. */
    assert_true(most < BUDGET_BYTES + CLIENTS * 2 * (BUDGET_SMALL_BYTES + 64 * 1024));
    /* Small ones are still served, and refused clients read the refusal once their rest has come. */
    for (int i = 0; i < CLIENTS; i++) {
        char answer[64] = "";
        for (size_t left = 1000002 - PART_BYTES; left;) {
            size_t len = left < PART_BYTES ? left : PART_BYTES;
            show(fds[i], part, len);
            left -= len;
        }
        struct timeval timeout = {.tv_sec = 2};
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
        (void)recv(fds[i], answer, sizeof answer - 1, 0);
        refused += strcmp(answer, "OUT_OF_MEMORY\r\n") == 0;
        close(fds[i]);
    }
    assert_true(refused >= CLIENTS / 2);
    assert_true(atomic_load(&budget.refused) >= (uint64_t)refused);
    rig_close();
    assert_int_equal(budget_used(&budget), 0);
}

CLAIMS_MAIN(NULL, NULL)
