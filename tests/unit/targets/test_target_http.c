/* The HTTP target against an endpoint that does everything an endpoint should not. */
#include "base/clock.h"
#include "guard/resolve.h"
#include "support/http_peer.h"
#include "targets/http/webhook.h"
#include "targets/target.h"

#include "unit/guard/guard_rig.h"

#include <dirent.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

/* Some bad peers stop after a head, which must arrive within the timeout. qemu executes it ten times as slowly. */
#ifdef __aarch64__
enum { TIMEOUT_MS = 9000 };
#define TIMED_OUT "timed out after 9s"
#else
enum { TIMEOUT_MS = 1500 };
#define TIMED_OUT "timed out after 1500ms"
#endif
enum { REPORTS_MAX = 4096, RUN_MS = 240000, GRACE_MS = 20000 };

struct rig {
    struct reactor *reactor;
    struct guard *guard;
    struct resolver *resolver;
    struct http_peer *peer;
    struct target_env env;
    struct target_setting setting;
    struct job job;
    struct target *targets[40];
    size_t target_count;
    int awaited, closings;
    bool in_send;
    uv_timer_t timeout;
    int64_t sent_ms;
    struct notified {
        int times;
        int64_t after_ms;
        struct target_report report;
    } notified[REPORTS_MAX];
};

static const char policy[] = "allow-host = *\nallow-network = 127.0.0.0/8\n"
                             "sign = shop whsec_MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYxMA==\n";

static void on_report(void *owner, uint64_t tag, const struct target_report *report)
{
    struct rig *rig = owner;
    assert_false(rig->in_send);
    assert_true(tag < REPORTS_MAX);
    rig->notified[tag].times++;
    rig->notified[tag].after_ms = clock_boot_us() / 1000 - rig->sent_ms;
    rig->notified[tag].report = *report;
    if (--rig->awaited == 0 && rig->closings == 0)
        reactor_stop(rig->reactor);
}

static void on_timeout(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("a report is missing");
}

static void open_rig(struct rig *rig, const char *rules)
{
    memset(rig, 0, sizeof *rig);
    rig->reactor = reactor_new(0);
    rig->guard = guard_rig_open(rules);
    rig->resolver = resolver_new(rig->reactor, rig->guard);
    rig->peer = http_peer_start();
    rig->env = (struct target_env){.reactor = rig->reactor,
                                   .guard = rig->guard,
                                   .resolver = rig->resolver,
                                   .reported = on_report,
                                   .owner = rig,
                                   .version = "9.9"};
    rig->setting = (struct target_setting){.timeout_ms = TIMEOUT_MS, .never_signs = true};
    rig->job = (struct job){.topic = slice_of("orders"),
                            .id = slice_of("42"),
                            .body = slice_of("{\"total\":12}"),
                            .attempt = 3,
                            .due_ms = 1795000000123};
    uv_timer_init(reactor_loop(rig->reactor), &rig->timeout);
}

static struct target *open_target(struct rig *rig, const char *scheme, uint16_t port)
{
    char to[128], error[TARGET_ERROR_BYTES];
    (void)snprintf(to, sizeof to, "%s://127.0.0.1:%u/", scheme, port);
    assert_true(target_http.check(&rig->setting, slice_of(to), error));
    struct target *target = target_http.open(&rig->env, &rig->setting, slice_of(to));
    assert_non_null(target);
    rig->targets[rig->target_count++] = target;
    return target;
}

static void send_url(struct rig *rig, struct target *target, uint64_t tag, const char *url)
{
    struct target_message message = {
        .tag = tag, .job = &rig->job, .setting = &rig->setting, .to = slice_of(url)};
    rig->awaited++;
    rig->in_send = true;
    target->ops->send(target, &message, 1);
    rig->in_send = false;
}

static void send_path(struct rig *rig, struct target *target, uint64_t tag, uint16_t port,
                      const char *path)
{
    char url[256];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, path);
    send_url(rig, target, tag, url);
}

/* Runs until all reports (and closings) are there. */
static void run(struct rig *rig)
{
    uv_timer_start(&rig->timeout, on_timeout, RUN_MS, 0);
    (void)uv_run(reactor_loop(rig->reactor), UV_RUN_DEFAULT);
    uv_timer_stop(&rig->timeout);
}

