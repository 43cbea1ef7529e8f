#include "monitor/status.h"

#include "base/duration.h"
#include "base/json_write.h"

#include <stdio.h>

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define SENT_MS (6 * MINUTE_MS) /* more than the longest timeout of a delivery */

enum kind { KIND_NONE = 0, KIND_COUNT, KIND_TIME, KIND_BYTES };

enum problem_row {
    ROW_STORE_FAILED = 0,
    ROW_REDIS_AWAY,
    ROW_MOVED,
    ROW_FULL,
    ROW_FULL_OF,
    ROW_MEMORY_SPENT,
    ROW_STUCK,
    ROW_STUCK_TARGET,
    ROW_VERY_LATE,
    ROW_CERTIFICATE_ENDED,
    ROW_CERTIFICATE_ENDS_NOW,
    ROW_CHECKPOINTS_STOPPED,
    ROW_LATE,
    ROW_SLOW,
    ROW_SLOW_TARGET,
    ROW_TOPIC_FULL,
    ROW_MEMORY,
    ROW_DISK,
    ROW_PAUSED,
    ROW_HELD,
    ROW_HELD_GROUPS,
    ROW_DEAD,
    ROW_CERTIFICATE_ENDS,
    ROW_CHECKPOINTS,
    ROW_MERGE,
    ROW_LOAD,
    ROW_TOKENS,
    ROW_TOKENS_IN_STORE,
    ROW_ISSUER_KEYS,
    ROW_CERTIFICATE_FILES,
    ROW_CONFIGURATION,
    ROW_POLICY,
    ROW_AUDIT_FILE,
    ROW_AUDIT_FILE_KEPT,
    ROW_LOG_FILE,
    ROW_INTAKE,
    ROW_INTAKE_PAUSED,
    ROW_TRACES,
    ROW_SCHEDULES,
    ROW_DATABASE_UPKEEP,
    ROW_DATABASE_CALLS,
    ROW_DATABASE_ROWS,
    ROW_CLOCK,
    ROWS
};
_Static_assert((int)ROWS <= (int)MONITOR_STATUS_ROWS_MAX, "a status has room for all rows");

/* A row of the table, which is ordered by severity. {topic}, {shard}, {operation}, {breaker} and
 * {value} in the sentence are replaced. */
struct monitor_problem_row {
    const char *code, *runbook;
    enum monitor_severity severity;
    enum kind kind;
    int64_t limit; /* problem above it, or below it for an end; 0: none, or `max` applies */
    const char *sentence;
};

