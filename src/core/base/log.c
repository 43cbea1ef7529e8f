#include "base/log.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/log_ring.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 256, LINE_BYTES_MAX = 32 * 1024 };

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

/* Priorities as in sd-daemon(3). */
static const char *const journal_priorities[] = {
    [LOG_DEBUG] = "<7>", [LOG_INFO] = "<6>", [LOG_WARN] = "<4>", [LOG_ERROR] = "<3>"};
enum { JOURNAL_PRIORITY_BYTES = 3 };

/* The process's log. Set by log_open before threads start; the atomic fields may change afterwards.
 * The descriptor keeps its number when the file is reopened, so writers need no lock. */
static struct {
    int fd;
    _Atomic enum log_level level_min;
    atomic_bool json;
    atomic_bool is_torn; /* the last line has no end, because only a part was written */
    bool is_journal;
    char *path;
} logger = {.fd = STDERR_FILENO, .level_min = LOG_INFO};

static _Thread_local const struct log_sink *thread_sink;

const struct log_sink *log_use_sink(const struct log_sink *sink)
{
    const struct log_sink *before = thread_sink;
    thread_sink = sink;
    return before;
}

const struct log_sink *log_sink(void)
{
    return thread_sink;
}

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

/* Returns whether standard error is the journal. JOURNAL_STREAM is DEVICE:INODE of the journal's
 * end of a stream, as documented in systemd.exec(5). Child processes inherit it, so it is compared
 * with the current standard error. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    char own[64];
    if (!stream || fstat(STDERR_FILENO, &status) != 0)
        return false;
    (void)snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    return strcmp(stream, own) == 0;
}

bool log_open(const char *path, enum log_level level_min, bool json)
{
    int fd = STDERR_FILENO;
    char *copy = NULL;

    if (path) {
        copy = strdup(path);
        fd = copy ? open_file(path) : -1;
        if (fd < 0) {
            free(copy);
            return false;
        }
    }
    if (logger.fd != STDERR_FILENO)
        close(logger.fd);
    free(logger.path);
    logger.fd = fd;
    logger.path = copy;
    logger.level_min = level_min;
    logger.json = json;
    logger.is_torn = false;
    logger.is_journal = !path && stderr_is_journal();
    return true;
}

void log_set(enum log_level level_min, bool json)
{
    logger.level_min = level_min;
    logger.json = json;
}

bool log_reopen(void)
{
    if (!logger.path)
        return true;
    int fd = open_file(logger.path);
    if (fd < 0)
        return false;
    bool moved = dup3(fd, logger.fd, O_CLOEXEC) >= 0;
    int error = errno;
    close(fd);
    errno = error;
    return moved;
}

/* Returns the first TEXT_BYTES_MAX bytes, without half a character at the end. */
static struct slice cut(const char *text)
{
    return text_cut(slice_of(text), TEXT_BYTES_MAX);
}

static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte <= ' ' || byte >= 0x7f || byte == '"' || byte == '=' || byte == '\\')
            return false;
    }
    return text.len > 0;
}

/* Appends the text in quotes, with the escapes of JSON, and \\xNN for a byte that is not UTF-8. Escapes every character that a terminal interprets, and every
 * byte outside ASCII if the text is not UTF-8. */
static void append_quoted(struct buffer *line, struct slice text)
{
    bool utf8 = json_utf8_is_valid(text);
    uint32_t character;

    buffer_append_byte(line, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        struct slice rest = slice_make(text.at + i, text.len - i);
        size_t unshown = utf8 || byte < 0x80 ? text_unshown_bytes(rest, &character) : 0;
        if (byte == '"' || byte == '\\')
            buffer_append_format(line, "\\%c", byte);
        else if (byte == '\n')
            buffer_append_text(line, "\\n");
        else if (unshown)
            buffer_append_format(line, "\\u%04x", character);
        else if (byte >= 0x80 && !utf8)
            buffer_append_format(line, "\\x%02x", byte);
        else
            buffer_append_byte(line, (char)byte);
        i += unshown > 1 ? unshown - 1 : 0;
    }
    buffer_append_byte(line, '"');
}

static void append_value_as_text(struct buffer *line, const char *text)
{
    struct slice value = cut(text);

    if (is_plain(value))
        buffer_append_slice(line, value);
    else
        append_quoted(line, value);
}

static void append_text(struct buffer *line, bool is_json, const char *text)
{
    if (is_json)
        json_write_shown(line, cut(text));
    else
        append_value_as_text(line, text);
}

/* Appends a key. Keys are our own literals and need no escaping. */
static void append_key(struct buffer *line, bool is_json, const char *key)
{
    bool is_first = line->len == 1 + (logger.is_journal ? JOURNAL_PRIORITY_BYTES : 0);
    if (is_json) {
        buffer_append_byte(line, is_first ? '{' : ',');
        json_write_key(line, key);
    } else {
        if (!is_first)
            buffer_append_byte(line, ' ');
        buffer_append_text(line, key);
        buffer_append_byte(line, '=');
    }
}

