/* tubes: the commands on tubes: use, watch, ignore, lists, pause-tube, stats-tube, and peek and kick in the
 * used tube. */
#include "beanstalk/commands.h"

#include "base/clock.h"
#include "queue/topic_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Totals over all topics, for `stats`. */
struct beanstalk_sum {
    struct queue_counts counts; /* `delayed` includes retrying jobs */
    uint64_t total, tubes;      /* tubes: only those that no client uses or watches */
};

/* ---- stats ---- */

/* The version of the protocol, which clients check; not tarry's version. */
#define PROTOCOL_VERSION "1.13"

static void write_text(struct buffer *out, const char *name, const char *value)
{
    buffer_append_format(out, "%s: \"%s\"\n", name, value);
}

static int64_t seconds_until(int64_t ms, int64_t now_ms)
{
    int64_t left_ms = ms - now_ms;
    return left_ms > 0 ? left_ms / 1000 : 0;
}

/* Appends the statistics of a tube. `topic` is NULL if the queue has no such topic. `tube` is NULL
 * if no client of this server uses or watches the tube. `now_ms` is the queue's wall clock. */
static void beanstalk_stats_tube(struct buffer *out, const struct beanstalk_tube *tube,
                                 struct slice name, const struct queue_topic *topic, int64_t now_ms)
{
    static const struct queue_topic none;
    static const struct beanstalk_tube empty;
    topic = topic ? topic : &none;
    tube = tube ? tube : &empty;
    bool is_paused = topic->paused;
    uint64_t left_s = is_paused ? (uint64_t)seconds_until(topic->paused_until_ms, now_ms) : 0;
    buffer_append_format(out, "---\nname: \"%.*s\"\n", (int)name.len, name.at);
    beanstalk_yaml_number(out, "current-jobs-urgent", 0);
    beanstalk_yaml_number(out, "current-jobs-ready", topic->counts.ready);
    beanstalk_yaml_number(out, "current-jobs-reserved", topic->counts.leased);
    beanstalk_yaml_number(out, "current-jobs-delayed",
                          topic->counts.delayed + topic->counts.retrying);
    beanstalk_yaml_number(out, "current-jobs-buried", topic->counts.dead);
    beanstalk_yaml_number(out, "total-jobs", topic->totals.pushed + topic->totals.replaced);
    beanstalk_yaml_number(out, "current-using", tube->users);
    beanstalk_yaml_number(out, "current-watching", tube->watchers);
    beanstalk_yaml_number(out, "current-waiting", tube->waiting);
    beanstalk_yaml_number(out, "cmd-delete", topic->totals.acked + topic->totals.cancelled);
    beanstalk_yaml_number(out, "cmd-pause-tube", tube->pauses);
    beanstalk_yaml_number(out, "pause", !is_paused ? 0 : tube->pause_s ? tube->pause_s : left_s);
    beanstalk_yaml_number(out, "pause-time-left", left_s);
}

/* Verbs in the order of beanstalkd's output. */
static const struct {
    enum beanstalk_verb verb;
    const char *name;
} verbs[] = {
    {BEANSTALK_PUT, "cmd-put"},
    {BEANSTALK_PEEK, "cmd-peek"},
    {BEANSTALK_PEEK_READY, "cmd-peek-ready"},
    {BEANSTALK_PEEK_DELAYED, "cmd-peek-delayed"},
    {BEANSTALK_PEEK_BURIED, "cmd-peek-buried"},
    {BEANSTALK_RESERVE, "cmd-reserve"},
    {BEANSTALK_RESERVE_WITH_TIMEOUT, "cmd-reserve-with-timeout"},
    {BEANSTALK_DELETE, "cmd-delete"},
    {BEANSTALK_RELEASE, "cmd-release"},
    {BEANSTALK_USE, "cmd-use"},
    {BEANSTALK_WATCH, "cmd-watch"},
    {BEANSTALK_IGNORE, "cmd-ignore"},
    {BEANSTALK_BURY, "cmd-bury"},
    {BEANSTALK_KICK, "cmd-kick"},
    {BEANSTALK_TOUCH, "cmd-touch"},
    {BEANSTALK_STATS, "cmd-stats"},
    {BEANSTALK_STATS_JOB, "cmd-stats-job"},
    {BEANSTALK_STATS_TUBE, "cmd-stats-tube"},
    {BEANSTALK_LIST_TUBES, "cmd-list-tubes"},
    {BEANSTALK_LIST_TUBE_USED, "cmd-list-tube-used"},
    {BEANSTALK_LIST_TUBES_WATCHED, "cmd-list-tubes-watched"},
    {BEANSTALK_PAUSE_TUBE, "cmd-pause-tube"},
};