static const struct monitor_problem_row rows[ROWS] = {
    [ROW_STORE_FAILED] = {"store_failed", "store", MONITOR_CRITICAL, KIND_NONE, 0,
                          "the store has failed: jobs are neither accepted nor delivered"},
    [ROW_REDIS_AWAY] = {"redis_away", "redis-away", MONITOR_CRITICAL, KIND_NONE, 0,
                        "Redis cannot be reached: jobs are neither accepted nor delivered"},
    [ROW_MOVED] = {"store_failed", "store", MONITOR_CRITICAL, KIND_NONE, 0,
                   "the data directory was moved: changes are rejected"},
    [ROW_FULL] = {"full", "full", MONITOR_CRITICAL, KIND_NONE, 0,
                  "the store is full: pushes are rejected"},
    [ROW_FULL_OF] = {"full", "full", MONITOR_CRITICAL, KIND_COUNT, 0,
                     "the store is full: pushes are rejected; '{topic}' has most of the jobs, "
                     "{value}"},
    [ROW_MEMORY_SPENT] = {"memory", "full", MONITOR_CRITICAL, KIND_BYTES, 0,
                          "memory is used up, {value}: pushes are rejected"},
    [ROW_STUCK] = {"stuck", "stuck", MONITOR_CRITICAL, KIND_TIME, MINUTE_MS,
                   "no worker takes the ready jobs of '{topic}': the oldest was due {value} ago"},
    [ROW_STUCK_TARGET] =
        {"stuck", "stuck", MONITOR_CRITICAL, KIND_TIME, MINUTE_MS,
         "the ready jobs of '{topic}' do not reach its target{breaker}: the oldest was due {value} "
         "ago"},
    [ROW_VERY_LATE] = {"late", "late", MONITOR_CRITICAL, KIND_TIME, MINUTE_MS,
                       "deliveries are {value} late (99th percentile)"},
    [ROW_CERTIFICATE_ENDED] = {"certificate", "certificate", MONITOR_CRITICAL, KIND_TIME, 0,
                               "the certificate expired {value} ago"},
    [ROW_CERTIFICATE_ENDS_NOW] = {"certificate", "certificate", MONITOR_CRITICAL, KIND_TIME, DAY_MS,
                                  "the certificate expires in {value}"},
    [ROW_CHECKPOINTS_STOPPED] =
        {"checkpoint", "background", MONITOR_CRITICAL, KIND_TIME, 10 * MINUTE_MS,
         "checkpoints of shard {shard} have failed for {value}: the log grows until the disk is "
         "full"},
    [ROW_LATE] = {"late", "late", MONITOR_WARNING, KIND_TIME, SECOND_MS,
                  "deliveries are {value} late (99th percentile)"},
    [ROW_SLOW] =
        {"late", "late", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
         "'{topic}' has too few workers, or none: its oldest ready job was due {value} ago"},
    [ROW_SLOW_TARGET] =
        {"late", "late", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
         "the target of '{topic}' is too slow or fails{breaker}: its oldest ready job was "
         "due {value} ago"},
    [ROW_TOPIC_FULL] = {"full", "full", MONITOR_WARNING, KIND_COUNT, 0,
                        "'{topic}' is full with {value}: pushes to it are rejected"},
    [ROW_MEMORY] = {"memory", "full", MONITOR_WARNING, KIND_BYTES, 0,
                    "memory is almost used up, {value}"},
    [ROW_DISK] = {"disk", "full", MONITOR_WARNING, KIND_TIME, 4 * HOUR_MS,
                  "the disk will be full in {value} if it continues to grow at its present rate"},
    [ROW_PAUSED] = {"stuck", "stuck", MONITOR_WARNING, KIND_TIME, HOUR_MS,
                    "'{topic}' has ready jobs and has been paused for {value}"},
    [ROW_HELD] = {"held", "held", MONITOR_WARNING, KIND_TIME, 10 * MINUTE_MS,
                  "all ready jobs of '{topic}' are held, and the oldest was due {value} ago"},
    [ROW_HELD_GROUPS] = {"held", "held", MONITOR_WARNING, KIND_TIME, HOUR_MS,
                         "'{topic}' has ready jobs in groups that are paused or on hold, for "
                         "{value}"},
    [ROW_DEAD] = {"dead", "dead", MONITOR_WARNING, KIND_COUNT, 0,
                  "'{topic}' has {value} that died"},
    [ROW_CERTIFICATE_ENDS] = {"certificate", "certificate", MONITOR_WARNING, KIND_TIME, 7 * DAY_MS,
                              "the certificate expires in {value}"},
    [ROW_CHECKPOINTS] = {"checkpoint", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                         "checkpoints of shard {shard} have failed for {value}: the log grows"},
    [ROW_MERGE] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                   "tables of keys of shard {shard} have not been merged for {value}: lookups "
                   "become slower"},
    [ROW_LOAD] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                  "jobs of shard {shard} that are due soon have not been loaded for {value}: "
                  "memory is short"},
    [ROW_TOKENS] = {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
                    "the tokens have been unreadable for {value}: the previous ones stay in force"},
    [ROW_TOKENS_IN_STORE] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the tokens in the store have been unreadable for {value}: the previous ones stay in "
         "force"},
    [ROW_ISSUER_KEYS] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                         "the keys of the issuer have been unreadable for {value}: the previous "
                         "ones stay in force"},
    [ROW_CERTIFICATE_FILES] = {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
                               "the certificate files have been unreadable for {value}: the "
                               "previous certificate stays in force"},
    [ROW_CONFIGURATION] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the configuration has been unreadable for {value}: the previous one stays in force"},
    [ROW_POLICY] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the policy file has been unreadable for {value}: the previous policy stays in force"},
    [ROW_AUDIT_FILE] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the audit file has not been written for {value}: audit events are only in the log"},
    [ROW_AUDIT_FILE_KEPT] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the audit file has not been reopened for {value}: events go to the previous file"},
    [ROW_LOG_FILE] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the log file has not been reopened for {value}: lines go to the previous file"},
    [ROW_INTAKE] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                    "the intake of messages has had no connection to its broker for {value}"},
    [ROW_INTAKE_PAUSED] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                           "the queue has accepted no message of the intake for {value}"},
    [ROW_TRACES] = {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
                    "spans have not been exported for {value}: they are dropped"},
    [ROW_SCHEDULES] = {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
                       "fires of schedules are refused, or schedules wait, the first one {value} "
                       "ago: the log has their names"},
    [ROW_DATABASE_UPKEEP] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 10 * SECOND_MS,
         "the database has refused the server's {operation} for {value}: the log has its "
         "messages"},
    [ROW_DATABASE_CALLS] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "the database refuses calls, the first one {value} ago: the log has its messages"},
    [ROW_DATABASE_ROWS] =
        {"background", "background", MONITOR_WARNING, KIND_TIME, 0,
         "rows in the database break the rules of a push, the first one was read {value} ago: the "
         "log has their ids"},
    [ROW_CLOCK] = {"clock", "clock", MONITOR_WARNING, KIND_TIME, 0,
                   "the clock was changed by {value}"},
};

