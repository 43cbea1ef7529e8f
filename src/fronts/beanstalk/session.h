/*
 * session: a client: the tubes that it uses and watches, the jobs that it holds and the command in
 * progress.
 *
 * One command is in progress at a time. While it waits for the queue, the commands behind it stay
 * in the input. The session does not execute commands itself: it calls `go_on` of its driver
 * (front.c) when it is ready for the next one. Private to this room; one thread.
 */
#ifndef TARRY_BEANSTALK_SESSION_H
#define TARRY_BEANSTALK_SESSION_H

#include "beanstalk/command.h"
#include "beanstalk/connection.h"
#include "beanstalk/front.h"
#include "beanstalk/job_view.h"
#include "beanstalk/put.h"
#include "beanstalk/reservations.h"
#include "beanstalk/tube.h"

#include "access/call.h"
#include "base/buffer.h"

struct beanstalk_alias; /* job_view.c */

/* The step that a client must complete within a time limit, see front.c. */
enum beanstalk_phase {
    BEANSTALK_PHASE_NONE = 0,
    BEANSTALK_PHASE_IDLE, /* waiting for the next command */
    BEANSTALK_PHASE_LINE,
    BEANSTALK_PHASE_BODY,
    BEANSTALK_PHASE_WRITE, /* the client does not read its answers */
    BEANSTALK_PHASES
};