/* Returns true if the tube must be added to those in front->tubes. A tube exists while it has jobs,
 * or while a client uses or watches it. */
static bool is_shown(const struct beanstalk_front *front, const struct queue_topic *topic)
{
    return !job_topic_is_own(topic->name) && queue_counts_jobs(&topic->counts) &&
           !beanstalk_tubes_find(&front->tubes, topic->name);
}

static void beanstalk_sum_add(struct beanstalk_sum *sum, const struct beanstalk_front *front,
                              const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    if (job_topic_is_own(topic->name))
        return;
    sum->counts.ready += counts->ready;
    sum->counts.leased += counts->leased;
    sum->counts.delayed += counts->delayed + counts->retrying;
    sum->counts.dead += counts->dead;
    sum->total += topic->totals.pushed + topic->totals.replaced;
    sum->tubes += is_shown(front, topic);
}

static void write_machine(struct buffer *out, const struct beanstalk_front *front)
{
    struct rusage usage = {0};
    struct utsname machine = {0};
    struct queue_info info = {0};
    getrusage(RUSAGE_SELF, &usage);
    uname(&machine);
    queue_info(front->options.queue, &info);
    beanstalk_yaml_number(out, "pid", (uint64_t)getpid());
    write_text(out, "version", PROTOCOL_VERSION);
    buffer_append_format(out, "rusage-utime: %ld.%06ld\nrusage-stime: %ld.%06ld\n",
                         (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec,
                         (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec);
    beanstalk_yaml_number(out, "uptime", (uint64_t)(clock_inner_ms() - front->started_ms) / 1000);
    beanstalk_yaml_number(out, "binlog-oldest-index", 0);
    beanstalk_yaml_number(out, "binlog-current-index", 0);
    beanstalk_yaml_number(out, "binlog-records-migrated", 0);
    beanstalk_yaml_number(out, "binlog-records-written", 0);
    beanstalk_yaml_number(out, "binlog-max-size", 0);
    buffer_append_format(out, "draining: %s\nid: %s\n", info.draining ? "true" : "false",
                         front->instance);
    write_text(out, "hostname", machine.nodename);
    write_text(out, "os", machine.version);
    write_text(out, "platform", machine.machine);
}

static void beanstalk_stats(struct buffer *out, struct beanstalk_front *front,
                            const struct beanstalk_sum *sum)
{
    buffer_append_text(out, "---\n");
    beanstalk_yaml_number(out, "current-jobs-urgent", 0);
    beanstalk_yaml_number(out, "current-jobs-ready", sum->counts.ready);
    beanstalk_yaml_number(out, "current-jobs-reserved", sum->counts.leased);
    beanstalk_yaml_number(out, "current-jobs-delayed", sum->counts.delayed);
    beanstalk_yaml_number(out, "current-jobs-buried", sum->counts.dead);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        beanstalk_yaml_number(out, verbs[i].name, front->verbs[verbs[i].verb]);
    beanstalk_yaml_number(out, "job-timeouts", front->timeouts);
    beanstalk_yaml_number(out, "total-jobs", sum->total);
    beanstalk_yaml_number(out, "max-job-size", front->options.job_bytes_max);
    beanstalk_yaml_number(out, "current-tubes", front->tubes.table.table.count + sum->tubes);
    beanstalk_yaml_number(out, "current-connections", front->connection_count);
    beanstalk_yaml_number(out, "current-producers", front->producers);
    beanstalk_yaml_number(out, "current-workers", front->workers);
    beanstalk_yaml_number(out, "current-waiting", front->waiting);
    beanstalk_yaml_number(out, "total-connections", front->connections_total);
    write_machine(out, front);
}

static void write_tube(struct buffer *out, struct slice name)
{
    buffer_append_format(out, "- %.*s\n", (int)name.len, name.at);
}

/* Appends the tubes that clients use or watch. Then beanstalk_list_topic appends each topic that is
 * another tube. */
static void beanstalk_list_tubes(struct buffer *out, const struct beanstalk_front *front)
{
    buffer_append_text(out, "---\n");
    for (const struct list *at = front->tubes.order.next; at != &front->tubes.order; at = at->next)
        write_tube(out, beanstalk_tube_name(list_entry(at, struct beanstalk_tube, order)));
}

static void beanstalk_list_topic(struct buffer *out, const struct beanstalk_front *front,
                                 const struct queue_topic *topic)
{
    if (is_shown(front, topic))
        write_tube(out, topic->name);
}

/* ---- tubes ---- */

/* ---- the used tube and the watched tubes ---- */

static void answer_used(struct beanstalk_session *session)
{
    struct slice name = beanstalk_tube_name(session->used);
    buffer_append_format(&session->connection.out, "USING %.*s\r\n", (int)name.len, name.at);
}

static void use_tube(struct beanstalk_session *session)
{
    struct beanstalk_tube *tube =
        beanstalk_tubes_need(&session->front->tubes, session->command.tube);
    if (!tube) {
        beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
        return;
    }
    tube->users++;
    session->used->users--;
    beanstalk_tubes_drop(&session->front->tubes, session->used);
    session->used = tube;
    answer_used(session);
}

static void list_used(struct beanstalk_session *session)
{
    answer_used(session);
}

/* Returns the index of a watched tube, or `watched_count` if the tube is not watched. */
static uint32_t find_watched(const struct beanstalk_session *session, struct slice name)
{
    uint32_t i = 0;
    while (i < session->watched_count &&
           !slice_equals(beanstalk_tube_name(session->watched[i]), name))
        i++;
    return i;
}

static void answer_watching(struct beanstalk_session *session)
{
    buffer_append_format(&session->connection.out, "WATCHING %" PRIu32 "\r\n",
                         session->watched_count);
}

static void watch_tube(struct beanstalk_session *session)
{
    struct slice name = session->command.tube;
    if (find_watched(session, name) == session->watched_count) {
        struct beanstalk_tube *tube = session->watched_count < SESSION_WATCHED_MAX
                                          ? beanstalk_tubes_need(&session->front->tubes, name)
                                          : NULL;
        if (!tube) {
            beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
            return;
        }
        tube->watchers++;
        session->watched[session->watched_count++] = tube;
    }
    answer_watching(session);
}

static void ignore_tube(struct beanstalk_session *session)
{
    uint32_t at = find_watched(session, session->command.tube);
    if (at < session->watched_count && session->watched_count == 1) {
        beanstalk_answer(session, "NOT_IGNORED\r\n");
        return;
    }
    if (at < session->watched_count) {
        struct beanstalk_tube *tube = session->watched[at];
        memmove(&session->watched[at], &session->watched[at + 1],
                (--session->watched_count - at) * sizeof session->watched[0]);
        tube->watchers--;
        beanstalk_tubes_drop(&session->front->tubes, tube);
    }
    answer_watching(session);
}

static void list_watched(struct beanstalk_session *session)
{
    struct buffer yaml;
    buffer_init(&yaml, SESSION_YAML_BYTES_MAX);
    buffer_append_text(&yaml, "---\n");
    for (uint32_t i = 0; i < session->watched_count; i++) {
        struct slice name = beanstalk_tube_name(session->watched[i]);
        buffer_append_format(&yaml, "- %.*s\n", (int)name.len, name.at);
    }
    beanstalk_answer_yaml(session, &yaml);
}

static void call_topic(struct beanstalk_session *session, struct queue_topic_call call,
                       queue_done *done)
{
    call.topic = session->command.tube;
    queue_topic(beanstalk_session_queue(session), &call, beanstalk_session_call(session, done));
}

/* ---- pause-tube ---- */

static void on_paused(void *owner, uint64_t tag, const struct queue_reply *reply);

static void pause_tube(struct beanstalk_session *session)
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
        pause_tube(session);
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

static void show_tube(struct beanstalk_session *session)
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

/* Answers stats and list-tubes. */
static void show_all(struct beanstalk_session *session)
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

enum { KICK_PAGE = QUEUE_LIST_MAX };

/* ---- peek ---- */

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    const struct job *job = beanstalk_session_got_job(session, reply);
    if (!job)
        return;
    beanstalk_answer_job(session, "FOUND", beanstalk_job_view_of(session->front, job).number,
                         job->body);
    session->driver->go_on(session);
}

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    const struct job *best = NULL;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->job_count; i++) /* sorted by due time, then by push order */
        if (!best || reply->jobs[i].job.priority < best->priority)
            best = &reply->jobs[i].job;
    if (best)
        queue_get(beanstalk_session_queue(session), best->topic, best->id,
                  beanstalk_session_call(session, on_got));
    else
        beanstalk_finish_not_found(session, reply->status);
}

