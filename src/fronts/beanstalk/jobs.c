/*
 * jobs: the commands on a job by its number. peek, stats-job, kick-job, reserve-job, and delete of a
 * job that the client does not hold, locate it across all tubes first.
 */
#include "beanstalk/commands.h"

#include "queue/locate.h"
#include "queue/status.h"

#include <assert.h>

/* ---- the job ---- */

static struct slice subject_topic(const struct beanstalk_subject *subject)
{
    return slice_make(subject->topic, subject->topic_bytes);
}

static struct slice subject_id(const struct beanstalk_subject *subject)
{
    return slice_make(subject->id, subject->id_bytes);
}

/* Sets the subject to a job. `number`: the number that the client used, or 0 to use the job's own
 * number. */
static void subject_set(struct beanstalk_subject *subject, struct beanstalk_front *front,
                        const struct job *job, uint64_t number)
{
    subject->is_there = true;
    subject->state = job->state;
    subject->topic_bytes = (uint8_t)job->topic.len;
    memcpy(subject->topic, job->topic.at, job->topic.len);
    subject->id_bytes = (uint8_t)job->id.len;
    memcpy(subject->id, job->id.at, job->id.len);
    subject->view = beanstalk_job_view_of(front, job);
    subject->view.tube = subject_topic(subject);
    if (number)
        subject->view.number = number;
}

/* Appends the statistics of a job. */
static void write_stats(struct buffer *out, const struct beanstalk_job_view *job)
{
    buffer_append_text(out, "---\n");
    beanstalk_yaml_number(out, "id", job->number);
    buffer_append_format(out, "tube: \"%.*s\"\nstate: %s\n", (int)job->tube.len, job->tube.at,
                         job->state);
    beanstalk_yaml_number(out, "pri", job->priority);
    beanstalk_yaml_number(out, "age", (uint64_t)job->age_s);
    beanstalk_yaml_number(out, "delay", job->delay_s);
    beanstalk_yaml_number(out, "ttr", job->ttr_s);
    beanstalk_yaml_number(out, "time-left", (uint64_t)job->left_s);
    beanstalk_yaml_number(out, "file", 0);
    beanstalk_yaml_number(out, "reserves", job->reserves);
    beanstalk_yaml_number(out, "timeouts", job->timeouts);
    beanstalk_yaml_number(out, "releases", job->releases);
    beanstalk_yaml_number(out, "buries", job->buries);
    beanstalk_yaml_number(out, "kicks", job->kicks);
}

/* ---- commands on a located job ---- */

static void on_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    enum queue_status status = beanstalk_reply_status(reply);
    beanstalk_finish(session,
                     status == QUEUE_CANCELLED ? "DELETED\r\n" : beanstalk_answer_of(status));
}

static void change(struct beanstalk_session *session, enum queue_change_verb verb, queue_done *done)
{
    const struct queue_change change = {.verb = verb,
                                        .topic = subject_topic(&session->subject),
                                        .id = subject_id(&session->subject),
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(beanstalk_session_queue(session), &change, 1,
                 beanstalk_session_call(session, done));
}

static void on_kicked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    enum queue_status status = beanstalk_reply_status(reply);
    audit_change_note(session->call.change, status == QUEUE_OK ? NULL : queue_status_code(status));
    audit_change_count(session->call.change, reply->result_count && status == QUEUE_OK);
    beanstalk_finish(session, status == QUEUE_OK ? "KICKED\r\n" : beanstalk_answer_of(status));
}

static void redrive(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = subject_topic(&session->subject),
                                             .id = subject_id(&session->subject)};
    queue_topic(beanstalk_session_queue(session), &redrive,
                beanstalk_session_call(session, on_kicked));
}

static void answer_found(struct beanstalk_session *session)
{
    struct buffer yaml;
    buffer_init(&yaml, SESSION_YAML_BYTES_MAX);
    write_stats(&yaml, &session->subject.view);
    beanstalk_answer_yaml(session, &yaml);
    session->driver->go_on(session);
}