struct beanstalk_front {
    struct beanstalk_options options;
    struct beanstalk_numbers *numbers;
    struct beanstalk_tubes tubes;
    struct list sessions, timed[BEANSTALK_PHASES];
    struct deadline *alarm; /* for the first session to expire, at alarm_ms */
    int64_t alarm_ms;
    struct list later; /* sessions that have used their share of this loop iteration, see front.c */
    struct iteration_end_call iteration_end; /* resumes the sessions in `later` */
    uint32_t iteration_commands;             /* commands begun in this loop iteration */
    uint32_t connection_count, producers, workers, waiting;
    uint64_t connections_total, timeouts, verbs[BEANSTALK_VERBS];
    int64_t started_ms;
    char instance[17];
    struct beanstalk_alias *aliases; /* a ring buffer */
    uint64_t alias_count;            /* aliases assigned so far */
    char *read_at;                   /* read buffer shared by all connections */
    uv_poll_t poll;
    int fd;
    bool is_polling, is_stopping;
    uint32_t open_handles; /* handles of the poll and of sessions */
    /* Called when a handle has closed. The last handle of a stopping front completes the stop. */
    void (*closed)(struct beanstalk_front *front);
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

enum {
    SESSION_PUTS_MAX = 64,             /* per call */
    SESSION_DELETES_MAX = 64,          /* per call */
    SESSION_RESERVES_MAX = 16,         /* per call, which returns as many bodies */
    SESSION_YAML_BYTES_MAX = 64 << 20, /* per answer */
    SESSION_WATCHED_MAX = QUEUE_TAKE_TOPICS_MAX
};

/* Reason for which the command in progress waits. */
enum session_wait {
    SESSION_WAIT_NONE = 0,
    SESSION_WAIT_JOB, /* without limit, or until `give_up_ms` */
    SESSION_WAIT_CALL /* a reply from the queue */
};

struct beanstalk_session;

/* Callbacks to the layer above a session. */
struct beanstalk_session_driver {
    void (*go_on)(struct beanstalk_session
                      *session); /* no command is in progress, or more input has arrived */
    void (*woken)(struct beanstalk_session *session); /* the timer has fired */
    /* The connection has ended. Called once; returns the jobs that the client holds. */
    void (*ended)(struct beanstalk_session *session);
};

struct beanstalk_session {
    struct list list;  /* in front->sessions */
    struct list timed; /* in front->timed[phase], or unlinked */
    struct list later; /* in front->later, or unlinked */
    enum beanstalk_phase phase;
    int64_t until_ms;
    size_t unsent; /* unsent bytes when the phase began */
    struct beanstalk_front *front;
    const struct beanstalk_session_driver *driver;
    struct beanstalk_connection connection;
    struct peer peer;        /* the client */
    struct access_call call; /* caller of the queue; `change` belongs to the command in progress */
    bool is_producer, is_worker, is_going_on;
    /* Input to discard. */
    struct {
        uint64_t bytes; /* discard this many bytes, then send `answer` */
        const char *answer;
        bool line; /* discard up to the end of a line that is too long */
    } skip;
    /* The command in progress. */
    enum session_wait wait;
    struct beanstalk_command command; /* `tube` points to `tube_name` */
    char tube_name[JOB_TOPIC_BYTES_MAX];
    struct beanstalk_subject subject; /* the job on which the command operates */
    uint64_t put_numbers[SESSION_PUTS_MAX];
    size_t put_count, put_skip_bytes;      /* in progress; size of a put without a number */
    uint64_t deletes[SESSION_DELETES_MAX]; /* numbers of the held jobs that are being deleted */
    size_t delete_count;
    uint32_t reserve_count; /* reserves in progress, not yet answered */
    uint32_t kicked;        /* jobs kicked so far by the kick in progress */
    uint64_t waiter;
    bool is_deadline_near; /* answer a reserve that finds no job with DEADLINE_SOON */
    int64_t give_up_ms;    /* end of a reserve's wait; INT64_MAX: never */
    /* The state of the client. */
    struct beanstalk_tube *used, *watched[SESSION_WATCHED_MAX];
    uint32_t watched_count;
    struct beanstalk_reservations reservations;
};

/* ---- life ---- */

void beanstalk_session_open(struct beanstalk_front *front, int fd, const struct peer *peer,
                            const struct beanstalk_session_driver *driver);
/* Closes the session and returns its reservations to the queue. May free the session. */
void beanstalk_session_end(struct beanstalk_session *session);

static inline struct queue *beanstalk_session_queue(const struct beanstalk_session *session)
{
    return session->front->options.queue;
}

/* Returns the clock for jobs and TTRs, which is that of the queue. Waits use the clock of the
 * process. */
static inline struct clock *beanstalk_session_clock(const struct beanstalk_session *session)
{
    struct clock *clock = beanstalk_session_queue(session)->clock;
    return clock ? clock : &clock_process;
}

static inline int64_t beanstalk_session_now_ms(const struct beanstalk_session *session)
{
    return clock_inner_ms_of(beanstalk_session_clock(session));
}

static inline bool beanstalk_session_has_ended(const struct beanstalk_session *session)
{
    return session->connection.is_closing;
}

/* ---- answers ---- */

/* Returns true if there is memory for an answer of `bytes`. Counts a refusal otherwise. */
bool beanstalk_session_has_memory(struct beanstalk_session *session, size_t bytes);

void beanstalk_answer(struct beanstalk_session *session, const char *text);
/* Appends a word, a number and a body. */
void beanstalk_answer_job(struct beanstalk_session *session, const char *word, uint64_t number,
                          struct slice body);
/* Sends the YAML and frees the buffer. */
void beanstalk_answer_yaml(struct beanstalk_session *session, struct buffer *yaml);
/* Appends a line of YAML. */
void beanstalk_yaml_number(struct buffer *yaml, const char *name, uint64_t value);
/* Returns the answer to an error of the queue that has no more specific answer. */
const char *beanstalk_answer_of(enum queue_status status);
void beanstalk_change_end(struct beanstalk_session *session);
/* Answers the command in progress and begins the next one. */
void beanstalk_finish(struct beanstalk_session *session, const char *text);
/* Does the same for a job that was not found: answers NOT_FOUND, or the error of the queue. */
void beanstalk_finish_not_found(struct beanstalk_session *session, enum queue_status status);

/* ---- calls to the queue, one at a time ---- */

/* Returns the reply target for a call. Its `done` must begin with beanstalk_session_called. */
struct queue_reply_to beanstalk_session_call(struct beanstalk_session *session, queue_done *done);
/* Ends a call. Returns false if the session has ended in the meantime; it may then be freed. */
bool beanstalk_session_called(struct beanstalk_session *session);
/* Ends a get and returns its job. Returns NULL if the session has ended, or if no job was found and
 * the client was answered. */
const struct job *beanstalk_session_got_job(struct beanstalk_session *session,
                                            const struct queue_reply *reply);
/* Returns the status of the single item of a call. */
static inline enum queue_status beanstalk_reply_status(const struct queue_reply *reply)
{
    return reply->result_count ? reply->results[0].status : reply->status;
}

#endif
