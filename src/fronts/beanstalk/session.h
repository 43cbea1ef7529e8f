/*
 * session: a client: the tubes that it uses and watches, the jobs that it holds and the command in
 * progress.
 *
 * One command is in progress at a time. While it waits for the queue, the commands behind it stay
 * in the input. The session does not execute commands itself: it calls `go_on` of its driver
 * (front.h) when it is ready for the next one. Private to this room; one thread.
 */
#ifndef TARRY_BEANSTALK_SESSION_H
#define TARRY_BEANSTALK_SESSION_H

#include "beanstalk/command.h"
#include "beanstalk/connection.h"
#include "beanstalk/front.h"
#include "beanstalk/job_view.h"
#include "beanstalk/put.h"

#include "access/call.h"
#include "base/buffer.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/table.h"
#include "job/policy.h"

/*
 * tube: what this server stores about the tubes that its connections use or watch. The jobs
 * themselves belong to the queue. The tube "default" always exists. One thread.
 */

struct beanstalk_tube {
    struct table_entry entry; /* keyed by name */
    struct list order;        /* position in the list, in order of first use */
    uint32_t users, watchers, waiting;
    uint64_t pauses;
    uint32_t pause_s; /* duration of the last pause */
    char name[];
};

TABLE_DECLARE(beanstalk_tube_table, struct beanstalk_tube, entry)

struct beanstalk_tubes {
    struct beanstalk_tube_table table;
    struct list order;
};

/* Returns false if out of memory. */
bool beanstalk_tubes_init(struct beanstalk_tubes *tubes);
void beanstalk_tubes_fini(struct beanstalk_tubes *tubes);
/* Returns NULL if no client uses or watches the tube. */
struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct slice name);
/* Finds or creates a tube. Returns NULL if out of memory. A caller that does not count itself as a
 * user or a watcher must drop the tube again. */
struct beanstalk_tube *beanstalk_tubes_need(struct beanstalk_tubes *tubes, struct slice name);
/* Frees the tube if no client uses or watches it. */
void beanstalk_tubes_drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube);

static inline struct slice beanstalk_tube_name(const struct beanstalk_tube *tube)
{
    return tube->entry.key;
}

/*
 * reservations: the jobs that a client holds, by number and by end time. Pure: the caller passes
 * the time, by the inner clock.
 *
 * A reservation ends at `until_ms`, one TTR after it was made or touched. The queue's lease behind
 * it may end earlier, since a TTR may be longer than the longest lease. Such a lease must be
 * renewed in time. A zeroed list is a valid empty list. Each call takes logarithmic time in the
 * number of reservations.
 */

struct beanstalk_reservation {
    struct table_entry entry;
    uint64_t number;
    size_t end_index, renewal_index; /* SIZE_MAX in renewal_index: needs no renewal */
    int64_t until_ms, lease_until_ms;
    uint32_t ttr_s;
    uint8_t lease_bytes, topic_bytes;
    char text[]; /* the lease, then the topic: another topic may have a job with this number */
};

static inline bool beanstalk_reservation_ends_before(struct beanstalk_reservation *const *a,
                                                     struct beanstalk_reservation *const *b)
{
    return (*a)->until_ms < (*b)->until_ms;
}

static inline void beanstalk_reservation_end_placed(struct beanstalk_reservation **at, size_t index)
{
    (*at)->end_index = index;
}

static inline bool beanstalk_reservation_renews_before(struct beanstalk_reservation *const *a,
                                                       struct beanstalk_reservation *const *b)
{
    return (*a)->lease_until_ms < (*b)->lease_until_ms;
}

static inline void beanstalk_reservation_renewal_placed(struct beanstalk_reservation **at,
                                                        size_t index)
{
    (*at)->renewal_index = index;
}

TABLE_DECLARE(beanstalk_reservation_table, struct beanstalk_reservation, entry)
HEAP_DECLARE(beanstalk_reservation_ends, struct beanstalk_reservation *,
             beanstalk_reservation_ends_before, beanstalk_reservation_end_placed)
HEAP_DECLARE(beanstalk_reservation_renewals, struct beanstalk_reservation *,
             beanstalk_reservation_renews_before, beanstalk_reservation_renewal_placed)

