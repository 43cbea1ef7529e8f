/*
 * status: is all well with a server, and why not: what a sample and the server's own figures mean. Pure.
 *
 * One table (status.c): each row a way in which something is not well, with its code, its limit, its
 * weight, a sentence and the runbook that says what to do. A server is well where no problem is
 * critical; warnings are told all the same.
 */
#ifndef TARRY_HTTP_STATUS_H
#define TARRY_HTTP_STATUS_H

#include "access/access.h"
#include "base/clock.h"
#include "base/trouble.h"
#include "http/sampler.h"

enum http_severity { HTTP_CRITICAL = 1, HTTP_WARNING };

/* What is judged. */
struct http_status_input {
    const struct http_sample *sample;
    const struct access_caller *caller; /* sees his topics, and what is no topic's */
    int64_t wall_ms;
    struct http_lateness lateness;             /* of all topics */
    uint64_t process_bytes, process_bytes_max; /* max 0: no limit */
    bool is_memory_spent;
    int64_t certificate_ends_s; /* of Unix time; 0: there is none */
    struct clock_steps steps;
    int64_t troubles_ms[TROUBLES]; /* for how long each has lasted; 0: it has ended */
};

enum {
    HTTP_STATUS_ROWS_MAX = 36,
    HTTP_STATUS_TOPICS_MAX = 10, /* told of a row; the others are counted */
    HTTP_SENTENCE_BYTES = 400
};

struct http_problem_row; /* of the table */

struct http_status_problem {
    const struct http_problem_row *row;
    const struct http_sample_topic *topic; /* in the sample; NULL: it is no topic's */
    int64_t value;
};

struct http_status {
    struct http_status_problem problems[HTTP_STATUS_ROWS_MAX][HTTP_STATUS_TOPICS_MAX]; /* by row */
    uint32_t counts[HTTP_STATUS_ROWS_MAX];
    uint32_t criticals, warnings; /* told of */
    uint32_t left_out;            /* topics with a problem of which so many others are told of */
    uint64_t topics, jobs;        /* that the caller may see */
};

void http_status_judge(struct http_status *status, const struct http_status_input *input);
/* `{"well":…,"sentence":…,"problems":[…],…}` */
void http_status_write(struct buffer *out, const struct http_status *status);

/* The rows, for pages and tests: the code of each, NULL behind the last. */
const char *http_status_code(uint32_t row);

#endif