static void kick(struct beanstalk_session *session)
{
    audit_change_name(session->call.change, subject_topic(&session->subject),
                      subject_id(&session->subject));
    if (session->subject.state == JOB_DEAD)
        redrive(session);
    else if (session->subject.state == JOB_DELAYED)
        change(session, QUEUE_RUN, on_kicked);
    else
        beanstalk_finish_not_found(session, QUEUE_NOT_FOUND);
}

static void go_on_with_job(struct beanstalk_session *session)
{
    switch (session->command.verb) {
    case BEANSTALK_PEEK: /* answered when the job was found */
        session->driver->go_on(session);
        break;
    case BEANSTALK_STATS_JOB:
        answer_found(session);
        break;
    case BEANSTALK_DELETE:
        change(session, QUEUE_CANCEL, on_cancelled);
        break;
    case BEANSTALK_RESERVE_JOB:
        beanstalk_reserve_job(session, subject_topic(&session->subject),
                              subject_id(&session->subject));
        break;
    default:
        assert(session->command.verb == BEANSTALK_KICK_JOB);
        kick(session);
    }
}

/* ---- location ---- */

static void note_found(struct beanstalk_session *session, const struct job *job)
{
    subject_set(&session->subject, session->front, job, session->command.id);
    if (session->command.verb == BEANSTALK_PEEK)
        beanstalk_answer_job(session, "FOUND", session->command.id, job->body);
}

static bool looks_at(void *owner, uint64_t tag, struct slice topic)
{
    (void)owner;
    (void)tag;
    return !job_topic_is_own(topic);
}

static bool is_wanted(void *owner, uint64_t tag)
{
    (void)tag;
    return !beanstalk_session_has_ended(owner);
}

static void on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_has_ended(session))
        note_found(session, &job->job);
}

static void on_located(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (session->subject.is_there)
        go_on_with_job(session);
    else
        beanstalk_finish_not_found(session, result->status);
}

/* Continues with the job of an alias, whose topic is known. */
static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    const struct job *job = beanstalk_session_got_job(session, reply);
    if (!job)
        return;
    note_found(session, job);
    go_on_with_job(session);
}

/* Finds the job for peek, stats-job, kick-job, reserve-job, and for a delete of a job that the
 * client does not hold. */
static void look_up(struct beanstalk_session *session)
{
    char room[JOB_ID_BYTES_MAX];
    struct slice topic = {0};
    struct slice id = beanstalk_id_of(session->front, session->command.id, room, &topic);
    session->subject.is_there = false;
    if (!id.len) {
        beanstalk_answer(session, "NOT_FOUND\r\n");
        return;
    }
    const struct beanstalk_reservation *held =
        beanstalk_reservations_find(&session->reservations, session->command.id);
    if (held)
        topic = beanstalk_reservation_topic(held);
    if (topic.len) {
        queue_get(beanstalk_session_queue(session), topic, id,
                  beanstalk_session_call(session, on_got));
        return;
    }
    const struct locate_listener listener = {.looks_at = looks_at,
                                             .found = on_found,
                                             .wanted = is_wanted,
                                             .done = on_located,
                                             .owner = session};
    (void)beanstalk_session_call(session, NULL);
    if (locate_start(beanstalk_session_queue(session), id, 1, &listener))
        return;
    (void)beanstalk_session_called(session);
    beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
}

static void delete_job(struct beanstalk_session *session)
{
    if (!beanstalk_reservations_delete(session))
        look_up(session);
}

/* ---- the table ---- */

const struct beanstalk_handler beanstalk_jobs_handlers[] = {
    {BEANSTALK_DELETE, delete_job, false},  {BEANSTALK_PEEK, look_up, false},
    {BEANSTALK_RESERVE_JOB, look_up, true}, {BEANSTALK_KICK_JOB, look_up, false},
    {BEANSTALK_STATS_JOB, look_up, false},  {0},
};
