#include "server/process.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOTIFY_WAIT_MS = 1000 };

/* Raises the limit of open files to the maximum that the system allows. */
static uint64_t raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

/* Configures malloc to return the large buffers of checkpoints to the system instead of keeping
 * them in a heap. */
static void size_heap(void)
{
    enum { MMAP_BYTES = 1 << 20, TRIM_BYTES = 16 << 20 };
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
}

/* Sets the size of libuv's thread pool. libuv uses half of the threads for name lookups. The size
 * is large enough that a few unresponsive name servers do not delay other lookups. A value in the
 * environment takes precedence. */
static void size_pool(void)
{
    (void)setenv("UV_THREADPOOL_SIZE", "64", 0);
}

uint64_t process_prepare(bool core_dumps)
{
    if (!core_dumps)
        (void)prctl(PR_SET_DUMPABLE, 0);
    size_pool();
    size_heap();
    (void)signal(SIGPIPE, SIG_IGN);
    return raise_files();
}

static volatile sig_atomic_t exit_code;

static void on_alarm(int number)
{
    (void)number;
    _exit(exit_code);
}

void process_exit_by(unsigned seconds, int code)
{
    struct sigaction action = {.sa_handler = on_alarm};
    exit_code = code;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(seconds);
}

/* Sends a state to systemd. The kernel keeps only some ten states that systemd has not read, and
 * then a send waits: here for `wait_ms`, 0: not at all. */
static void notify(const char *state, int wait_ms)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || !*path || strlen(path) >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, strlen(path));
    if (to.sun_path[0] == '@')
        to.sun_path[0] = '\0'; /* an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | (wait_ms ? 0 : MSG_DONTWAIT),
                 (const struct sockaddr *)&to, len);
    close(fd);
}

void process_notify(const char *state)
{
    notify(state, NOTIFY_WAIT_MS);
}

/* Notifies systemd of a state that is repeated soon. Does not wait: skips the notification if
 * systemd does not read. */
static void process_notify_or_skip(const char *state)
{
    notify(state, 0);
}

struct memory_use {
    uint64_t all_bytes, resident_bytes;
};

static struct memory_use memory_use(void)
{
    unsigned long total = 0, resident = 0;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return (struct memory_use){0};
    int fields = fscanf(file, "%lu %lu", &total, &resident);
    fclose(file);
    if (fields != 2)
        return (struct memory_use){0};
    return (struct memory_use){.all_bytes = total * page_bytes,
                               .resident_bytes = resident * page_bytes};
}

/* Counts the names in a directory, except "." and "..". It does not use opendir, because the thread
 * sanitizer sees neither its descriptor nor how libuv closes descriptors. It would mistake the
 * number for a connection that another thread had before. */
static uint64_t count_names(const char *path)
{
    uint64_t count = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (readdir(dir))
        count++;
    closedir(dir);
    return count > 2 ? count - 2 : 0;
}

static uint64_t open_files(void)
{
    uint64_t count = count_names("/proc/self/fd");
    return count > 1 ? count - 1 : 0; /* the descriptor of the directory itself is not counted */
}

