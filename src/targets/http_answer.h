/*
 * http_answer: what an endpoint's answer means for the job. Pure.
 *
 * The status decides, and nothing that comes after it: once it is known, an answer that never ends
 * or breaks off is the same as a whole one.
 */
#ifndef TARRY_TARGETS_HTTP_ANSWER_H
#define TARRY_TARGETS_HTTP_ANSWER_H

#include "targets/target.h"

enum {
    TARGET_ANSWER_HEADER_BYTES_MAX = 64 * 1024,
    TARGET_ANSWER_BODY_BYTES_MAX = 64 * 1024,
    TARGET_RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
};

struct target_answer {      /* zeroed: nothing has come yet */
    uint32_t status;        /* the final one; 0: none yet */
    int64_t retry_after_ms; /* where `has_retry_after` */
    bool has_retry_after;
    bool is_in_head; /* between its first line and the blank one that ends it */
    size_t header_bytes, body_bytes;
};

/* One line of a head, the blank one behind it and lines of trailers too, with or without its end.
 * Only the first line of a head is looked at for a status, and only the head of the final answer
 * for more. False: enough, read no more. */
bool target_answer_add_line(struct target_answer *answer, struct slice line, int64_t wall_ms);
bool target_answer_add_body(struct target_answer *answer, size_t bytes);

/* Of an answer with a status: everything but the tag's. */
void target_answer_judge(const struct target_answer *answer, const struct target_codes *dead_on,
                         size_t dead_on_count, struct target_report *out);

#endif
