#include "audit/audit.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/trouble.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 16 * 1024 };

/* The audit file. The lock covers the writing of a line and the two flags. */
static struct {
    pthread_mutex_t lock;
    int fd;
    char *path;
    bool is_torn;    /* the file ends in the middle of a line */
    bool is_failing; /* the failure has been logged */
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
    if (event->left_out)
        json_write_member_number(line, "left_out", event->left_out);
    write_text(line, "detail", event->detail);
    write_text(line, "outcome", event->outcome);
    buffer_append_text(line, "}\n");
}

/* Writes the line with one write(2). Returns false with errno set if the file lacks a part of it. */
static bool append_line(const struct buffer *line)
{
    size_t skipped = audit.is_torn ? 0 : 1; /* a line end in front if the last line lacks it */
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

/* Logs the beginning and the end of a failure, not every event. */
static void note_outcome(bool is_written, int error)
{
    bool is_notification = audit.is_failing == is_written;
    audit.is_failing = !is_written;
    trouble_note(TROUBLE_AUDIT_FILE, 0, !is_written);
    if (!is_written)
        atomic_fetch_add_explicit(&audit.failures, 1, memory_order_relaxed);
    if (is_notification && is_written)
        log_event(LOG_INFO, "the audit file is written again", LOG_TEXT("path", audit.path));
    else if (is_notification)
        log_event(LOG_ERROR,
                  "cannot write the audit file, changes continue and are recorded only in the log",
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
    struct log_field fields[TEXTS + 3] = {0};
    size_t count = 0;
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i].text)
            fields[count++] = LOG_TEXT(texts[i].key, texts[i].text);
    if (event->counts_jobs)
        fields[count++] = LOG_NUMBER("jobs", event->jobs);
    if (event->left_out)
        fields[count++] = LOG_NUMBER("left_out", event->left_out);
    bool is_ok = event->outcome && strcmp(event->outcome, AUDIT_OUTCOME_OK) == 0;
    log_fields(is_ok ? LOG_INFO : LOG_WARN, "audit", fields);
}

static void append(const struct audit_event *event)
{
    append_to_log(event);
    if (audit.path)
        append_to_file(event);
}

/* ---- limits on events of refused changes ---- */

/* Callers with colliding hashes share an entry. */
enum { SENDERS = 64, SENDER_BYTES = 128, EACH_MS = 1000 / AUDIT_REFUSED_PER_S };

static struct sender {
    int64_t full_ms; /* when the full burst is available again */
    uint64_t left_out;
    const char *kind;
    char caller[SENDER_BYTES], peer[SENDER_BYTES]; /* of the first omitted event */
} senders[SENDERS];

static pthread_mutex_t senders_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the address without its port, which differs for each connection. */
static struct slice address_of(const char *peer)
{
    const char *colon = peer ? strrchr(peer, ':') : NULL;
    return colon ? slice_make(peer, (size_t)(colon - peer)) : (struct slice){0};
}

static struct sender *sender_of(const struct audit_event *event)
{
    bool has_name = event->kind && strcmp(event->kind, "anonymous") != 0;
    struct slice address = has_name ? (struct slice){0} : address_of(event->peer);
    return &senders[hash_pair(slice_of(event->caller), address, 0).low % SENDERS];
}

static bool is_one_too_many(const struct audit_event *event)
{
    int64_t now_ms = clock_boot_ms();
    struct sender *sender = sender_of(event);
    pthread_mutex_lock(&senders_lock);
    int64_t from_ms = sender->full_ms > now_ms ? sender->full_ms : now_ms;
    bool is_too_many = from_ms + EACH_MS - now_ms > AUDIT_REFUSED_BURST * EACH_MS;
    if (!is_too_many) {
        sender->full_ms = from_ms + EACH_MS;
    } else if (sender->left_out++ == 0) {
        sender->kind = event->kind;
        (void)snprintf(sender->caller, sizeof sender->caller, "%s", event->caller);
        (void)snprintf(sender->peer, sizeof sender->peer, "%s", event->peer ? event->peer : "");
    }
    pthread_mutex_unlock(&senders_lock);
    return is_too_many;
}

static void log_left_out(const struct sender *sender)
{
    append(&(struct audit_event){.action = "events left out",
                                 .caller = sender->caller,
                                 .kind = sender->kind,
                                 .peer = sender->peer[0] ? sender->peer : NULL,
                                 .left_out = sender->left_out});
}

bool audit_log_left_out(void)
{
    bool has_logged = false;
    for (size_t i = 0; i < SENDERS; i++) {
        pthread_mutex_lock(&senders_lock);
        const struct sender sender = senders[i];
        senders[i].left_out = 0;
        pthread_mutex_unlock(&senders_lock);
        if (sender.left_out)
            log_left_out(&sender);
        has_logged |= sender.left_out != 0;
    }
    return has_logged;
}

/* ---- events ---- */

static bool was_done(const struct audit_event *event)
{
    return event->outcome && strcmp(event->outcome, AUDIT_OUTCOME_OK) == 0;
}

void audit_event(const struct audit_event *event)
{
    atomic_fetch_add_explicit(&audit.events, 1, memory_order_relaxed);
    if (was_done(event) || !event->caller || !is_one_too_many(event))
        append(event);
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