static void peek(struct beanstalk_session *session, enum job_state state, uint32_t limit)
{
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = state,
                                    .limit = limit,
                                    .first_only = state == JOB_READY};
    queue_list(beanstalk_session_queue(session), &list, beanstalk_session_call(session, on_listed));
}

/* Finds the job of the best priority. If the store returns a page of jobs, finds the best one on
 * this page. */
static void peek_ready(struct beanstalk_session *session)
{
    peek(session, JOB_READY, QUEUE_LIST_MAX);
}

static void peek_delayed(struct beanstalk_session *session)
{
    peek(session, JOB_DELAYED, 1);
}

static void peek_buried(struct beanstalk_session *session)
{
    peek(session, JOB_DEAD, 1);
}

/* ---- kick ---- */

/* Returns how many jobs the command may still kick. */
static uint32_t kick_left(const struct beanstalk_session *session)
{
    return session->command.number - session->kicked;
}

static void finish_kick(struct beanstalk_session *session)
{
    buffer_append_format(&session->connection.out, "KICKED %" PRIu32 "\r\n", session->kicked);
    session->driver->go_on(session);
}

static void run_delayed(struct beanstalk_session *session);

static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    uint32_t before = session->kicked;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->result_count; i++)
        session->kicked += reply->results[i].status == QUEUE_OK;
    audit_change_count(session->call.change, session->kicked - before);
    if (kick_left(session) && reply->result_count == KICK_PAGE && session->kicked > before)
        run_delayed(session);
    else
        finish_kick(session);
}

