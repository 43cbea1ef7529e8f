/*
 * commands: the commands of the protocol, as tables by noun. A command either answers immediately,
 * or calls the queue and answers when the reply arrives. The command is in session->command. One
 * thread.
 */
#ifndef TARRY_BEANSTALK_COMMANDS_H
#define TARRY_BEANSTALK_COMMANDS_H

#include "beanstalk/job_view.h"
#include "beanstalk/session.h"

struct beanstalk_handler {
    enum beanstalk_verb verb; /* 0 ends the table */
    void (*begin)(struct beanstalk_session *session);
    bool is_worker; /* a client that sends it is a worker */
};

extern const struct beanstalk_handler beanstalk_reservations_handlers[];
extern const struct beanstalk_handler beanstalk_jobs_handlers[];
extern const struct beanstalk_handler beanstalk_tubes_handlers[];

/* ---- put.c ---- */

/* Begins a put whose line, of `line_bytes`, is at the front of the input. Returns false if more
 * input is needed. */
bool beanstalk_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                   size_t line_bytes);

/* ---- reservations.c ---- */

/* Ends the wait of a reserve that has not received a job. */
void beanstalk_reservations_give_up(struct beanstalk_session *session, const char *text);
/* Handles the time that was set for a reservation or a wait. */
void beanstalk_reservations_woken(struct beanstalk_session *session);
/* Ends the wait and returns all jobs of a client that disconnects. Each counts as a failed attempt,
 * so a job that crashes its worker is counted. */
void beanstalk_reservations_end(struct beanstalk_session *session);
/* Reserves a located job. */
void beanstalk_reserve_job(struct beanstalk_session *session, struct slice topic, struct slice id);
/* Deletes the job of the command and all jobs of deletes behind it that the client holds: deletes
 * that have arrived together go to the queue as one call, and so to the disk in one write. Returns
 * false if the client does not hold the job. */
bool beanstalk_reservations_delete(struct beanstalk_session *session);

#endif
