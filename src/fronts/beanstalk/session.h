/*
 * session: a client: the tubes that it uses and watches, the jobs that it holds and the command in
 * progress.
 *
 * One command is in progress at a time. While it waits for the queue, the commands behind it stay
 * in the input. The session does not execute commands itself: it calls `go_on` of its driver
 * (dispatch.h) when it is ready for the next one. Private to this room; one thread.
 */
#ifndef TARRY_BEANSTALK_SESSION_H
#define TARRY_BEANSTALK_SESSION_H

#include "beanstalk/connection.h"
#include "beanstalk/job_view.h"
#include "beanstalk/reservations.h"
#include "beanstalk/state.h"

#include "access/call.h"

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
/* Returns NULL if all sessions have ended. */
struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front);

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
/* Returns the answer to an error of the queue that has no more specific answer. */
const char *beanstalk_answer_of(enum queue_status status);
/* Begins an audit record for the command in progress. beanstalk_change_end is called when the
 * command has ended. */
void beanstalk_change_begin(struct beanstalk_session *session, const char *action);
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
/* Ends the lease of a client that has disconnected, as a failed attempt. */
void beanstalk_give_back(struct beanstalk_front *front, struct slice lease);
/* Ends a lease that no client has received. Does not count as an attempt. */
void beanstalk_return(struct beanstalk_front *front, struct slice lease);

/* Removes and counts reservations that have ended by `now_ms`. The queue handles their jobs. */
void beanstalk_session_expire(struct beanstalk_session *session, int64_t now_ms);

/* ---- waiting for a job ---- */

/* Marks the session as waiting and counts it in the tubes that it watches. */
void beanstalk_session_wait(struct beanstalk_session *session);
void beanstalk_session_stop_waiting(struct beanstalk_session *session);

/* ---- phases: what the server expects from the client, and for how long it waits ----
 *
 * Each phase has one time limit and one list of sessions in the front. Since the limit is the same
 * for all sessions of a list, the list is sorted by time. The front has one alarm, set for the
 * earliest session. A session that waits for a job or for the queue, or that holds jobs, is in no
 * phase: a worker may take as long as its TTR allows. */

/* Determines the phase of a session. `has_moved`: a command has been executed, so the time limit
 * restarts now. */
void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved);

/* Returns false if out of memory. */
bool beanstalk_phases_init(struct beanstalk_front *front);
void beanstalk_phases_fini(struct beanstalk_front *front);

/* ---- share: how much of a loop iteration a session may take ----
 *
 * While the iteration has time left, a session begins its commands immediately, up to a limit.
 * After that the session joins the front's waiting list. Each iteration serves this list from its
 * head while there is time. So a client that pipelines delays other clients by at most one command. */

/* Returns true if the session may begin a command after `begun` others. If false, the session
 * continues by itself in a later iteration. */
bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun);

void beanstalk_share_init(struct beanstalk_front *front);
void beanstalk_share_fini(struct beanstalk_front *front);

#endif
