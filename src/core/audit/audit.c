#include "audit/audit.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 16 * 1024 };

/* The lock is for what lies between the first and the last byte of a line, and for the two flags. */
static struct {
    pthread_mutex_t lock;
    int fd;
    char *path;
    bool is_torn;    /* the file ends within a line */
    bool is_failing; /* that has been told */
    _Atomic uint64_t events, failures;
} audit = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* ---- the file ---- */

static int open_audit_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

bool audit_open(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open_audit_file(path) : -1;
    if (fd < 0) {
        free(copy);
        return false;
    }
    audit_close();
    audit.fd = fd;
    audit.path = copy;
    return true;
}

bool audit_reopen(void)
{
    if (!audit.path)
        return true;
    int fd = open_audit_file(audit.path);
    if (fd < 0)
        return false;
    pthread_mutex_lock(&audit.lock);
    (void)close(audit.fd);
    audit.fd = fd;
    audit.is_torn = false;
    pthread_mutex_unlock(&audit.lock);
    return true;
}

void audit_close(void)
{
    if (audit.fd >= 0)
        (void)close(audit.fd);
    free(audit.path);
    audit.fd = -1;
    audit.path = NULL;
    audit.is_torn = audit.is_failing = false;
}

/* ---- one event ---- */

static void write_text(struct buffer *line, const char *key, const char *text)
{
    if (text)
        json_write_member_text(line, key, slice_of(text));
}

static void write_line(struct buffer *line, const struct audit_event *event)
{
    buffer_append_text(line, "{\"time\":");
    json_write_time(line, clock_wall_ms());
    write_text(line, "action", event->action);
    write_text(line, "caller", event->caller);
    write_text(line, "kind", event->kind);
    write_text(line, "peer", event->peer);
    write_text(line, "topic", event->topic);
    write_text(line, "job", event->job);
    if (event->counts_jobs)
        json_write_member_number(line, "jobs", event->jobs);
    write_text(line, "detail", event->detail);
    write_text(line, "outcome", event->outcome);
    buffer_append_text(line, "}\n");
}

/* One write(2) for the line. False with errno set: it is not in the file as a whole. */
static bool append_line(const struct buffer *line)
{
    size_t skipped = audit.is_torn ? 0 : 1; /* a line end in front, where the last line has none */
    ssize_t wanted = (ssize_t)(line->len - skipped), done;
    do
        done = write(audit.fd, line->at + skipped, (size_t)wanted);
    while (done < 0 && errno == EINTR);
    if (done == wanted) {
        audit.is_torn = false;
        return true;
    }
    if (done > (audit.is_torn ? 1 : 0))
        audit.is_torn = true;
    if (done >= 0)
        errno = ENOSPC;
    return false;
}

/* It is told when it begins, and when it is over: not with every event. */
static void note_outcome(bool is_written, int error)
{
    bool is_news = audit.is_failing == is_written;
    audit.is_failing = !is_written;
    if (!is_written)
        atomic_fetch_add_explicit(&audit.failures, 1, memory_order_relaxed);
    if (is_news && is_written)
        log_event(LOG_INFO, "the audit file is written again", LOG_TEXT("path", audit.path));
    else if (is_news)
        log_event(LOG_ERROR, "cannot write the audit file, changes go on and stand in the log only",
                  LOG_TEXT("path", audit.path), LOG_TEXT("error", strerror(error)));
}

static void append_to_file(const struct audit_event *event)
{
    struct buffer line;
    buffer_init(&line, LINE_BYTES_MAX);
    buffer_append_byte(&line, '\n');
    write_line(&line, event);
    pthread_mutex_lock(&audit.lock);
    bool is_written = !line.failed && append_line(&line);
    note_outcome(is_written, line.failed ? ENOMEM : errno);
    pthread_mutex_unlock(&audit.lock);
    buffer_fini(&line);
}

static void append_to_log(const struct audit_event *event)
{
    const struct {
        const char *key, *text;
    } texts[] = {
        {"action", event->action}, {"caller", event->caller},   {"kind", event->kind},
        {"peer", event->peer},     {"topic", event->topic},     {"job", event->job},
        {"detail", event->detail}, {"outcome", event->outcome},
    };
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    struct log_field fields[TEXTS + 2] = {0};
    size_t count = 0;
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i].text)
            fields[count++] = LOG_TEXT(texts[i].key, texts[i].text);
    if (event->counts_jobs)
        fields[count++] = LOG_NUMBER("jobs", event->jobs);
    bool is_ok = event->outcome && strcmp(event->outcome, AUDIT_OUTCOME_OK) == 0;
    log_fields(is_ok ? LOG_INFO : LOG_WARN, "audit", fields);
}

void audit_event(const struct audit_event *event)
{
    atomic_fetch_add_explicit(&audit.events, 1, memory_order_relaxed);
    append_to_log(event);
    if (audit.path)
        append_to_file(event);
}

uint64_t audit_events(void)
{
    return atomic_load_explicit(&audit.events, memory_order_relaxed);
}

uint64_t audit_failures(void)
{
    return atomic_load_explicit(&audit.failures, memory_order_relaxed);
}

enum { EVENTS, FAILURES };

void audit_emit_metrics(struct metric_page *page)
{
    metric_write(page, &audit_metrics[EVENTS], audit_events());
    metric_write(page, &audit_metrics[FAILURES], audit_failures());
}

const struct metric audit_metrics[] = {
    [EVENTS] = {.name = "tarry_audit_events_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Administrative changes, and other audit events.",
                .meaning = "A user changes settings, pauses, purges or redrives: the audit has the "
                           "caller and the change."},
    [FAILURES] = {.name = "tarry_audit_failures_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Events that the audit file does not have: it could not be written.",
                  .meaning = "Alert on it if the audit must be complete: check its disk."},
    METRIC_END};