/* Appends the whole line. The format is read once, because log_set may change it meanwhile. The
 * journal gets a priority instead of the time. */
static void append_line(struct buffer *line, enum log_level level, const char *event,
                        const struct log_field *fields)
{
    char now[TIMESTAMP_BYTES + 1] = "";
    bool is_json = logger.json;

    if (logger.is_journal) {
        buffer_append_text(line, journal_priorities[level]);
    } else {
        timestamp_write(now, clock_wall_ms());
        append_key(line, is_json, "time");
        append_text(line, is_json, now);
    }
    append_key(line, is_json, "level");
    append_text(line, is_json, level_names[level]);
    append_key(line, is_json, "event");
    append_text(line, is_json, event);
    for (int i = 0; i < LOG_FIELDS_MAX && fields[i].key; i++) {
        append_key(line, is_json, fields[i].key);
        if (fields[i].text)
            append_text(line, is_json, fields[i].text);
        else
            buffer_append_i64(line, fields[i].number);
    }
    buffer_append_text(line, is_json ? "}\n" : "\n");
}

/* Writes the bytes with one write(2), so that the lines of several threads do not mix. Returns the
 * number of bytes that were written: fewer for a pipe that does not block or a full disk. */
static size_t write_all(struct slice bytes)
{
    size_t done = 0;
    while (done < bytes.len) {
        ssize_t written = write(logger.fd, bytes.at + done, bytes.len - done);
        if (written == 0 || (written < 0 && errno != EINTR))
            break;
        if (written > 0)
            done += (size_t)written;
    }
    return done;
}

/* Writes the line, on a line of its own even if the previous one has no end. `line` begins with a
 * line break for that case. */
static void write_line(struct slice line)
{
    bool was_torn = atomic_exchange(&logger.is_torn, false);
    struct slice bytes = was_torn ? line : slice_make(line.at + 1, line.len - 1);
    size_t done = write_all(bytes);
    if (done == 0 ? was_torn : done < bytes.len)
        logger.is_torn = true;
}

/* Appends the line for the log ring, which shows the events of the running process. */
static void append_ring_line(struct buffer *line, enum log_level level, const char *event,
                             const struct log_field *fields)
{
    buffer_append_text(line, "{\"at\":");
    json_write_time(line, clock_wall_ms());
    buffer_append_text(line, ",\"level\":\"");
    buffer_append_text(line, level_names[level]);
    buffer_append_text(line, "\",\"event\":");
    json_write_string(line, cut(event));
    buffer_append_text(line, ",\"fields\":{");
    for (int i = 0; i < LOG_FIELDS_MAX && fields[i].key; i++) {
        if (i)
            buffer_append_byte(line, ',');
        json_write_key(line, fields[i].key);
        if (fields[i].text)
            json_write_string(line, cut(fields[i].text));
        else
            buffer_append_i64(line, fields[i].number);
    }
    buffer_append_text(line, "}}");
}

/* Writes the event and its fields to the sink. A sink gets every event from LOG_INFO on, whatever the
 * minimum level of the process is. */
static void sink_write(const struct log_sink *sink, enum log_level level, const char *event,
                       const struct log_field *fields)
{
    struct buffer line;
    if (level < LOG_INFO || !sink->write)
        return;
    buffer_init(&line, LINE_BYTES_MAX);
    buffer_append_text(&line, "event=");
    append_value_as_text(&line, event);
    for (int i = 0; i < LOG_FIELDS_MAX && fields[i].key; i++) {
        buffer_append_format(&line, " %s=", fields[i].key);
        if (fields[i].text)
            append_value_as_text(&line, fields[i].text);
        else
            buffer_append_i64(&line, fields[i].number);
    }
    buffer_append_byte(&line, '\0');
    if (!line.failed)
        sink->write(sink->ctx, (int)level, line.at);
    buffer_fini(&line);
}

void log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    struct buffer line;

    if (!thread_sink && level < logger.level_min)
        return;
    /* The caller often reports errno in its next line. */
    int error = errno;
    if (thread_sink) {
        sink_write(thread_sink, level, event, fields);
        errno = error;
        return;
    }
    buffer_init(&line, LINE_BYTES_MAX);
    buffer_append_byte(&line, '\n');
    append_line(&line, level, event, fields);
    if (!line.failed)
        write_line(buffer_slice(&line));
    buffer_clear(&line);
    append_ring_line(&line, level, event, fields);
    if (!line.failed)
        log_ring_add(buffer_slice(&line));
    buffer_fini(&line);
    errno = error;
}
