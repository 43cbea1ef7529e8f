/* Commands about tubes as topics of the queue: pause-tube, stats-tube, stats, list-tubes. */
#include "beanstalk/commands.h"

#include "beanstalk/stats.h"

#include "queue/topic_walk.h"

#include <stdlib.h>

static void call_topic(struct beanstalk_session *session, struct queue_topic_call call,
                       queue_done *done)
{
    call.topic = session->command.tube;
    queue_topic(beanstalk_session_queue(session), &call, beanstalk_session_call(session, done));
}

/* ---- pause-tube ---- */

static void on_paused(void *owner, uint64_t tag, const struct queue_reply *reply);

void beanstalk_pause_tube(struct beanstalk_session *session)
{
    int64_t pause_ms = (int64_t)session->command.number * 1000;
    /* A pause longer than the queue's longest time lasts until the topic is resumed. */
    call_topic(session,
               (struct queue_topic_call){
                   .verb = session->command.number ? QUEUE_TOPIC_PAUSE : QUEUE_TOPIC_RESUME,
                   .pause_ms = pause_ms <= POLICY_DELAY_MS_MAX ? pause_ms : 0},
               on_paused);
}

static void on_made(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (reply->status == QUEUE_CREATED || reply->status == QUEUE_OK)
        beanstalk_pause_tube(session);
    else
        beanstalk_finish(session, beanstalk_answer_of(reply->status));
}

/* Handles the reply to a pause. A tube that a client uses or watches exists even if the queue does
 * not have its topic yet. */
static void on_paused(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    struct beanstalk_tube *tube =
        beanstalk_tubes_find(&session->front->tubes, session->command.tube);
    if (reply->status == QUEUE_NOT_FOUND && tube) {
        call_topic(session, (struct queue_topic_call){.verb = QUEUE_TOPIC_PUT}, on_made);
        return;
    }
    if (tube && reply->status == QUEUE_OK) {
        tube->pauses++;
        tube->pause_s = session->command.number;
    }
    beanstalk_finish(session,
                     reply->status == QUEUE_OK ? "PAUSED\r\n" : beanstalk_answer_of(reply->status));
}

/* ---- stats-tube ---- */

static void on_tube(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    struct buffer yaml;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    const struct beanstalk_tube *tube =
        beanstalk_tubes_find(&session->front->tubes, session->command.tube);
    if (!reply->topic_count && (!tube || reply->status != QUEUE_NOT_FOUND)) {
        beanstalk_finish_not_found(session, reply->status);
        return;
    }
    buffer_init(&yaml, SESSION_YAML_BYTES_MAX);
    beanstalk_stats_tube(&yaml, tube, session->command.tube,
                         reply->topic_count ? &reply->topics[0] : NULL,
                         queue_wall_ms(beanstalk_session_queue(session)));
    beanstalk_answer_yaml(session, &yaml);
    session->driver->go_on(session);
}

void beanstalk_tell_tube(struct beanstalk_session *session)
{
    call_topic(session, (struct queue_topic_call){.verb = QUEUE_TOPIC_GET}, on_tube);
}

/* ---- stats, list-tubes: all topics, page by page ---- */

struct census {
    struct beanstalk_session *session;
    struct beanstalk_sum sum;
    struct buffer tubes; /* output of list-tubes */
};

static bool on_page(void *owner, uint64_t tag, const struct queue_topic *topics, size_t count)
{
    struct census *census = owner;
    const struct beanstalk_session *session = census->session;
    (void)tag;
    for (size_t i = 0; i < count; i++)
        if (session->command.verb == BEANSTALK_STATS)
            beanstalk_sum_add(&census->sum, session->front, &topics[i]);
        else
            beanstalk_list_topic(&census->tubes, session->front, &topics[i]);
    return !beanstalk_session_has_ended(session);
}

static void on_counted(void *owner, uint64_t tag, enum queue_status status)
{
    struct census *census = owner;
    struct beanstalk_session *session = census->session;
    (void)tag;
    bool is_there = beanstalk_session_called(session);
    if (is_there && status == QUEUE_OK) {
        if (session->command.verb == BEANSTALK_STATS)
            beanstalk_stats(&census->tubes, session->front, &census->sum);
        beanstalk_answer_yaml(session, &census->tubes);
        session->driver->go_on(session);
    } else if (is_there) {
        beanstalk_finish(session, beanstalk_answer_of(status));
    }
    buffer_fini(&census->tubes);
    free(census);
}

void beanstalk_tell_all(struct beanstalk_session *session)
{
    struct census *census = calloc(1, sizeof *census);
    const struct topic_walk_listener listener = {
        .page = on_page, .done = on_counted, .owner = census};
    if (census) {
        census->session = session;
        buffer_init(&census->tubes, SESSION_YAML_BYTES_MAX);
        if (session->command.verb != BEANSTALK_STATS)
            beanstalk_list_tubes(&census->tubes, session->front);
        (void)beanstalk_session_call(session, NULL);
        if (topic_walk_start(beanstalk_session_queue(session), (struct slice){0}, &listener))
            return;
        (void)beanstalk_session_called(session);
        buffer_fini(&census->tubes);
        free(census);
    }
    beanstalk_answer(session, beanstalk_answer_of(QUEUE_NO_MEMORY));
}