enum { MEMORY_PERCENT = 90, MANY_JOBS = 100 };
#define CLOCK_MS (10 * MINUTE_MS) /* how long a step of the clock is reported */

const char *monitor_status_code(uint32_t row)
{
    return row < ROWS ? rows[row].code : NULL;
}

/* ---- evaluation ---- */

/* Adds a problem. Of topics and parties, keeps those with the largest values, largest first. */
static void found_of(struct monitor_status *status, enum problem_row row,
                     struct monitor_status_problem problem)
{
    int64_t value = problem.value;
    struct monitor_status_problem *list = status->problems[row];
    uint32_t count = status->counts[row], at = count;
    bool is_full = count == MONITOR_STATUS_TOPICS_MAX;
    if (is_full) {
        status->left_out++;
        if (value <= list[count - 1].value)
            return;
        at = count - 1;
    } else {
        status->counts[row]++;
        status->criticals += rows[row].severity == MONITOR_CRITICAL;
        status->warnings += rows[row].severity == MONITOR_WARNING;
    }
    for (; at > 0 && list[at - 1].value < value; at--)
        list[at] = list[at - 1];
    problem.row = &rows[row];
    list[at] = problem;
}

static void found(struct monitor_status *status, enum problem_row row,
                  const struct monitor_sample_topic *topic, int64_t value)
{
    found_of(status, row, (struct monitor_status_problem){.topic = topic, .value = value});
}

/* Evaluates a topic whose jobs may be handed out by the wait of its oldest ready job: either its
 * jobs are not taken at all, or too slowly. */