struct beanstalk_reservations {
    struct beanstalk_reservation_table table;
    struct beanstalk_reservation_ends ends;
    struct beanstalk_reservation_renewals renewals;
};

void beanstalk_reservations_fini(struct beanstalk_reservations *held);

/* Adds a reservation and replaces an earlier one with the same number. Returns false if out of
 * memory; the earlier one is then kept. */
bool beanstalk_reservations_add(struct beanstalk_reservations *held, uint64_t number,
                                struct slice lease, struct slice topic, uint32_t ttr_s,
                                int64_t until_ms, int64_t lease_until_ms);
/* Returns NULL if the client does not hold the job. */
struct beanstalk_reservation *beanstalk_reservations_find(const struct beanstalk_reservations *held,
                                                          uint64_t number);
void beanstalk_reservations_remove(struct beanstalk_reservations *held,
                                   struct beanstalk_reservation *reservation);
/* Removes reservations that have ended. Returns their count. */
uint64_t beanstalk_reservations_expire(struct beanstalk_reservations *held, int64_t now_ms);
/* Returns when the next reservation ends, or INT64_MAX if the list is empty. */
int64_t beanstalk_reservations_end_ms(const struct beanstalk_reservations *held);

/* Restarts the TTR of a reservation and records the new end of its lease. */
void beanstalk_reservations_touch(struct beanstalk_reservations *held,
                                  struct beanstalk_reservation *reservation, int64_t now_ms,
                                  int64_t lease_until_ms);

/* Returns when the next lease must be renewed, and its reservation. Returns INT64_MAX and NULL if
 * no lease needs a renewal. */
int64_t beanstalk_reservations_renewal_ms(const struct beanstalk_reservations *held);
struct beanstalk_reservation *beanstalk_reservations_renewal(
    const struct beanstalk_reservations *held);
/* Records that the lease was renewed until `lease_until_ms`. */
void beanstalk_reservations_renewed(struct beanstalk_reservations *held,
                                    struct beanstalk_reservation *reservation,
                                    int64_t lease_until_ms);

/* Returns the length of the queue's lease for a TTR. */
static inline int64_t beanstalk_lease_ms(uint32_t ttr_s)
{
    int64_t ttr_ms = (int64_t)ttr_s * 1000;
    return ttr_ms < POLICY_LEASE_MS_MAX ? ttr_ms : POLICY_LEASE_MS_MAX;
}

static inline struct slice beanstalk_reservation_lease(const struct beanstalk_reservation *at)
{
    return slice_make(at->text, at->lease_bytes);
}

static inline struct slice beanstalk_reservation_topic(const struct beanstalk_reservation *at)
{
    return slice_make(at->text + at->lease_bytes, at->topic_bytes);
}

/* state: the data shared by the front, its sessions and its statistics. Private to this room. */

struct beanstalk_alias; /* job_view.c */

/* The step that a client must complete within a time limit, see session.h. */
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
    struct list
        later; /* sessions that have used their share of this loop iteration, see session.c */
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
/* Ends the lease of a client that has disconnected, as a failed attempt. */
void beanstalk_give_back(struct beanstalk_front *front, struct slice lease);
/* Ends a lease that no client has received. Does not count as an attempt. */
void beanstalk_return(struct beanstalk_front *front, struct slice lease);

/* ---- waiting for a job ---- */

void beanstalk_session_stop_waiting(struct beanstalk_session *session);

/* ---- phases: what the server expects from the client, and for how long it waits ----
 *
 * Each phase has one time limit and one list of sessions in the front. Since the limit is the same
 * for all sessions of a list, the list is sorted by time. The front has one alarm, set for the
 * earliest session. A session that waits for a job or for the queue, or that holds jobs, is in no
 * phase: a worker may take as long as its TTR allows. */

/* ---- share: how much of a loop iteration a session may take ----
 *
 * While the iteration has time left, a session begins its commands immediately, up to a limit.
 * After that the session joins the front's waiting list. Each iteration serves this list from its
 * head while there is time. So a client that pipelines delays other clients by at most one command. */

#endif
