/*
 * session: a client: what it uses, watches and holds, and the command that it waits for.
 *
 * One command is under way at a time; while it waits for the queue those behind it stay in the input. How
 * a command is carried out is for those who stand above (dispatch.h): they are called by `go_on` when
 * the session may take the next one. This room only; one thread.
 */
#ifndef TARRY_BEANSTALK_SESSION_H
#define TARRY_BEANSTALK_SESSION_H

#include "access/call.h"
#include "beanstalk/connection.h"
#include "beanstalk/job_view.h"
#include "beanstalk/reservations.h"
#include "beanstalk/state.h"

enum {
    SESSION_PUTS_MAX = 64,             /* of one call */
    SESSION_DELETES_MAX = 64,          /* of one call */
    SESSION_RESERVES_MAX = 16,         /* of one call, which brings as many bodies */
    SESSION_YAML_BYTES_MAX = 64 << 20, /* of one answer */
    SESSION_WATCHED_MAX = QUEUE_TAKE_TOPICS_MAX
};

/* What the command under way waits for. */
enum session_wait {
    SESSION_WAIT_NONE = 0,
    SESSION_WAIT_JOB, /* for as long as it takes, or until `give_up_ms` */
    SESSION_WAIT_CALL /* a reply of the queue */
};

struct beanstalk_session;

/* What stands above a session and is called by it. */
struct beanstalk_session_driver {
    void (*go_on)(
        struct beanstalk_session *session); /* no command is under way, or more has come */
    void (*woken)(struct beanstalk_session *session); /* the time that was set has come */
};

struct beanstalk_session {
    struct list list;  /* front->sessions */
    struct list timed; /* front->timed[phase], or alone */
    struct list later; /* front->later, or alone */
    enum beanstalk_phase phase;
    int64_t until_ms;
    size_t unsent; /* when its phase began */
    struct beanstalk_front *front;
    const struct beanstalk_session_driver *driver;
    struct beanstalk_connection connection;
    struct peer peer;        /* the client */
    struct access_call call; /* of the queue; its change is that of the command under way */
    bool is_producer, is_worker, is_going_on;
    /* Of the input, what is thrown away. */
    struct {
        uint64_t bytes; /* so many, then `answer` is given */
        const char *answer;
        bool line; /* up to the end of a line that is too long */
    } skip;
    /* The command under way. */
    enum session_wait wait;
    struct beanstalk_command command; /* its tube lies in `tube_name` */
    char tube_name[JOB_TOPIC_BYTES_MAX];
    struct beanstalk_subject subject; /* the job that it is about */
    uint64_t put_numbers[SESSION_PUTS_MAX];
    size_t put_count, put_skip_bytes;      /* under way; of one that gets no number */
    uint64_t deletes[SESSION_DELETES_MAX]; /* under way: numbers of jobs that are held */
    size_t delete_count;
    uint32_t reserve_count; /* under way, without an answer */
    uint32_t kicked;        /* jobs, by the kick under way */
    uint64_t waiter;
    bool is_deadline_near; /* a reserve that found nothing says so */
    int64_t give_up_ms;    /* of a reserve; INT64_MAX: never */
    /* The client's. */
    struct beanstalk_tube *used, *watched[SESSION_WATCHED_MAX];
    uint32_t watched_count;
    struct beanstalk_reservations reservations;
};

/* ---- life ---- */

void beanstalk_session_open(struct beanstalk_front *front, int fd, const struct peer *peer,
                            const struct beanstalk_session_driver *driver);
/* Its reservations go back to the queue. It may be gone after that. */
void beanstalk_session_end(struct beanstalk_session *session);
/* NULL: there is none that has not ended. */
struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front);

static inline struct queue *beanstalk_session_queue(const struct beanstalk_session *session)
{
    return session->front->options.queue;
}

/* Jobs, and so TTRs, go by the clock of their queue; waits go by the process's. */
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

/* Is there memory for an answer of so many bytes? If not, that is counted. */
bool beanstalk_session_has_memory(struct beanstalk_session *session, size_t bytes);

void beanstalk_answer(struct beanstalk_session *session, const char *text);
/* A word, a number and a body. */
void beanstalk_answer_job(struct beanstalk_session *session, const char *word, uint64_t number,
                          struct slice body);
/* Frees it. */
void beanstalk_answer_yaml(struct beanstalk_session *session, struct buffer *yaml);
/* What the queue refused, where no other answer says it. */
const char *beanstalk_answer_of(enum queue_status status);
/* The command under way changes something that the audit records; beanstalk_change_end is called when it has ended. */
void beanstalk_change_begin(struct beanstalk_session *session, const char *action);
void beanstalk_change_end(struct beanstalk_session *session);
/* The answer of the command that was under way; the next one begins. */
void beanstalk_finish(struct beanstalk_session *session, const char *text);
/* The same where nothing was found: NOT_FOUND, or what the queue refused. */
void beanstalk_finish_not_found(struct beanstalk_session *session, enum queue_status status);

/* ---- calls of the queue, one at a time ---- */

/* To be given with a call. Its `done` begins with beanstalk_session_called. */
struct queue_reply_to beanstalk_session_call(struct beanstalk_session *session, queue_done *done);
/* False: the session has ended meanwhile, and may be gone now. */
bool beanstalk_session_called(struct beanstalk_session *session);
/* The same of a get: its job. NULL: the session has ended, or was told that there is none. */
const struct job *beanstalk_session_got_job(struct beanstalk_session *session,
                                            const struct queue_reply *reply);
/* What the reply says of the one item that was asked for. */
static inline enum queue_status beanstalk_reply_status(const struct queue_reply *reply)
{
    return reply->result_count ? reply->results[0].status : reply->status;
}
/* Ends a lease whose client has gone: a failed attempt. */
void beanstalk_give_back(struct beanstalk_front *front, struct slice lease);
/* Ends a lease that no client was told of: not an attempt. */
void beanstalk_return(struct beanstalk_front *front, struct slice lease);

/* Reservations whose time is over by `now_ms` are the client's no more, and counted: the queue sees to their jobs. */
void beanstalk_session_expire(struct beanstalk_session *session, int64_t now_ms);

/* ---- waiting for a job ---- */

/* The waiter is the session's, and counted by the tubes that it watches. */
void beanstalk_session_wait(struct beanstalk_session *session);
void beanstalk_session_stop_waiting(struct beanstalk_session *session);

#endif