static void evaluate_ready(struct monitor_status *status, const struct monitor_status_input *input,
                           const struct monitor_sample_topic *topic)
{
    int64_t now_ms = input->sample->inner_ms;
    int64_t age_ms = input->wall_ms - topic->figures.oldest_ready_due_ms;
    /* A target may take its time for an answer. */
    bool is_sent = topic->delivers && topic->figures.counts.leased;
    int64_t limit = is_sent ? SENT_MS : rows[ROW_STUCK].limit;
    bool is_taken = now_ms - topic->taken_ms <= limit;
    enum problem_row stuck = topic->delivers ? ROW_STUCK_TARGET : ROW_STUCK;
    enum problem_row slow = topic->delivers ? ROW_SLOW_TARGET : ROW_SLOW;
    if (topic->paused_ms) {
        if (now_ms - topic->paused_ms > rows[ROW_PAUSED].limit)
            found(status, ROW_PAUSED, topic, now_ms - topic->paused_ms);
    } else if (!is_taken && age_ms > rows[stuck].limit) {
        found(status, stuck, topic, age_ms);
    } else if (is_taken && age_ms > rows[slow].limit) {
        found(status, slow, topic, age_ms);
    }
}

/* Evaluates a topic with held jobs: either it delivers nothing at all, or some groups were stopped and forgotten. Limits and rates
 * that let jobs through are intended. */
static void evaluate_held(struct monitor_status *status, const struct monitor_status_input *input,
                          const struct monitor_sample_topic *topic)
{
    const struct queue_counts *counts = &topic->figures.counts;
    int64_t now_ms = input->sample->inner_ms;
    int64_t age_ms = input->wall_ms - topic->figures.oldest_ready_due_ms;
    if (counts->held >= counts->ready && topic->figures.oldest_ready_due_ms &&
        age_ms > rows[ROW_HELD].limit && now_ms - topic->taken_ms > rows[ROW_HELD].limit)
        found(status, ROW_HELD, topic, age_ms);
    else if (topic->stopped_ms && now_ms - topic->stopped_ms > rows[ROW_HELD_GROUPS].limit)
        found(status, ROW_HELD_GROUPS, topic, now_ms - topic->stopped_ms);
}

static uint64_t jobs_of(const struct monitor_sample_topic *topic)
{
    const struct queue_counts *counts = &topic->figures.counts;
    return counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead;
}

static void evaluate_topic(struct monitor_status *status, const struct monitor_status_input *input,
                           const struct monitor_sample_topic *topic)
{
    const struct queue_counts *counts = &topic->figures.counts;
    uint64_t jobs = jobs_of(topic);
    status->topics++;
    status->jobs += jobs;
    /* Held jobs wait for a limit, not for a worker. */
    if (counts->ready > counts->held && topic->figures.oldest_ready_due_ms)
        evaluate_ready(status, input, topic);
    if (counts->held && !topic->paused_ms)
        evaluate_held(status, input, topic);
    if (topic->max_jobs && jobs >= topic->max_jobs)
        found(status, ROW_TOPIC_FULL, topic, (int64_t)jobs);
    if (counts->dead)
        found(status, ROW_DEAD, topic, (int64_t)counts->dead);
}

/* Names the topic with most jobs, if there are jobs. */
static void found_full(struct monitor_status *status, const struct monitor_sample *sample)
{
    const struct monitor_sample_topic *most = NULL;
    for (size_t i = 0; i < sample->topic_count; i++)
        if (jobs_of(&sample->topics[i]) > (most ? jobs_of(most) : 0))
            most = &sample->topics[i];
    found(status, most ? ROW_FULL_OF : ROW_FULL, most, most ? (int64_t)jobs_of(most) : 0);
}

static void evaluate_store(struct monitor_status *status, const struct monitor_sample *sample)
{
    if (!sample->is_healthy)
        found(status, sample->is_redis ? ROW_REDIS_AWAY : ROW_STORE_FAILED, NULL, 0);
    else if (sample->is_moved)
        found(status, ROW_MOVED, NULL, 0);
    else if (!sample->is_accepting)
        found_full(status, sample);
}

