/*
 * log: writes one line per event to standard error or a file.
 *
 * Format: time=… level=… event=… followed by the given key=value pairs; with log_open(.., true),
 * one JSON object per line. A value is quoted unless it is printable ASCII without blank, quote, '='
 * and backslash; text is truncated to 256 bytes. A key contains only letters, digits and '_'. Never
 * log a body, a token or a secret. Any thread may log; a line is one write. Call log_open before
 * threads start; until then, events from LOG_INFO on go to standard error.
 *
 * If standard error is systemd's journal (JOURNAL_STREAM identifies it), a line begins with its
 * priority, <3> to <7>, and has no time, because the journal adds its own.
 */
#ifndef TARRY_BASE_LOG_H
#define TARRY_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG = 1, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Opens the log. `path` NULL: standard error. Returns false with errno set if the file cannot be
 * opened. */
bool log_open(const char *path, enum log_level level_min, bool json);

/* Changes the minimum level and the format from the next line on. Any thread. */
void log_set(enum log_level level_min, bool json);

/* Reopens the same path (after rotation). Returns true if there is no file. Returns false with errno
 * set; the old file is then kept. */
bool log_reopen(void);

/*
 * A destination for the lines of a thread, and of the threads that it starts, from LOG_INFO on: the
 * program that uses tarry as a library. `write` gets the line without time and level, ending with
 * NUL. It may be called on any of these threads, and may be NULL, which discards the lines. The sink
 * outlives the threads.
 */
struct log_sink {
    void (*write)(void *ctx, int level, const char *line);
    void *ctx;
};
/* Sets this thread's sink; NULL: the process's log. Threads that this thread starts (net/thread.h)
 * inherit it. Returns the previous sink. */
const struct log_sink *log_use_sink(const struct log_sink *sink);
const struct log_sink *log_sink(void);

enum { LOG_FIELDS_MAX = 16 };

/* A field of log_event(LOG_INFO, "server started", LOG_TEXT("listen", address),
 * LOG_NUMBER("shards", n)). The compiler rejects more than LOG_FIELDS_MAX fields. */
struct log_field {
    const char *key;
    const char *text; /* NULL: use the number */
    int64_t number;
};

/* Returns a text field. A NULL text is logged as an empty text. */
static inline struct log_field log_field_text(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text ? text : ""};
}

#define LOG_TEXT(KEY, TEXT) log_field_text((KEY), (TEXT))
#define LOG_NUMBER(KEY, NUMBER) ((struct log_field){.key = (KEY), .number = (int64_t)(NUMBER)})
/* 1 if there are at most LOG_FIELDS_MAX arguments; otherwise one of them, which is not a constant. */
#define LOG_FITS(...)                                                                              \
    LOG_EIGHTEENTH(0 __VA_OPT__(, ) __VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,   \
                   1, 1)
#define LOG_EIGHTEENTH(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, ...) R
#define log_event(LEVEL, EVENT, ...)                                                               \
    ((void)sizeof(struct {                                                                         \
         _Static_assert(LOG_FITS(__VA_ARGS__), "a log event has at most 16 fields");               \
         char checked;                                                                             \
     }),                                                                                           \
     log_fields((LEVEL), (EVENT), (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){0}}))

/* Does the work of log_event. `fields` ends with a field without a key, after LOG_FIELDS_MAX at
 * most. */
void log_fields(enum log_level level, const char *event, const struct log_field *fields);

#endif
