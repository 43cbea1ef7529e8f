/*
 * dump: what an export holds: one JSON object a line. Pure.
 *
 *   {"tarry_export":1,"at":TIME,"topics":[NAME,…],"jobs":N}  first: what is to come, N about
 *   {"topic":NAME,"settings":{…},"paused":BOOL}              a topic, before its jobs
 *   {"topic":NAME,"id":ID,"at":MS,…}                         a job: what an item of a batch push is
 *   {"topic":NAME,"cursor":CURSOR}                           its jobs up to here are in
 *   {"tarry_export_end":1,"topics":COUNT,"jobs":COUNT}       last: nothing is missing
 *
 * A leased job is due at the end of its lease, and the attempt under way does not count. Bodies
 * come out of an import byte for byte: as JSON or as text where that is so, else in base64.
 */
#ifndef TARRY_CLI_DUMP_H
#define TARRY_CLI_DUMP_H

#include "base/buffer.h"
#include "job/job.h"

enum dump_kind {
    DUMP_MALFORMED = 1, /* no JSON object */
    DUMP_HEAD,
    DUMP_TOPIC,
    DUMP_JOB, /* also what is none of the others: the server says what is wrong with it */
    DUMP_CURSOR,
    DUMP_END
};

enum { DUMP_CURSOR_BYTES_MAX = 512 };

struct dump_line {
    enum dump_kind kind;
    int64_t version;                     /* head */
    struct slice topics;                 /* head: see dump_next_name */
    uint64_t jobs;                       /* head: about, 0: it does not say; end: job lines */
    uint64_t topic_lines;                /* end */
    char topic[JOB_TOPIC_BYTES_MAX + 1]; /* topic, cursor */
    struct slice settings;               /* topic: a JSON object */
    bool paused;                         /* topic */
    int64_t paused_until_ms;             /* topic: 0: until resumed */
    char cursor[DUMP_CURSOR_BYTES_MAX];
    int64_t at_ms;        /* job: due; 0: it does not say */
    bool has_on_conflict; /* job */
};

/* Slices of *out are of `text`. */
void dump_read(struct slice text, struct dump_line *out);
/* The names in a head, one after the other. Start with *at = NULL; false at the end. */
bool dump_next_name(struct slice topics, const char **at, char name[JOB_TOPIC_BYTES_MAX + 1]);

struct dump_name {
    char text[JOB_TOPIC_BYTES_MAX + 1];
};

/* Each writes whole lines. */
void dump_write_head(struct buffer *out, int64_t now_ms, const struct dump_name *topics,
                     size_t count, uint64_t jobs);
void dump_write_end(struct buffer *out, size_t topics, uint64_t jobs);

/* From the server's answers: of a topic; of a list with bodies in base64: its jobs, and a cursor
 * where there are more (else `cursor` is empty). False: it is no such answer. */
bool dump_write_topic(struct buffer *out, struct slice answer);
bool dump_write_page(struct buffer *out, struct slice answer, struct buffer *scratch,
                     uint64_t *jobs, char cursor[DUMP_CURSOR_BYTES_MAX]);

#endif