static void evaluate_certificate(struct monitor_status *status,
                                 const struct monitor_status_input *input)
{
    int64_t left_ms = input->certificate_ends_s * 1000 - input->wall_ms;
    if (!input->certificate_ends_s)
        return;
    if (left_ms <= 0)
        found(status, ROW_CERTIFICATE_ENDED, NULL, -left_ms);
    else if (left_ms < rows[ROW_CERTIFICATE_ENDS_NOW].limit)
        found(status, ROW_CERTIFICATE_ENDS_NOW, NULL, left_ms);
    else if (left_ms < rows[ROW_CERTIFICATE_ENDS].limit)
        found(status, ROW_CERTIFICATE_ENDS, NULL, left_ms);
}

/* Evaluates background work that fails repeatedly, of each party. */
static void evaluate_background(struct monitor_status *status,
                                const int64_t lasts_ms[TROUBLES][TROUBLE_PARTIES])
{
    static const struct {
        enum problem_row row, second; /* second: of odd parties, if their sentence differs */
    } of[TROUBLES] = {
        [TROUBLE_CHECKPOINT] = {.row = ROW_CHECKPOINTS},
        [TROUBLE_MERGE] = {.row = ROW_MERGE},
        [TROUBLE_LOAD] = {.row = ROW_LOAD},
        [TROUBLE_CONFIGURATION] = {.row = ROW_CONFIGURATION},
        [TROUBLE_POLICY] = {.row = ROW_POLICY},
        [TROUBLE_CERTIFICATE] = {.row = ROW_CERTIFICATE_FILES},
        [TROUBLE_TOKENS] = {.row = ROW_TOKENS, .second = ROW_TOKENS_IN_STORE},
        [TROUBLE_ISSUER_KEYS] = {.row = ROW_ISSUER_KEYS},
        [TROUBLE_LOG_FILE] = {.row = ROW_LOG_FILE},
        [TROUBLE_AUDIT_FILE] = {.row = ROW_AUDIT_FILE, .second = ROW_AUDIT_FILE_KEPT},
        [TROUBLE_INTAKE] = {.row = ROW_INTAKE, .second = ROW_INTAKE_PAUSED},
        [TROUBLE_TRACES] = {.row = ROW_TRACES},
        [TROUBLE_SCHEDULES] = {.row = ROW_SCHEDULES},
        [TROUBLE_DATABASE_UPKEEP] = {.row = ROW_DATABASE_UPKEEP},
        [TROUBLE_DATABASE_CALLS] = {.row = ROW_DATABASE_CALLS},
        [TROUBLE_DATABASE_ROWS] = {.row = ROW_DATABASE_ROWS},
    };
    for (int trouble = 1; trouble < TROUBLES; trouble++)
        for (uint32_t party = 0; party < TROUBLE_PARTIES; party++) {
            int64_t value = lasts_ms[trouble][party];
            enum problem_row row = of[trouble].row;
            if (party % 2 == 1 && of[trouble].second)
                row = of[trouble].second;
            if (row == ROW_CHECKPOINTS && value > rows[ROW_CHECKPOINTS_STOPPED].limit)
                row = ROW_CHECKPOINTS_STOPPED;
            if (value > rows[row].limit)
                found_of(status, row,
                         (struct monitor_status_problem){.party = party, .value = value});
        }
}

/* Evaluates the machine and the server as a whole, for callers that may see all topics. */
static void evaluate_server(struct monitor_status *status, const struct monitor_status_input *input)
{
    const struct clock_steps *steps = &input->steps;
    int64_t late_ms = input->lateness.p99_ms;
    uint64_t bytes = input->process_bytes, max = input->process_bytes_max;
    /* Among few jobs, one that a consumer requested late is not the server's lateness. */
    if (late_ms > rows[ROW_VERY_LATE].limit && input->lateness.count >= MANY_JOBS)
        found(status, ROW_VERY_LATE, NULL, late_ms);
    else if (late_ms > rows[ROW_LATE].limit)
        found(status, ROW_LATE, NULL, late_ms);
    if (input->is_memory_spent)
        found(status, ROW_MEMORY_SPENT, NULL, (int64_t)bytes);
    else if (max && bytes > max / 100 * MEMORY_PERCENT)
        found(status, ROW_MEMORY, NULL, (int64_t)bytes);
    /* A full store is reported as such. */
    if (input->disk_full_in_ms && input->disk_full_in_ms < rows[ROW_DISK].limit &&
        input->sample->is_accepting)
        found(status, ROW_DISK, NULL, input->disk_full_in_ms);
    evaluate_certificate(status, input);
    evaluate_background(status, input->troubles_ms);
    if (steps->count && input->sample->inner_ms - steps->last_at_ms < CLOCK_MS)
        found(status, ROW_CLOCK, NULL, steps->last_ms < 0 ? -steps->last_ms : steps->last_ms);
}

