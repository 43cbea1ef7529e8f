/* filter: a selection of jobs by their contents. Pure. */
#ifndef TARRY_QUEUE_FILTER_H
#define TARRY_QUEUE_FILTER_H

#include "job/job.h"

/* A filter. A zeroed member excludes no job. */
struct queue_filter {
    struct slice id_prefix;             /* prefix of the id */
    struct slice error;                 /* substring of the last error */
    struct slice batch_topic, batch_id; /* members of the batch of this waiting job */
    struct slice meta_name;
    struct slice meta_value; /* exact; empty: any value. Ignored if meta_name is empty */
    /* Wall clock, from the first to before the second: when the last attempt in the job's history
     * ended. With one of them set, a job without history does not match. */
    int64_t died_after_ms, died_before_ms;
    int64_t due_after_ms,
        due_before_ms; /* wall clock; the due, from the first until before the second */
};

bool queue_filter_matches(const struct queue_filter *filter, const struct job *job);

/* Returns when the last attempt of a job ended. 0: not in its history. */
int64_t queue_last_attempt_end_ms(struct slice history);

/* Returns the size of the texts of the filter in bytes. */
size_t queue_filter_bytes(const struct queue_filter *filter);
/* Copies the texts to `at`, which has room for queue_filter_bytes, and points the filter to the
 * copies. Returns the end of the copies. */
char *queue_filter_copy_texts(struct queue_filter *filter, char *at);

/* Copies `text` to *at, advances *at past it and returns the copy. */
struct slice queue_text_copy(char **at, struct slice text);

#endif