static void on_delayed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    struct queue_change *runs = reply->job_count ? calloc(reply->job_count, sizeof *runs) : NULL;
    if (!runs) {
        finish_kick(session);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++)
        runs[i] = (struct queue_change){.verb = QUEUE_RUN,
                                        .topic = reply->jobs[i].job.topic,
                                        .id = reply->jobs[i].job.id,
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(beanstalk_session_queue(session), runs, reply->job_count,
                 beanstalk_session_call(session, on_run));
    free(runs);
}

/* Runs the delayed jobs that are due next. */
static void run_delayed(struct beanstalk_session *session)
{
    uint32_t left = kick_left(session);
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = JOB_DELAYED,
                                    .limit = left < KICK_PAGE ? left : KICK_PAGE};
    queue_list(beanstalk_session_queue(session), &list,
               beanstalk_session_call(session, on_delayed));
}

/* Handles the reply to a redrive. If the tube has no buried jobs, runs delayed jobs. */
static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        beanstalk_finish(session, beanstalk_answer_of(reply->status));
        return;
    }
    session->kicked = (uint32_t)reply->affected;
    if (session->kicked)
        finish_kick(session);
    else
        run_delayed(session);
}

static void kick_jobs(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = beanstalk_tube_name(session->used),
                                             .max = session->command.number};
    if (!redrive.max)
        beanstalk_answer(session, "KICKED 0\r\n");
    else
        queue_topic(beanstalk_session_queue(session), &redrive,
                    beanstalk_session_call(session, on_redriven));
}

/* ---- the table ---- */

const struct beanstalk_handler beanstalk_tubes_handlers[] = {
    {BEANSTALK_USE, use_tube, false},
    {BEANSTALK_WATCH, watch_tube, false},
    {BEANSTALK_IGNORE, ignore_tube, false},
    {BEANSTALK_LIST_TUBE_USED, list_used, false},
    {BEANSTALK_LIST_TUBES_WATCHED, list_watched, false},
    {BEANSTALK_PEEK_READY, peek_ready, false},
    {BEANSTALK_PEEK_DELAYED, peek_delayed, false},
    {BEANSTALK_PEEK_BURIED, peek_buried, false},
    {BEANSTALK_KICK, kick_jobs, false},
    {BEANSTALK_STATS_TUBE, show_tube, false},
    {BEANSTALK_STATS, show_all, false},
    {BEANSTALK_LIST_TUBES, show_all, false},
    {BEANSTALK_PAUSE_TUBE, pause_tube, false},
    {0},
};