static void begin_time(struct rig *rig)
{
    rig->sent_ms = clock_boot_us() / 1000;
}

static void on_closed(void *ctx)
{
    struct rig *rig = ctx;
    if (--rig->closings == 0)
        reactor_stop(rig->reactor);
}

static void close_rig(struct rig *rig)
{
    rig->closings = (int)rig->target_count;
    for (size_t i = 0; i < rig->target_count; i++)
        rig->targets[i]->ops->close(rig->targets[i], on_closed, rig);
    assert_int_equal(rig->closings, (int)rig->target_count);
    if (rig->target_count > 0)
        run(rig);
    uv_close((uv_handle_t *)&rig->timeout, NULL);
    resolver_free(rig->resolver);
    reactor_free(rig->reactor);
    guard_free(rig->guard);
    http_peer_stop(rig->peer);
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- names ---- */

static pthread_mutex_t silence = PTHREAD_MUTEX_INITIALIZER;

/* Replaces the system's resolver: good.test is this machine, and other names get no answer
 * while `silence` is held. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    (void)service;
    (void)hints;
    if (strcmp(host, "good.test") != 0) {
        pthread_mutex_lock(&silence);
        pthread_mutex_unlock(&silence);
        return EAI_AGAIN;
    }
    struct sockaddr_in *address = calloc(1, sizeof *address);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *out = calloc(1, sizeof **out);
    **out = (struct addrinfo){.ai_family = AF_INET,
                              .ai_socktype = SOCK_STREAM,
                              .ai_addrlen = sizeof *address,
                              .ai_addr = (struct sockaddr *)address};
    return 0;
}

void freeaddrinfo(struct addrinfo *answer)
{
    if (answer)
        free(answer->ai_addr);
    free(answer);
}

static void send_name(struct rig *rig, uint64_t tag, const char *host)
{
    char url[128];
    (void)snprintf(url, sizeof url, "http://%s:%u/204", host, http_peer_port(rig->peer));
    struct target *target = target_http.open(&rig->env, &rig->setting, slice_of(url));
    assert_non_null(target);
    rig->targets[rig->target_count++] = target;
    send_url(rig, target, tag, url);
}

/* Thirty names whose name server is silent, of one topic: twenty of them are looked up in parallel, and
 * only these are to blame. */
static void waiting_for_other_look_ups_is_not_a_failure(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    char host[64];
    (void)state;
    open_rig(rig, policy);
    pthread_mutex_lock(&silence);
    begin_time(rig);
    for (uint64_t tag = 0; tag < 30; tag++) {
        (void)snprintf(host, sizeof host, "h%d.evil.test", (int)tag);
        send_name(rig, tag, host);
    }
    send_name(rig, 30, "good.test"); /* of the same topic */
    rig->job.topic = slice_of("payments");
    (void)snprintf(host, sizeof host, "http://good.test:%u/204", http_peer_port(rig->peer));
    send_url(rig, rig->targets[30], 31, host);
    run(rig);
    for (uint64_t tag = 0; tag < 31; tag++) {
        const struct target_report *report = &rig->notified[tag].report;
        assert_int_equal(report->outcome, tag < 30 ? TARGET_UNSENT : TARGET_DONE);
        assert_true(report->is_ailing == (tag < 20));
    }
    assert_int_equal(rig->notified[31].report.outcome, TARGET_DONE);
    assert_true(rig->notified[31].after_ms <= rig->notified[29].after_ms);
    pthread_mutex_unlock(&silence);
    rig->setting.timeout_ms = 10000;
    for (uint64_t tag = 0; tag < 30; tag++) {
        (void)snprintf(host, sizeof host, "http://h%d.evil.test:%u/", (int)tag,
                       http_peer_port(rig->peer));
        send_url(rig, rig->targets[tag], 40 + tag, host);
    }
    run(rig);
    for (uint64_t tag = 40; tag < 70; tag++) {
        assert_int_equal(rig->notified[tag].report.outcome, TARGET_UNSENT);
        assert_true(rig->notified[tag].report.is_ailing);
    }
    close_rig(rig);
    free(rig);
}

/* ---- evil ---- */

static const struct {
    const char *sentence, *path;
    enum target_outcome outcome;
    bool is_ailing, takes_all_time;
    uint32_t code;
    const char *error;
} evils[] = {
    {"a status line that never ends", "/drip-head", TARGET_FAILED, true, true, 0, TIMED_OUT},
    {"a body that never ends", "/drip-body", TARGET_DONE, false, true, 200, ""},
    {"no answer", "/hang", TARGET_FAILED, true, true, 0, TIMED_OUT},
    {"nothing after the header", "/hang-200", TARGET_DONE, false, true, 200, ""},
    {"nothing after a bad header", "/hang-500", TARGET_FAILED, true, true, 500, "http 500"},
    {"ten gigabytes", "/flood-200", TARGET_DONE, false, false, 200, ""},
    {"gone, and ten gigabytes", "/flood-410", TARGET_REFUSED, false, false, 410, "http 410"},
    {"endless headers", "/headers-200", TARGET_DONE, false, false, 200, ""},
    {"an endless header", "/header-500", TARGET_FAILED, true, false, 500, "http 500"},
    {"a status line of 320 KB", "/status-long", TARGET_FAILED, true, false, 0,
     "the answer's header is too long"},
    {"a trailer like a status line", "/trailer-500", TARGET_FAILED, true, false, 500, "http 500"},
    {"1xx for ever", "/flood-1xx", TARGET_FAILED, true, false, 0,
     "the answer's header is too long"},
    {"a redirect", "/redirect", TARGET_FAILED, false, false, 302,
     "http 302, redirects are not followed"},
    {"a reset in the status line", "/reset", TARGET_FAILED, true, false, 0, "connection lost"},
    {"a reset in the body", "/reset-200", TARGET_DONE, false, false, 200, ""},
    {"closed without a word", "/silent", TARGET_FAILED, true, false, 0, "closed without an answer"},
    {"no http", "/garbage", TARGET_FAILED, true, false, 0, "the answer is not http"},
    {"less than its length", "/short-200", TARGET_DONE, false, false, 200, ""},
    {"more than its length", "/long-200", TARGET_DONE, false, false, 200, ""},
    {"a bomb as content", "/bomb-content", TARGET_DONE, false, false, 200, ""},
    {"a bomb as transfer", "/bomb-transfer", TARGET_DONE, false, false, 200, ""},
    {"another protocol", "/101", TARGET_FAILED, true, true, 0, TIMED_OUT},
    {"500 for ever", "/500", TARGET_FAILED, true, false, 500, "http 500"},
    {"created", "/201", TARGET_DONE, false, false, 201, ""},
    {"bad request", "/400", TARGET_FAILED, false, false, 400, "http 400"},
    {"gone", "/410", TARGET_REFUSED, false, false, 410, "http 410"},
    {"a code that means dead here", "/422", TARGET_REFUSED, false, false, 422, "http 422"},
    {"too many requests", "/429", TARGET_FAILED, false, false, 429, "http 429"},
};

/* Begins with the requests that end by themselves: their floods would delay the heads of the others, which must arrive within the timeout. */
static void send_all_evils(struct rig *rig, struct target *target, uint64_t first)
{
    for (int takes_all_time = 0; takes_all_time < 2; takes_all_time++) {
        rig->setting.timeout_ms = takes_all_time ? TIMEOUT_MS : GRACE_MS;
        begin_time(rig);
        for (size_t i = 0; i < COUNT_OF(evils); i++)
            if (evils[i].takes_all_time == takes_all_time)
                send_path(rig, target, first + i, http_peer_port(rig->peer), evils[i].path);
        run(rig);
    }
}

static void each_bad_peer_is_reported_once_in_time_with_its_fault(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    rig->setting.dead_on[0] = (struct target_codes){.from = 420, .to = 423};
    rig->setting.dead_on_count = 1;
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_all_evils(rig, target, 0);
    for (size_t i = 0; i < COUNT_OF(evils); i++) {
        const struct notified *notified = &rig->notified[i];
        if (strcmp(notified->report.error, evils[i].error) != 0)
            fail_msg("%s: '%s'", evils[i].sentence, notified->report.error);
        CASE_HOLDS(evils[i].sentence, notified->times == 1);
        CASE_HOLDS(evils[i].sentence, notified->report.outcome == evils[i].outcome);
        CASE_HOLDS(evils[i].sentence, notified->report.is_ailing == evils[i].is_ailing);
        CASE_HOLDS(evils[i].sentence, notified->report.code == evils[i].code);
        CASE_HOLDS(evils[i].sentence, notified->report.retry_after_ms == -1);
        CASE_HOLDS(evils[i].sentence, notified->after_ms <= TIMEOUT_MS + GRACE_MS);
        CASE_HOLDS(evils[i].sentence, evils[i].takes_all_time ? notified->after_ms >= TIMEOUT_MS - 1
                                                              : notified->after_ms < GRACE_MS);
    }
    assert_int_equal(http_peer_requests(rig->peer, "/stolen"), 0);
    close_rig(rig);
    free(rig);
}

static void evil_leaks_no_descriptors_and_no_memory(void **state)
{
    size_t used[3];
    int before = descriptors();
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    for (size_t round = 0; round < COUNT_OF(used); round++) {
        send_all_evils(rig, target, round * COUNT_OF(evils));
        used[round] = mallinfo2().uordblks;
    }
    assert_true(used[2] < used[1] + 64 * 1024);
    close_rig(rig);
    free(rig);
    assert_int_equal(descriptors(), before);
}

static void failures_before_a_connection_are_reported_as_such(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    uint16_t dead = http_peer_dead_port(rig->peer), mute = http_peer_mute_port(rig->peer);
    struct target *refused = open_target(rig, "http", dead);
    struct target *stalled = open_target(rig, "https", mute);
    struct target *no_tls = open_target(rig, "https", http_peer_port(rig->peer));
    char url[64];
    begin_time(rig);
    send_path(rig, refused, 0, dead, "/");
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%u/", mute);
    for (uint64_t tag = 1; tag < 20; tag++)
        send_url(rig, stalled, tag, url);
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%u/", http_peer_port(rig->peer));
    send_url(rig, no_tls, 20, url);
    run(rig);
    assert_string_equal(rig->notified[0].report.error, "connection refused");
    for (uint64_t tag = 1; tag < 21; tag++) {
        assert_int_equal(rig->notified[tag].times, 1);
        assert_int_equal(rig->notified[tag].report.outcome, TARGET_FAILED);
        assert_true(rig->notified[tag].report.is_ailing);
        assert_true(rig->notified[tag].after_ms <= TIMEOUT_MS + GRACE_MS);
    }
    close_rig(rig);
    free(rig);
}

static void retry_after_is_obeyed_within_a_day(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, target, 0, http_peer_port(rig->peer), "/503-in-7");
    send_path(rig, target, 1, http_peer_port(rig->peer), "/429-far");
    run(rig);
    assert_int_equal(rig->notified[0].report.retry_after_ms, 7000);
    assert_int_equal(rig->notified[1].report.retry_after_ms, 24 * 60 * 60 * 1000);
    close_rig(rig);
    free(rig);
}

