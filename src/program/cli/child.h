/*
 * child: the command of one job while it runs. It receives the body on its standard input and the
 * job in its environment. It has a process group of its own, so that Ctrl-C in the terminal reaches
 * only `tarry work`. The command is killed when this process ends for any reason. Its standard
 * error is forwarded to that of this process, and the end of it is kept for the nack.
 *
 * One thread: the kernel signals a child when the thread that started it ends.
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
    pid_t pid;                   /* 0: no child */
    int pidfd;                   /* readable when the child has ended */
    int errors;                  /* the pipe from its standard error; -1: closed by the child */
    int status;                  /* from waitpid, set when the child has ended */
    char tail[CHILD_TAIL_BYTES]; /* the end of its standard error */
    size_t tail_len;
};

/* Starts `argv` for the job. Sets TARRY_TOPIC, TARRY_ID, TARRY_ATTEMPT, TARRY_LEASE,
 * TARRY_CONTENT_TYPE and TARRY_URL, and TRACEPARENT and TRACESTATE if the job has them. Returns
 * 0 or a negative errno. */
int child_start(struct child *child, char **argv, const struct child_job *job, const char *url);

/* Forwards the available output of the child's standard error without waiting. */
void child_pass_errors(struct child *child);

/* Returns true once the child has ended. Then status and tail are set and the child's resources
 * are released. */
bool child_reap(struct child *child);

/* Returns whether the child ended with CHILD_FINAL: no further attempt can help. The code is
 * EX_DATAERR of sysexits.h, "the input data was incorrect". Programs that use sysexits.h mean
 * exactly this by it; others do not use it. */
enum { CHILD_FINAL = 65 };
bool child_is_final(const struct child *child);

/* Writes "exit 3" or "signal 9", followed by the last output if any: "exit 3: the bank is down".
 * The text is valid UTF-8 without control characters; it is "" for a success. */
void child_explain(const struct child *child, char out[CHILD_ERROR_BYTES]);

#endif
