#include "server/process.h"

#include <dirent.h>
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

/* As far as the system lets it. */
static uint64_t raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

/* Large buffers come and go with checkpoints: given back to the system, not kept in some heap. */
static void size_heap(void)
{
    enum { MMAP_BYTES = 1 << 20, TRIM_BYTES = 16 << 20 };
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
}

/* The loop's library looks up names on half of these: so many at a time that a few whose name
 * server is silent hold up no other. What the environment says stands. */
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

void process_notify(const char *state)
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
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, len);
    close(fd);
}

static uint64_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    int fields = fscanf(file, "%lu %lu", &total, &resident);
    fclose(file);
    return fields == 2 ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static double cpu_seconds(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void emit_figure(struct buffer *out, const char *name, const char *kind, const char *help,
                        double value)
{
    buffer_append_format(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind,
                         name, value);
}

void process_emit_metrics(struct buffer *out)
{
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    emit_figure(out, "process_resident_memory_bytes", "gauge", "memory in RAM",
                (double)resident_bytes());
    emit_figure(out, "process_cpu_seconds_total", "counter", "CPU time used", cpu_seconds());
    emit_figure(out, "process_open_fds", "gauge", "open file descriptors", (double)open_files());
    emit_figure(out, "process_max_fds", "gauge", "limit of open file descriptors",
                (double)files.rlim_cur);
}