/* ---- connections ---- */

static void a_connection_carries_one_request_after_the_other(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    for (uint64_t tag = 0; tag < 50; tag++) {
        send_path(rig, target, tag, http_peer_port(rig->peer), "/204");
        run(rig);
        assert_int_equal(rig->notified[tag].report.outcome, TARGET_DONE);
    }
    assert_int_equal(http_peer_connections(rig->peer), 1);
    close_rig(rig);
    free(rig);
}

static void a_connection_that_closes_between_requests_costs_no_attempt(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    rig->setting.timeout_ms = 5000;
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    for (uint64_t tag = 0; tag < 600; tag += 20) {
        for (uint64_t i = 0; i < 20; i++)
            send_path(rig, target, tag + i, http_peer_port(rig->peer), "/fickle");
        run(rig);
    }
    for (uint64_t tag = 0; tag < 600; tag++) {
        assert_int_equal(rig->notified[tag].times, 1);
        assert_string_equal(rig->notified[tag].report.error, "");
        assert_int_equal(rig->notified[tag].report.outcome, TARGET_DONE);
    }
    close_rig(rig);
    free(rig);
}

/* An endpoint that leaves its first connection at the worst moment: after the target has looked at
 * it for its next request, before that is sent. */
struct leaver {
    int listening;
    uint16_t port;
    _Atomic int kept;  /* the first connection; -1: not connected yet */
    bool leaves_early; /* a moment sooner: the target can see it before it sends */
    bool reads_a_bit;  /* of the second request, and resets the connection then */
    int whole, begun;  /* requests read so far */
    pthread_t thread;
};

