#include "monitor/status.h"

#include "base/duration.h"
#include "base/json_write.h"

#include <stdio.h>

#define SENT_MS (6 * MONITOR_MINUTE_MS) /* more than the longest timeout of a delivery */

enum { MEMORY_PERCENT = 90, MANY_JOBS = 100 };
#define CLOCK_MS (10 * MONITOR_MINUTE_MS) /* how long a step of the clock is reported */

/* ---- evaluation ---- */

/* Adds a problem. Of topics and parties, keeps those with the largest values, largest first. */
static void found_of(struct monitor_status *status, enum monitor_problem row,
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
        status->criticals += monitor_problems[row].severity == MONITOR_CRITICAL;
        status->warnings += monitor_problems[row].severity == MONITOR_WARNING;
    }
    for (; at > 0 && list[at - 1].value < value; at--)
        list[at] = list[at - 1];
    problem.row = &monitor_problems[row];
    list[at] = problem;
}

static void found(struct monitor_status *status, enum monitor_problem row,
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
    int64_t limit = is_sent ? SENT_MS : monitor_problems[MONITOR_STUCK].limit;
    bool is_taken = now_ms - topic->taken_ms <= limit;
    enum monitor_problem stuck = topic->delivers ? MONITOR_STUCK_TARGET : MONITOR_STUCK;
    enum monitor_problem slow = topic->delivers ? MONITOR_SLOW_TARGET : MONITOR_SLOW;
    if (topic->paused_ms) {
        if (now_ms - topic->paused_ms > monitor_problems[MONITOR_PAUSED].limit)
            found(status, MONITOR_PAUSED, topic, now_ms - topic->paused_ms);
    } else if (!is_taken && age_ms > monitor_problems[stuck].limit) {
        found(status, stuck, topic, age_ms);
    } else if (is_taken && age_ms > monitor_problems[slow].limit) {
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
        age_ms > monitor_problems[MONITOR_HELD].limit &&
        now_ms - topic->taken_ms > monitor_problems[MONITOR_HELD].limit)
        found(status, MONITOR_HELD, topic, age_ms);
    else if (topic->stopped_ms &&
             now_ms - topic->stopped_ms > monitor_problems[MONITOR_HELD_GROUPS].limit)
        found(status, MONITOR_HELD_GROUPS, topic, now_ms - topic->stopped_ms);
}

static void evaluate_topic(struct monitor_status *status, const struct monitor_status_input *input,
                           const struct monitor_sample_topic *topic)
{
    const struct queue_counts *counts = &topic->figures.counts;
    uint64_t jobs = queue_counts_jobs(&topic->figures.counts);
    status->topics++;
    status->jobs += jobs;
    /* Held jobs wait for a limit, not for a worker. */
    if (counts->ready > counts->held && topic->figures.oldest_ready_due_ms)
        evaluate_ready(status, input, topic);
    if (counts->held && !topic->paused_ms)
        evaluate_held(status, input, topic);
    if (topic->max_jobs && jobs >= topic->max_jobs)
        found(status, MONITOR_TOPIC_FULL, topic, (int64_t)jobs);
    if (counts->dead)
        found(status, MONITOR_DEAD, topic, (int64_t)counts->dead);
}

/* Names the topic with most jobs, if there are jobs. */
static void found_full(struct monitor_status *status, const struct monitor_sample *sample)
{
    const struct monitor_sample_topic *most = NULL;
    uint64_t most_jobs = 0;
    for (size_t i = 0; i < sample->topic_count; i++) {
        uint64_t jobs = queue_counts_jobs(&sample->topics[i].figures.counts);
        if (jobs > most_jobs) {
            most = &sample->topics[i];
            most_jobs = jobs;
        }
    }
    found(status, most ? MONITOR_FULL_OF : MONITOR_FULL, most, (int64_t)most_jobs);
}

static void evaluate_store(struct monitor_status *status, const struct monitor_sample *sample)
{
    if (!sample->is_healthy)
        found(status, sample->is_redis ? MONITOR_REDIS_AWAY : MONITOR_STORE_FAILED, NULL, 0);
    else if (sample->is_moved)
        found(status, MONITOR_MOVED, NULL, 0);
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
        found(status, MONITOR_CERTIFICATE_ENDED, NULL, -left_ms);
    else if (left_ms < monitor_problems[MONITOR_CERTIFICATE_ENDS_NOW].limit)
        found(status, MONITOR_CERTIFICATE_ENDS_NOW, NULL, left_ms);
    else if (left_ms < monitor_problems[MONITOR_CERTIFICATE_ENDS].limit)
        found(status, MONITOR_CERTIFICATE_ENDS, NULL, left_ms);
}

