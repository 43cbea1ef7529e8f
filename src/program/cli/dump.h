/*
 * dump: the export format, one JSON object per line. Pure.
 *
 * {"tarry_export":1,"at":TIME,"topics":[NAME,…],"jobs":N}  first: the contents, N is approximate;
 *                                                          with "finished":true also finished jobs
 * {"topic":NAME,"group":GROUP,"group_settings":{…}}        settings of a group, before its topic
 * {"topic":NAME,"settings":{…},"paused":BOOL}              a topic, before its jobs
 * {"topic":NAME,"id":ID,"at":MS,…}                         a job, as an item of a batch push
 * {"topic":NAME,"cursor":CURSOR}                           its jobs up to here are complete
 * {"topic":NAME,"cursor":"","state":"finished"}            all its jobs are; finished ones follow
 * {"topic":NAME,"id":ID,"state":"finished",…}              a finished job, as in a list
 * {"topic":NAME,"cursor":CURSOR,"state":"finished"}        finished jobs up to here are complete
 * {"tarry_export_end":1,"topics":COUNT,"jobs":COUNT}       last: the export is complete; with
 *                                                          "finished":COUNT for finished jobs
 *
 * A leased job is due at the end of its lease, and the attempt in progress does not count. An
 * import restores bodies byte for byte: they are written as JSON or text if that is exact, else in
 * base64. Bodies and results of finished jobs are always in base64.
 */
#ifndef TARRY_CLI_DUMP_H
#define TARRY_CLI_DUMP_H

#include "base/buffer.h"
#include "job/job.h"

enum dump_kind {
    DUMP_MALFORMED = 1, /* not a JSON object */
    DUMP_HEAD,
    DUMP_TOPIC,
    DUMP_GROUP,
    DUMP_JOB,      /* also any other object: the server reports what is wrong with it */
    DUMP_FINISHED, /* a finished job */
    DUMP_CURSOR,
    DUMP_END
};

enum { DUMP_CURSOR_BYTES_MAX = 512 };

struct dump_line {
    enum dump_kind kind;
    int64_t version;                     /* head */
    struct slice topics;                 /* head: see dump_next_name */
    uint64_t jobs;                       /* head: approximate, 0: not given; end: job lines */
    uint64_t topic_lines;                /* end */
    uint64_t finished_lines;             /* end */
    bool is_finished;                    /* head: with finished jobs; cursor: of finished jobs */
    char topic[JOB_TOPIC_BYTES_MAX + 1]; /* topic, group, cursor */
    char group[JOB_GROUP_BYTES_MAX + 1]; /* group */
    struct slice settings;               /* topic, group: a JSON object */
    bool paused;                         /* topic */
    int64_t paused_until_ms;             /* topic: 0: paused until resumed */
    char cursor[DUMP_CURSOR_BYTES_MAX];
    int64_t at_ms;        /* job: due; finished: its end; 0: not given */
    bool has_on_conflict; /* job */
};

/* Parses one line. Slices of *out point into `text`. */
void dump_read(struct slice text, struct dump_line *out);
/* Iterates over the names in a head. Start with *at = NULL. Returns false at the end. */
bool dump_next_name(struct slice topics, const char **at, char name[JOB_TOPIC_BYTES_MAX + 1]);

struct dump_name {
    char text[JOB_TOPIC_BYTES_MAX + 1];
};

/* Append whole lines. */
struct dump_contents {
    uint64_t jobs, finished; /* the head has only an approximate number of jobs */
    bool has_finished;       /* with finished jobs */
};
void dump_write_head(struct buffer *out, int64_t now_ms, const struct dump_name *topics,
                     size_t count, const struct dump_contents *contents);
void dump_write_end(struct buffer *out, size_t topics, const struct dump_contents *contents);
/* Appends the line before the finished jobs of a topic. */
void dump_write_finished_begin(struct buffer *out, const char *topic);

/* Append lines from the server's answers. dump_write_topic takes the answer for a topic.
 * dump_write_page takes a list with bodies in base64, or of finished jobs, which are written as they
 * are. It writes the jobs, and a cursor if more follow (else `cursor` is empty). Return false if the answer has another form. */
bool dump_write_topic(struct buffer *out, struct slice answer);
/* The same for the groups of a list that have settings. `cursor` is that of the next page, or empty. */
bool dump_write_groups(struct buffer *out, const char *topic, struct slice answer,
                       char cursor[DUMP_CURSOR_BYTES_MAX]);
bool dump_write_page(struct buffer *out, struct slice answer, bool is_finished,
                     struct buffer *scratch, uint64_t *jobs, char cursor[DUMP_CURSOR_BYTES_MAX]);

#endif