static struct leaver *leaver_armed; /* notified when the target checks its connection */

/* The target asks the kernel about a connection just before it sends: libcurl has then looked at it
 * for the last time. */
int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict bytes)
{
    struct leaver *leaver = level == IPPROTO_TCP ? leaver_armed : NULL;
    if (leaver && leaver->leaves_early)
        (void)shutdown(leaver->kept, SHUT_RDWR);
    int result = (int)syscall(SYS_getsockopt, fd, level, name, value, bytes);
    if (leaver && !leaver->reads_a_bit)
        (void)shutdown(leaver->kept, SHUT_RDWR);
    if (leaver)
        leaver_armed = NULL;
    return result;
}

static bool leaver_answer(struct leaver *leaver, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct linger at_once = {.l_onoff = 1};
    char request[4096] = "";
    size_t len = 0;
    bool is_second = leaver->reads_a_bit && leaver->whole == 1;
    while (!strstr(request, "\"total\":12}")) {
        ssize_t got = recv(fd, request + len, is_second ? 10 : sizeof request - 1 - len, 0);
        if (got <= 0)
            return false;
        leaver->begun += len == 0;
        len += (size_t)got;
        if (is_second) {
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            return false;
        }
    }
    leaver->whole++;
    return send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) > 0;
}