void monitor_status_evaluate(struct monitor_status *status,
                             const struct monitor_status_input *input)
{
    const struct monitor_sample *sample = input->sample;
    const struct access_caller *caller = input->caller;
    memset(status, 0, sizeof *status);
    status->silences = input->silences;
    status->wall_ms = input->wall_ms;
    evaluate_store(status, sample);
    if (caller->has_all_topics)
        evaluate_server(status, input);
    for (size_t i = 0; i < sample->topic_count; i++)
        if (caller->has_all_topics || access_may(caller, ACCESS_READ, sample->topics[i].name))
            evaluate_topic(status, input, &sample->topics[i]);
}

/* ---- sentences ---- */

/* Appends a duration such as "3m", "2h", "5d". */
static void append_time(struct buffer *out, int64_t ms)
{
    int64_t unit_ms = ms < 10 * SECOND_MS  ? 100
                      : ms < 2 * MINUTE_MS ? SECOND_MS
                      : ms < 2 * HOUR_MS   ? MINUTE_MS
                      : ms < 2 * DAY_MS    ? HOUR_MS
                                           : DAY_MS;
    if (unit_ms == 100)
        buffer_append_format(out, "%.1f s", (double)ms / 1000);
    else
        buffer_append_format(out, "%lld %s", (long long)((ms + unit_ms / 2) / unit_ms),
                             unit_ms == SECOND_MS   ? "s"
                             : unit_ms == MINUTE_MS ? "min"
                             : unit_ms == HOUR_MS   ? "h"
                                                    : "days");
}

static void append_value(struct buffer *out, const struct monitor_status_problem *problem)
{
    int64_t value = problem->value;
    if (problem->row->kind == KIND_TIME)
        append_time(out, value);
    else if (problem->row->kind == KIND_BYTES)
        buffer_append_format(out, "%.1f MiB", (double)value / (1 << 20));
    else
        buffer_append_format(out, "%lld job%s", (long long)value, value == 1 ? "" : "s");
}

/* Appends what the server does in the database, by the kind of the call (sql/call.h). */
static void append_operation(struct buffer *out, const struct monitor_status_problem *problem)
{
    static const char *const operations[] = {
        [0] = "upkeep",      "upkeep",       "ends of leases", "checks for waiting jobs",
        "reading of events", "ends of ttls", "upkeep",         "adoption of leases",
    };
    uint32_t count = (uint32_t)(sizeof operations / sizeof operations[0]);
    buffer_append_text(out, operations[problem->party < count ? problem->party : 0]);
}

static void append_shard(struct buffer *out, const struct monitor_status_problem *problem)
{
    buffer_append_format(out, "%02u", problem->party);
}

static void append_topic(struct buffer *out, const struct monitor_status_problem *problem)
{
    buffer_append_slice(out, problem->topic->name);
}

static void append_breaker(struct buffer *out, const struct monitor_status_problem *problem)
{
    const char *state = problem->topic->breaker;
    if (state)
        buffer_append_format(out, " (the circuit breaker is %s)",
                             strcmp(state, "half_open") == 0 ? "half open" : state);
}

