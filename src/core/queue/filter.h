/* filter: which jobs are meant, by what they carry. Pure. */
#ifndef TARRY_QUEUE_FILTER_H
#define TARRY_QUEUE_FILTER_H

#include "job/job.h"

/* Zeroed members: any. */
struct queue_filter {
    struct slice id_prefix; /* what the id begins with */
    struct slice error;     /* a part of the last error */
    struct slice meta_name;
    struct slice meta_value; /* exactly; empty: whatever it is, as long as there is one */
    /* Wall clock; the end of the last attempt, as its history says. A job without history matches
     * neither. */
    int64_t died_after_ms, died_before_ms;
};

bool queue_filter_matches(const struct queue_filter *filter, const struct job *job);

/* When the last attempt of a job ended. 0: its history does not say. */
int64_t queue_died_ms(struct slice history);

/* How many bytes its texts take. */
size_t queue_filter_bytes(const struct queue_filter *filter);
/* Points to copies of them, which go to `at` with room for so many bytes. Returns where they end. */
char *queue_filter_move(struct queue_filter *filter, char *at);

/* A copy of `text` at *at, which moves behind it. */
struct slice queue_text_move(char **at, struct slice text);

#endif