static void *leaver_run(void *ctx)
{
    struct leaver *leaver = ctx;
    int fd;
    while ((fd = accept(leaver->listening, NULL, NULL)) >= 0) {
        if (leaver->kept < 0)
            leaver->kept = fd;
        while (leaver_answer(leaver, fd))
            ;
        close(fd);
    }
    return NULL;
}

static void leaver_start(struct leaver *leaver)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    leaver->kept = -1;
    leaver->listening = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(leaver->listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(leaver->listening, 8), 0);
    (void)getsockname(leaver->listening, (struct sockaddr *)&address, &bytes);
    leaver->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&leaver->thread, NULL, leaver_run, leaver), 0);
}

static void leaver_stop(struct leaver *leaver)
{
    (void)shutdown(leaver->listening, SHUT_RDWR);
    (void)pthread_join(leaver->thread, NULL);
    close(leaver->listening);
}

/* Two requests one after the other; returns what became of the second. */
static struct target_report leave(struct leaver *leaver)
{
    struct rig *rig = malloc(sizeof *rig);
    open_rig(rig, policy);
    rig->setting.timeout_ms = 5000;
    leaver_start(leaver);
    struct target *target = open_target(rig, "http", leaver->port);
    send_path(rig, target, 0, leaver->port, "/");
    run(rig);
    assert_int_equal(rig->notified[0].report.outcome, TARGET_DONE);
    leaver_armed = leaver;
    send_path(rig, target, 1, leaver->port, "/");
    run(rig);
    struct target_report report = rig->notified[1].report;
    leaver_armed = NULL;
    close_rig(rig);
    leaver_stop(leaver);
    free(rig);
    return report;
}

/* Returns whether this kernel counts the bytes of a connection; qemu does not pass them on. */
static bool kernel_counts_bytes(void)
{
    char info[256];
    socklen_t bytes = sizeof info;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, info, &bytes), 0);
    close(fd);
    return bytes > 200;
}

/* A request that the peer did not read is sent again if the kernel proves that; else the attempt has failed. */
static void expect_sent_again(struct leaver *leaver)
{
    struct target_report report = leave(leaver);
    bool is_proved = kernel_counts_bytes();
    assert_string_equal(report.error, is_proved ? "" : "closed without an answer");
    assert_int_equal(report.outcome, is_proved ? TARGET_DONE : TARGET_FAILED);
    assert_int_equal(leaver->whole, is_proved ? 2 : 1);
}

static void an_unread_request_is_sent_again(void **state)
{
    (void)state;
    expect_sent_again(&(struct leaver){0});
}

