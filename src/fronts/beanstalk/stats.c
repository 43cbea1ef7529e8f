#include "beanstalk/stats.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The version of the protocol, which clients check; not tarry's version. */
#define PROTOCOL_VERSION "1.13"

bool beanstalk_topic_is_own(struct slice name)
{
    static const char own[] = "tarry-";
    return name.len >= sizeof own - 1 && memcmp(name.at, own, sizeof own - 1) == 0;
}

static void write_number(struct buffer *out, const char *name, uint64_t value)
{
    buffer_append_format(out, "%s: %" PRIu64 "\n", name, value);
}

static void write_text(struct buffer *out, const char *name, const char *value)
{
    buffer_append_format(out, "%s: \"%s\"\n", name, value);
}

void beanstalk_stats_job(struct buffer *out, const struct beanstalk_job_view *job)
{
    buffer_append_text(out, "---\n");
    write_number(out, "id", job->number);
    buffer_append_format(out, "tube: \"%.*s\"\nstate: %s\n", (int)job->tube.len, job->tube.at,
                         job->state);
    write_number(out, "pri", job->priority);
    write_number(out, "age", (uint64_t)job->age_s);
    write_number(out, "delay", job->delay_s);
    write_number(out, "ttr", job->ttr_s);
    write_number(out, "time-left", (uint64_t)job->left_s);
    write_number(out, "file", 0);
    write_number(out, "reserves", job->reserves);
    write_number(out, "timeouts", job->timeouts);
    write_number(out, "releases", job->releases);
    write_number(out, "buries", job->buries);
    write_number(out, "kicks", job->kicks);
}

static int64_t seconds_until(int64_t ms, int64_t now_ms)
{
    int64_t left_ms = ms - now_ms;
    return left_ms > 0 ? left_ms / 1000 : 0;
}

void beanstalk_stats_tube(struct buffer *out, const struct beanstalk_tube *tube, struct slice name,
                          const struct queue_topic *topic, int64_t now_ms)
{
    static const struct queue_topic none;
    static const struct beanstalk_tube nobody;
    topic = topic ? topic : &none;
    tube = tube ? tube : &nobody;
    bool is_paused = topic->paused;
    uint64_t left_s = is_paused ? (uint64_t)seconds_until(topic->paused_until_ms, now_ms) : 0;
    buffer_append_format(out, "---\nname: \"%.*s\"\n", (int)name.len, name.at);
    write_number(out, "current-jobs-urgent", 0);
    write_number(out, "current-jobs-ready", topic->counts.ready);
    write_number(out, "current-jobs-reserved", topic->counts.leased);
    write_number(out, "current-jobs-delayed", topic->counts.delayed + topic->counts.retrying);
    write_number(out, "current-jobs-buried", topic->counts.dead);
    write_number(out, "total-jobs", topic->totals.pushed + topic->totals.replaced);
    write_number(out, "current-using", tube->users);
    write_number(out, "current-watching", tube->watchers);
    write_number(out, "current-waiting", tube->waiting);
    write_number(out, "cmd-delete", topic->totals.acked + topic->totals.cancelled);
    write_number(out, "cmd-pause-tube", tube->pauses);
    write_number(out, "pause", !is_paused ? 0 : tube->pause_s ? tube->pause_s : left_s);
    write_number(out, "pause-time-left", left_s);
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

static bool has_jobs(const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    return counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead > 0;
}

/* Returns true if the tube must be added to those in front->tubes. A tube exists while it has jobs,
 * or while a client uses or watches it. */
static bool is_shown(const struct beanstalk_front *front, const struct queue_topic *topic)
{
    return !beanstalk_topic_is_own(topic->name) && has_jobs(topic) &&
           !beanstalk_tubes_find(&front->tubes, topic->name);
}

void beanstalk_sum_add(struct beanstalk_sum *sum, const struct beanstalk_front *front,
                       const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    if (beanstalk_topic_is_own(topic->name))
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
    write_number(out, "pid", (uint64_t)getpid());
    write_text(out, "version", PROTOCOL_VERSION);
    buffer_append_format(out, "rusage-utime: %ld.%06ld\nrusage-stime: %ld.%06ld\n",
                         (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec,
                         (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec);
    write_number(out, "uptime", (uint64_t)(clock_inner_ms() - front->started_ms) / 1000);
    write_number(out, "binlog-oldest-index", 0);
    write_number(out, "binlog-current-index", 0);
    write_number(out, "binlog-records-migrated", 0);
    write_number(out, "binlog-records-written", 0);
    write_number(out, "binlog-max-size", 0);
    buffer_append_format(out, "draining: %s\nid: %s\n", info.draining ? "true" : "false",
                         front->instance);
    write_text(out, "hostname", machine.nodename);
    write_text(out, "os", machine.version);
    write_text(out, "platform", machine.machine);
}

void beanstalk_stats(struct buffer *out, struct beanstalk_front *front,
                     const struct beanstalk_sum *sum)
{
    buffer_append_text(out, "---\n");
    write_number(out, "current-jobs-urgent", 0);
    write_number(out, "current-jobs-ready", sum->counts.ready);
    write_number(out, "current-jobs-reserved", sum->counts.leased);
    write_number(out, "current-jobs-delayed", sum->counts.delayed);
    write_number(out, "current-jobs-buried", sum->counts.dead);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        write_number(out, verbs[i].name, front->verbs[verbs[i].verb]);
    write_number(out, "job-timeouts", front->timeouts);
    write_number(out, "total-jobs", sum->total);
    write_number(out, "max-job-size", front->options.job_bytes_max);
    write_number(out, "current-tubes", front->tubes.table.table.count + sum->tubes);
    write_number(out, "current-connections", front->connection_count);
    write_number(out, "current-producers", front->producers);
    write_number(out, "current-workers", front->workers);
    write_number(out, "current-waiting", front->waiting);
    write_number(out, "total-connections", front->connections_total);
    write_machine(out, front);
}

static void write_tube(struct buffer *out, struct slice name)
{
    buffer_append_format(out, "- %.*s\n", (int)name.len, name.at);
}

void beanstalk_list_tubes(struct buffer *out, const struct beanstalk_front *front)
{
    buffer_append_text(out, "---\n");
    for (const struct list *at = front->tubes.order.next; at != &front->tubes.order; at = at->next)
        write_tube(out, beanstalk_tube_name(list_entry(at, struct beanstalk_tube, order)));
}

void beanstalk_list_topic(struct buffer *out, const struct beanstalk_front *front,
                          const struct queue_topic *topic)
{
    if (is_shown(front, topic))
        write_tube(out, topic->name);
}
