/*
 * status: the health of a server and its problems, evaluated from a sample and the figures of the
 * server. Pure.
 *
 * A server is healthy if no problem is critical; warnings are also reported. A silence is reported
 * with its problem and changes nothing else.
 */
#ifndef TARRY_MONITOR_STATUS_H
#define TARRY_MONITOR_STATUS_H

#include "access/access.h"
#include "base/clock.h"
#include "base/trouble.h"
#include "monitor/problem.h"
#include "monitor/sampler.h"
#include "monitor/silences.h"

/* Input of the evaluation. */
struct monitor_status_input {
    const struct monitor_sample *sample;
    struct monitor_silences *silences; /* may be NULL */
    const struct access_caller
        *caller; /* limits the result to its topics and to problems without a topic */
    int64_t wall_ms;
    struct monitor_lateness lateness;          /* over all topics */
    uint64_t process_bytes, process_bytes_max; /* max 0: no limit */
    bool is_memory_spent;
    int64_t certificate_ends_s; /* in Unix time, or 0 */
    int64_t disk_full_in_ms;    /* at the current growth; 0: not known, or it does not fill up */
    struct clock_steps steps;
    /* duration of each ongoing trouble of each party; 0: ended */
    int64_t troubles_ms[TROUBLES][TROUBLE_PARTIES];
};

enum {
    MONITOR_STATUS_TOPICS_MAX = 10, /* topics or parties listed per row; further ones are counted */
    MONITOR_SENTENCE_BYTES = 400
};

struct monitor_status_problem {
    const struct monitor_problem_row *row;
    const struct monitor_sample_topic
        *topic;     /* topic in the sample; NULL: a problem without a topic */
    uint32_t party; /* of a problem of background work */
    int64_t value;
};

struct monitor_status {
    struct monitor_status_problem problems[MONITOR_PROBLEMS]
                                          [MONITOR_STATUS_TOPICS_MAX]; /* by row */
    uint32_t counts[MONITOR_PROBLEMS];
    uint32_t criticals, warnings;      /* problems listed */
    uint32_t left_out;                 /* topics and parties with a problem that are not listed */
    uint64_t topics, jobs;             /* visible to the caller */
    struct monitor_silences *silences; /* of the input */
    int64_t wall_ms;
};

void monitor_status_evaluate(struct monitor_status *status,
                             const struct monitor_status_input *input);
/* Writes `{"well":…,"sentence":…,"problems":[…],…}`. */
void monitor_status_write(struct buffer *out, const struct monitor_status *status);

#endif