static int64_t cpu_us(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

enum { RESIDENT, VIRTUAL, CPU, OPEN_FILES, FILES_MAX, THREADS };

const struct metric process_metrics[] = {
    [RESIDENT] = {.name = "process_resident_memory_bytes",
                  .type = PROMETHEUS_GAUGE,
                  .help = "Resident memory of the process, including pages of its files.",
                  .meaning = "Follows the number of jobs that are due soon. `--max-memory` limits "
                             "`tarry_memory_bytes` instead."},
    [VIRTUAL] = {.name = "process_virtual_memory_bytes",
                 .type = PROMETHEUS_GAUGE,
                 .help = "Address space of the process.",
                 .meaning = "Much larger than the resident memory, and not a measure of it."},
    [CPU] = {.name = "process_cpu_seconds_total",
             .type = PROMETHEUS_COUNTER,
             .help = "Processor time of the process, in user and system mode.",
             .meaning = "Its rate is cores in use. A loop is one thread: near 1 for each of "
                        "`--shards` means that it is full, and jobs will come late."},
    [OPEN_FILES] = {.name = "process_open_fds",
                    .type = PROMETHEUS_GAUGE,
                    .help = "Open file descriptors.",
                    .meaning = "Grows with connections. Near `process_max_fds` connections are "
                               "refused: raise `LimitNOFILE`."},
    [FILES_MAX] = {.name = "process_max_fds",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Limit of open file descriptors.",
                   .meaning = "The limit with which the server was started."},
    [THREADS] = {.name = "process_threads",
                 .type = PROMETHEUS_GAUGE,
                 .help = "Threads.",
                 .meaning = "Five per shard of the embedded store, and those that look up names. "
                            "Grows without end: report it."},
    METRIC_END};

void process_emit_metrics(struct metric_page *page)
{
    struct rlimit files = {0};
    struct memory_use memory = memory_use();
    getrlimit(RLIMIT_NOFILE, &files);
    metric_write(page, &process_metrics[RESIDENT], memory.resident_bytes);
    metric_write(page, &process_metrics[VIRTUAL], memory.all_bytes);
    metric_write_time(page, &process_metrics[CPU], cpu_us(), 1000000);
    metric_write(page, &process_metrics[OPEN_FILES], open_files());
    metric_write(page, &process_metrics[FILES_MAX], files.rlim_cur);
    metric_write(page, &process_metrics[THREADS], count_names("/proc/self/task"));
}

/* ---- watchdog ---- */

/* Returns the number in an environment variable, or 0. */
static uint64_t variable_number(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;
    return text && text_parse_u64(slice_of(text), INT64_MAX, &number) ? number : 0;
}

int64_t watchdog_interval_ms(void)
{
    uint64_t pid = variable_number("WATCHDOG_PID");
    if (pid && pid != (uint64_t)getpid())
        return 0;
    return (int64_t)(variable_number("WATCHDOG_USEC") / 1000);
}

/* Records the answer of a reactor; back on the first reactor. */
static void run_answer(struct letter *letter)
{
    struct watchdog_ping *ping = (struct watchdog_ping *)(void *)letter;
    ping->watchdog->unanswered--;
}

/* Answers on the pinged reactor. */
static void run_ping(struct letter *letter)
{
    struct watchdog_ping *ping = (struct watchdog_ping *)(void *)letter;
    ping->letter.run = run_answer;
    reactor_post(ping->watchdog->first, &ping->letter);
}

/* Notifies systemd if all reactors have answered since the last notification, then pings them
 * again. */
static void on_tick(void *ctx)
{
    struct watchdog *watchdog = ctx;
    deadline_set(watchdog->deadline, clock_inner_ms() + watchdog->pause_ms);
    if (watchdog->unanswered > 0)
        return;
    process_notify_or_skip("WATCHDOG=1");
    watchdog->unanswered = watchdog->count;
    for (uint32_t i = 0; i < watchdog->count; i++) {
        struct watchdog_ping *ping = &watchdog->pings[i];
        ping->letter.run = run_ping;
        reactor_post(ping->reactor, &ping->letter);
    }
}

bool watchdog_open(struct watchdog *watchdog, struct reactor *first)
{
    int64_t interval_ms = watchdog_interval_ms();
    watchdog->first = first;
    if (interval_ms == 0)
        return true;
    watchdog->pause_ms = interval_ms / 3 > 0 ? interval_ms / 3 : 1;
    watchdog->deadline = deadline_new(first, on_tick, watchdog);
    return watchdog->deadline != NULL;
}

void watchdog_add(struct watchdog *watchdog, struct reactor *reactor)
{
    assert(watchdog->count < WATCHDOG_REACTORS_MAX);
    watchdog->pings[watchdog->count++] =
        (struct watchdog_ping){.watchdog = watchdog, .reactor = reactor};
}

void watchdog_start(struct watchdog *watchdog)
{
    if (watchdog->deadline)
        on_tick(watchdog);
}

void watchdog_close(struct watchdog *watchdog)
{
    if (watchdog->deadline)
        deadline_free(watchdog->deadline);
    watchdog->deadline = NULL;
}