/* Evaluates background work that fails repeatedly, of each party. */
static void evaluate_background(struct monitor_status *status,
                                const int64_t lasts_ms[TROUBLES][TROUBLE_PARTIES])
{
    static const struct {
        enum monitor_problem row, second; /* second: of odd parties, if their sentence differs */
    } of[TROUBLES] = {
        [TROUBLE_CHECKPOINT] = {.row = MONITOR_CHECKPOINTS},
        [TROUBLE_MERGE] = {.row = MONITOR_MERGE},
        [TROUBLE_LOAD] = {.row = MONITOR_LOAD},
        [TROUBLE_CONFIGURATION] = {.row = MONITOR_CONFIGURATION},
        [TROUBLE_POLICY] = {.row = MONITOR_POLICY},
        [TROUBLE_CERTIFICATE] = {.row = MONITOR_CERTIFICATE_FILES},
        [TROUBLE_TOKENS] = {.row = MONITOR_TOKENS, .second = MONITOR_TOKENS_IN_STORE},
        [TROUBLE_ISSUER_KEYS] = {.row = MONITOR_ISSUER_KEYS},
        [TROUBLE_LOG_FILE] = {.row = MONITOR_LOG_FILE},
        [TROUBLE_AUDIT_FILE] = {.row = MONITOR_AUDIT_FILE, .second = MONITOR_AUDIT_FILE_KEPT},
        [TROUBLE_INTAKE] = {.row = MONITOR_INTAKE, .second = MONITOR_INTAKE_PAUSED},
        [TROUBLE_TRACES] = {.row = MONITOR_TRACES},
        [TROUBLE_SCHEDULES] = {.row = MONITOR_SCHEDULES},
        [TROUBLE_DATABASE_UPKEEP] = {.row = MONITOR_DATABASE_UPKEEP},
        [TROUBLE_DATABASE_CALLS] = {.row = MONITOR_DATABASE_CALLS},
        [TROUBLE_DATABASE_ROWS] = {.row = MONITOR_DATABASE_ROWS},
    };
    for (int trouble = 1; trouble < TROUBLES; trouble++)
        for (uint32_t party = 0; party < TROUBLE_PARTIES; party++) {
            int64_t value = lasts_ms[trouble][party];
            enum monitor_problem row = of[trouble].row;
            if (party % 2 == 1 && of[trouble].second)
                row = of[trouble].second;
            if (row == MONITOR_CHECKPOINTS &&
                value > monitor_problems[MONITOR_CHECKPOINTS_STOPPED].limit)
                row = MONITOR_CHECKPOINTS_STOPPED;
            if (value > monitor_problems[row].limit)
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
    if (late_ms > monitor_problems[MONITOR_VERY_LATE].limit && input->lateness.count >= MANY_JOBS)
        found(status, MONITOR_VERY_LATE, NULL, late_ms);
    else if (late_ms > monitor_problems[MONITOR_LATE].limit)
        found(status, MONITOR_LATE, NULL, late_ms);
    if (input->is_memory_spent)
        found(status, MONITOR_MEMORY_SPENT, NULL, (int64_t)bytes);
    else if (max && bytes > max / 100 * MEMORY_PERCENT)
        found(status, MONITOR_MEMORY, NULL, (int64_t)bytes);
    /* A full store is reported as such. */
    if (input->disk_full_in_ms && input->disk_full_in_ms < monitor_problems[MONITOR_DISK].limit &&
        input->sample->is_accepting)
        found(status, MONITOR_DISK, NULL, input->disk_full_in_ms);
    evaluate_certificate(status, input);
    evaluate_background(status, input->troubles_ms);
    if (steps->count && input->sample->inner_ms - steps->last_at_ms < CLOCK_MS)
        found(status, MONITOR_CLOCK, NULL, steps->last_ms < 0 ? -steps->last_ms : steps->last_ms);
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
    int64_t unit_ms = ms < 10 * MONITOR_SECOND_MS  ? 100
                      : ms < 2 * MONITOR_MINUTE_MS ? MONITOR_SECOND_MS
                      : ms < 2 * MONITOR_HOUR_MS   ? MONITOR_MINUTE_MS
                      : ms < 2 * MONITOR_DAY_MS    ? MONITOR_HOUR_MS
                                                   : MONITOR_DAY_MS;
    if (unit_ms == 100)
        buffer_append_format(out, "%.1f s", (double)ms / 1000);
    else
        buffer_append_format(out, "%lld %s", (long long)((ms + unit_ms / 2) / unit_ms),
                             unit_ms == MONITOR_SECOND_MS   ? "s"
                             : unit_ms == MONITOR_MINUTE_MS ? "min"
                             : unit_ms == MONITOR_HOUR_MS   ? "h"
                                                            : "days");
}

static void append_value(struct buffer *out, const struct monitor_status_problem *problem)
{
    int64_t value = problem->value;
    if (problem->row->kind == MONITOR_VALUE_TIME)
        append_time(out, value);
    else if (problem->row->kind == MONITOR_VALUE_BYTES)
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
    for (uint32_t row = 0; row < MONITOR_PROBLEMS; row++)
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
    for (uint32_t row = 0; row < MONITOR_PROBLEMS; row++)
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
