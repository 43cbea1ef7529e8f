/*
 * child: one job's command while it runs: the body on its standard input, the job in its
 * environment, a process group of its own, so that Ctrl-C in the terminal is for `tarry work`
 * alone. The command dies with this process, however that ends. What it writes to its standard
 * error goes on to ours, and the last of it is kept for the nack.
 *
 * One thread: the kernel tells a child of the end of the thread that started it.
 */
#ifndef TARRY_CLI_CHILD_H
#define TARRY_CLI_CHILD_H

#include "base/slice.h"

#include <stdint.h>
#include <sys/types.h>

struct child_job {
    struct slice topic, id, attempt, lease, content_type, body, traceparent, tracestate;
};

enum { CHILD_TAIL_BYTES = 1024, CHILD_ERROR_BYTES = 224 };

struct child {
    pid_t pid;                   /* 0: none */
    int pidfd;                   /* readable once it has ended */
    int errors;                  /* the pipe its standard error goes to; -1: it has closed it */
    int status;                  /* of waitpid, once it has ended */
    char tail[CHILD_TAIL_BYTES]; /* the last of what it wrote there */
    size_t tail_len;
};

/* Starts `argv` for the job: TARRY_TOPIC, TARRY_ID, TARRY_ATTEMPT, TARRY_LEASE, TARRY_CONTENT_TYPE
 * and TARRY_URL are set; TRACEPARENT and TRACESTATE where the job has them. 0 or negative errno. */
int child_start(struct child *child, char **argv, const struct child_job *job, const char *url);

/* Hands on what it has written to its standard error. Does not wait. */
void child_pass_errors(struct child *child);

/* True once it has ended; status and tail are set and the child's resources are gone. */
bool child_reap(struct child *child);

/* It ended with CHILD_FINAL: no further attempt can help. The code is EX_DATAERR of sysexits.h,
 * "the input data was incorrect": programs that know it mean just this by it, others do not use it.
 */
enum { CHILD_FINAL = 65 };
bool child_is_final(const struct child *child);

/* "exit 3", "signal 9", and its last words where there are any: "exit 3: the bank is down". Valid
 * UTF-8 without control characters; "" for a success. */
void child_explain(const struct child *child, char out[CHILD_ERROR_BYTES]);

#endif
