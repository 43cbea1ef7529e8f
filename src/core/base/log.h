/*
 * log: one event a line on standard error or into a file.
 *
 * Form: time=… level=… event=… then key=value pairs as given; with log_open(.., true) one JSON
 * object a line instead. Values that hold blanks, quotes or control bytes are quoted and escaped;
 * text is cut at 256 bytes. Keys must need no escaping. Never log a body, a token or a secret. Any
 * thread; a line is written whole. log_open is called before threads start; until then events from
 * LOG_INFO on go to standard error.
 *
 * Where standard error is systemd's journal (JOURNAL_STREAM names it), a line begins with its
 * priority, <3> to <7>, and has no time: the journal has its own.
 */
#ifndef TARRY_BASE_LOG_H
#define TARRY_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG = 1, LOG_INFO, LOG_WARN, LOG_ERROR };

/* `path` NULL: standard error. False with errno set when the file cannot be opened. */
bool log_open(const char *path, enum log_level least, bool json);

/* Another least level, another form, from the next line on. Any thread. */
void log_set(enum log_level least, bool json);

/* Opens the same path again (after rotation). */
bool log_reopen(void);

/*
 * Where the lines of one thread go instead, from LOG_INFO on: to whoever uses the library that the thread works for.
 * `write` gets the line without time and level, ended by NUL; it is called on any of the threads, and may be
 * NULL: nobody listens. The sink outlives those threads.
 */
struct log_sink {
    void (*write)(void *ctx, int level, const char *line);
    void *ctx;
};
/* This thread's; NULL: the process's log. Threads that it starts (net/thread.h) have the same. Returns the one before. */
const struct log_sink *log_use_sink(const struct log_sink *sink);
const struct log_sink *log_sink(void);

/* log_event(LOG_INFO, "server started", LOG_TEXT("listen", address), LOG_NUMBER("shards", n)). At
 * most 12 fields. */
struct log_field {
    const char *key;
    const char *text; /* NULL: the number counts */
    int64_t number;
};

/* A text that is NULL is logged as nothing. */
static inline struct log_field log_field_text(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text ? text : ""};
}

#define LOG_TEXT(KEY, TEXT) log_field_text((KEY), (TEXT))
#define LOG_NUMBER(KEY, NUMBER) ((struct log_field){.key = (KEY), .number = (int64_t)(NUMBER)})
#define log_event(LEVEL, EVENT, ...)                                                               \
    log_fields((LEVEL), (EVENT), (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){0}})

void log_fields(enum log_level level, const char *event, const struct log_field *fields);

#endif
