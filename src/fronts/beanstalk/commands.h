/*
 * commands: the commands of the protocol, as tables by noun. A command either answers immediately,
 * or calls the queue and answers when the reply arrives. The command is in session->command. One
 * thread.
 */
#ifndef TARRY_BEANSTALK_COMMANDS_H
#define TARRY_BEANSTALK_COMMANDS_H

#include "beanstalk/job_view.h"
#include "beanstalk/session.h"

/* ---- front.c: the input of a client ---- */

/* Executes its commands in order. A command that waits for the queue delays only those behind it. */
extern const struct beanstalk_session_driver beanstalk_dispatch;

/* ---- tables ---- */

struct beanstalk_handler {
    enum beanstalk_verb verb; /* 0 ends the table */
    void (*begin)(struct beanstalk_session *session);
    bool is_worker; /* a client that sends it is a worker */
};

extern const struct beanstalk_handler beanstalk_reserve_handlers[];
extern const struct beanstalk_handler beanstalk_jobs_handlers[];
extern const struct beanstalk_handler beanstalk_tubes_handlers[];

/* ---- put.c ---- */

/* Begins a put whose line, of `line_bytes`, is at the front of the input. Returns false if more
 * input is needed. */
bool beanstalk_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                   size_t line_bytes);

/* ---- jobs.c: reservations and their timers ---- */

/* Ends the wait of a reserve that has not received a job. */
void beanstalk_reserve_give_up(struct beanstalk_session *session, const char *text);
/* Records a taken job as held by the client and sends it. Returns false if out of memory; the job
 * is then returned to the queue. */
bool beanstalk_reserve_hold(struct beanstalk_session *session, const struct queue_job *taken);
/* Sets the timer to the next end or renewal of a reservation, or to the end of a wait. */
void beanstalk_reserve_set_timer(struct beanstalk_session *session);
void beanstalk_reserve_woken(struct beanstalk_session *session);

/* stats: statistics about jobs, tubes and the server, as YAML. Used on the front's thread only. */

void beanstalk_stats_job(struct buffer *out, const struct beanstalk_job_view *job);
/* Returns true if the topic is internal to tarry. Clients cannot see internal topics. */
bool beanstalk_topic_is_own(struct slice name);

#endif