/* Appends the sentence of the row with its values. */
static void append_problem(struct buffer *out, const struct monitor_status_problem *problem)
{
    static const struct {
        const char *word;
        void (*append)(struct buffer *out, const struct monitor_status_problem *problem);
    } words[] = {{"{topic}", append_topic},
                 {"{value}", append_value},
                 {"{breaker}", append_breaker},
                 {"{shard}", append_shard},
                 {"{operation}", append_operation}};
    for (const char *at = problem->row->sentence; *at;) {
        size_t i = 0, count = sizeof words / sizeof words[0];
        while (i < count && strncmp(at, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i == count) {
            buffer_append_byte(out, *at++);
            continue;
        }
        words[i].append(out, problem);
        at += strlen(words[i].word);
    }
}

static const struct monitor_status_problem *worst_problem(const struct monitor_status *status)
{
    for (uint32_t row = 0; row < ROWS; row++)
        if (status->counts[row])
            return &status->problems[row][0];
    return NULL;
}

static void append_status(struct buffer *out, const struct monitor_status *status)
{
    const struct monitor_status_problem *worst = worst_problem(status);
    uint32_t others = status->criticals + status->warnings + status->left_out - 1;
    if (!worst) {
        buffer_append_format(out, "all is well: %llu topic%s, %llu job%s",
                             (unsigned long long)status->topics, status->topics == 1 ? "" : "s",
                             (unsigned long long)status->jobs, status->jobs == 1 ? "" : "s");
        return;
    }
    if (!status->criticals)
        buffer_append_format(out, "%u warning%s: ", others + 1, others ? "s" : "");
    append_problem(out, worst);
    if (others)
        buffer_append_format(out, " (and %u more)", others);
}

/* ---- as JSON ---- */

static void write_problem(struct buffer *out, const struct monitor_status *status,
                          const struct monitor_status_problem *problem)
{
    const struct monitor_problem_row *row = problem->row;
    struct buffer sentence;
    buffer_init(&sentence, MONITOR_SENTENCE_BYTES);
    append_problem(&sentence, problem);
    buffer_append_text(out, "{\"code\":\"");
    buffer_append_text(out, row->code);
    buffer_append_text(out, row->severity == MONITOR_CRITICAL ? "\",\"severity\":\"critical\""
                                                              : "\",\"severity\":\"warning\"");
    buffer_append_text(out, ",\"sentence\":");
    json_write_string(out, buffer_slice(&sentence));
    buffer_append_text(out, ",\"topic\":");
    if (problem->topic)
        json_write_string(out, problem->topic->name);
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"value\":");
    if (row->kind)
        buffer_append_i64(out, problem->value);
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"limit\":");
    if (row->limit)
        buffer_append_i64(out, row->limit);
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"runbook\":\"");
    buffer_append_text(out, row->runbook);
    buffer_append_text(out, "\",\"silenced\":");
    monitor_silences_write_of(out, status->silences, slice_of(row->code),
                              problem->topic ? problem->topic->name : (struct slice){0},
                              status->wall_ms);
    buffer_append_byte(out, '}');
    buffer_fini(&sentence);
}

void monitor_status_write(struct buffer *out, const struct monitor_status *status)
{
    struct buffer sentence;
    bool follows = false;
    buffer_init(&sentence, MONITOR_SENTENCE_BYTES);
    append_status(&sentence, status);
    buffer_append_text(out, status->criticals ? "{\"well\":false" : "{\"well\":true");
    json_write_member_text(out, "sentence", buffer_slice(&sentence));
    buffer_append_text(out, ",\"problems\":[");
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < status->counts[row]; i++) {
            if (follows)
                buffer_append_byte(out, ',');
            follows = true;
            write_problem(out, status, &status->problems[row][i]);
        }
    buffer_append_byte(out, ']');
    json_write_member_number(out, "problems_left_out", status->left_out);
    buffer_append_byte(out, '}');
    buffer_fini(&sentence);
}