static void a_connection_that_was_closed_already_takes_nothing(void **state)
{
    (void)state;
    expect_sent_again(&(struct leaver){.leaves_early = true});
}

static void a_request_that_was_read_in_part_is_not_sent_again(void **state)
{
    struct leaver leaver = {.reads_a_bit = true};
    (void)state;
    struct target_report report = leave(&leaver);
    assert_string_equal(report.error, "closed without an answer");
    assert_int_equal(report.outcome, TARGET_FAILED);
    assert_true(report.is_ailing);
    assert_int_equal(leaver.whole, 1);
    assert_int_equal(leaver.begun, 2);
}

static void close_abandons_requests_in_flight(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    rig->setting.timeout_ms = 60000;
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, target, 0, http_peer_port(rig->peer), "/204");
    send_path(rig, target, 1, http_peer_port(rig->peer), "/hang");
    while (rig->notified[0].times == 0 || http_peer_requests(rig->peer, "/hang") == 0)
        (void)uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
    struct target *fresh = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, fresh, 2, http_peer_port(rig->peer), "/204");
    assert_int_equal(rig->notified[1].times, 0);
    close_rig(rig);
    assert_int_equal(rig->notified[1].times, 1);
    assert_int_equal(rig->notified[1].report.outcome, TARGET_FAILED);
    assert_int_equal(rig->notified[2].times, 1);
    assert_int_equal(rig->notified[2].report.outcome, TARGET_UNSENT);
    free(rig);
}

/* ---- what the peer gets ---- */

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void the_body_is_untouched_and_the_rest_is_in_headers(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    static char body[70000], request[80000];
    struct buffer meta;
    (void)state;
    open_rig(rig, policy);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 7);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    assert_int_equal(job_meta_add(&meta, slice_of("kind"), slice_of("gr\xc3\xbc\xc3\x9f: a")), 0);
    assert_int_equal(job_meta_add(&meta, slice_of("none"), slice_of("")), 0);
    assert_int_equal(job_meta_add(&meta, slice_of("tarry-callback"), slice_of("http://x/")), 0);
    assert_int_equal(job_meta_add(&meta, slice_of("traceparent"), slice_of("cc-" TRACE "-x")), 0);
    assert_int_equal(job_meta_add(&meta, slice_of("tracestate"), slice_of("a=1")), 0);
    rig->job.meta = buffer_slice(&meta);
    rig->job.body = slice_make(body, sizeof body);
    rig->job.content_type = slice_of("text/plain\r\nEvil: yes");
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, target, 0, http_peer_port(rig->peer), "/204/{topic}/{meta.kind}?id={id}");
    run(rig);
    size_t len = http_peer_last(rig->peer, "/204/orders/gr%C3%BC%C3%9F%3A%20a?id=42", request,
                                sizeof request);
    assert_true(len > sizeof body);
    assert_memory_equal(request + len - sizeof body, body, sizeof body);
    static const char *const lines[] = {"\r\nContent-Type: text/plain??Evil: yes\r\n",
                                        "\r\nTarry-Topic: orders\r\n",
                                        "\r\nTarry-Id: 42\r\n",
                                        "\r\nTarry-Attempt: 3\r\n",
                                        "\r\nTarry-Due-At: 2026-11-18T11:06:40.123Z\r\n",
                                        "\r\nTarry-Meta-kind: gr\xc3\xbc\xc3\x9f: a\r\n",
                                        "\r\nTarry-Meta-none:\r\n",
                                        "\r\ntraceparent: 00-" TRACE "\r\n",
                                        "\r\ntracestate: a=1\r\n",
                                        "\r\nTarry-Meta-traceparent: cc-" TRACE "-x\r\n",
                                        "\r\nUser-Agent: tarry/9.9\r\n",
                                        "\r\nContent-Length: 70000\r\n"};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CASE_HOLDS(lines[i], strstr(request, lines[i]));
    static const char *const absent[] = {"Expect", "Accept-Encoding", "callback", "Cookie"};
    for (size_t i = 0; i < COUNT_OF(absent); i++)
        CASE_HOLDS(absent[i], !strstr(request, absent[i]));
    close_rig(rig);
    buffer_fini(&meta);
    free(rig);
}

static struct slice value_of(const char *request, const char *name)
{
    const char *at = strstr(request, name);
    assert_non_null(at);
    at += strlen(name);
    return slice_make(at, (size_t)(strstr(at, "\r\n") - at));
}

static void the_signature_covers_the_sent_bytes(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    char request[4096], expected[WEBHOOK_SIGNATURE_BYTES];
    struct guard_key keys[GUARD_KEYS_MAX];
    (void)state;
    open_rig(rig, policy);
    rig->setting.never_signs = false;
    rig->setting.sign = strdup("shop");
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, target, 0, http_peer_port(rig->peer), "/204");
    run(rig);
    assert_true(http_peer_last(rig->peer, "/204", request, sizeof request) > 0);
    struct slice id = value_of(request, "\r\nwebhook-id: ");
    struct slice at = value_of(request, "\r\nwebhook-timestamp: ");
    struct slice signature = value_of(request, "\r\nwebhook-signature: ");
    assert_int_equal(guard_find_keys(rig->guard, slice_of("shop"), keys), 1);
    assert_true(webhook_sign_with(&keys[0], id, atol(at.at), rig->job.body, expected));
    assert_true(slice_is(signature, expected));
    free(rig->setting.sign);
    rig->setting.sign = strdup("nobody");
    send_path(rig, target, 1, http_peer_port(rig->peer), "/201");
    run(rig);
    assert_int_equal(rig->notified[1].report.outcome, TARGET_FAILED);
    assert_non_null(strstr(rig->notified[1].report.error, "the policy file does not have the key"));
    assert_int_equal(http_peer_requests(rig->peer, "/201"), 0);
    free(rig->setting.sign);
    close_rig(rig);
    free(rig);
}

static void nothing_leaves_for_an_address_that_is_not_allowed(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, "allow-host = *\n");
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    send_path(rig, target, 0, http_peer_port(rig->peer), "/204");
    run(rig);
    assert_int_equal(rig->notified[0].report.outcome, TARGET_FAILED);
    assert_true(rig->notified[0].report.error[0]);
    assert_int_equal(http_peer_connections(rig->peer), 0);
    close_rig(rig);
    free(rig);
}

static void a_message_for_another_endpoint_is_refused(void **state)
{
    static const char *const urls[] = {"http://127.0.0.2/", "https://127.0.0.1/", "amqp://x", "",
                                       "http://127.0.0.1@evil/"};
    struct rig *rig = malloc(sizeof *rig);
    (void)state;
    open_rig(rig, policy);
    struct target *target = open_target(rig, "http", http_peer_port(rig->peer));
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        send_url(rig, target, i, urls[i]);
    run(rig);
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        assert_int_equal(rig->notified[i].report.outcome, TARGET_REFUSED);
    close_rig(rig);
    free(rig);
}

int main(void)
{
    setenv("UV_THREADPOOL_SIZE", "64", 1); /* as the server has it */
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_peer_is_reported_once_in_time_with_its_fault),
        cmocka_unit_test(evil_leaks_no_descriptors_and_no_memory),
        cmocka_unit_test(waiting_for_other_look_ups_is_not_a_failure),
        cmocka_unit_test(failures_before_a_connection_are_reported_as_such),
        cmocka_unit_test(retry_after_is_obeyed_within_a_day),
        cmocka_unit_test(a_connection_carries_one_request_after_the_other),
        cmocka_unit_test(a_connection_that_closes_between_requests_costs_no_attempt),
        cmocka_unit_test(an_unread_request_is_sent_again),
        cmocka_unit_test(a_connection_that_was_closed_already_takes_nothing),
        cmocka_unit_test(a_request_that_was_read_in_part_is_not_sent_again),
        cmocka_unit_test(close_abandons_requests_in_flight),
        cmocka_unit_test(the_body_is_untouched_and_the_rest_is_in_headers),
        cmocka_unit_test(the_signature_covers_the_sent_bytes),
        cmocka_unit_test(nothing_leaves_for_an_address_that_is_not_allowed),
        cmocka_unit_test(a_message_for_another_endpoint_is_refused),
    };
    return cmocka_run_group_tests_name("target_http", tests, NULL, NULL);
}
