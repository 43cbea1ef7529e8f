/* metrics: delivery metrics for Prometheus. Labels are topics that deliver, up to the label limit
 * of the page, and fixed words. */
#include "deliver/dead_letter_pass.h"
#include "deliver/state.h"

#include <stdlib.h>

static const char *const returns[DISPATCHER_RETURNS] = {
    [DISPATCHER_RETURN_RESTS] = "endpoint_rests", [DISPATCHER_RETURN_CONGESTED] = "endpoint_full",
    [DISPATCHER_RETURN_LATER] = "too_many",       [DISPATCHER_RETURN_SHORT_LEASE] = "short_lease",
    [DISPATCHER_RETURN_UNSENT] = "unsent",        [DISPATCHER_RETURN_STOPPING] = "stopping"};

enum {
    ATTEMPTS,
    IN_FLIGHT,
    RETURNED,
    LEASE_ENDED,
    RESULTS_LOST,
    ENDPOINTS,
    ENDPOINT_OUTCOMES,
    ENDPOINT_DURATION,
    ENDPOINT_IN_FLIGHT,
    ENDPOINT_BREAKER
};

/* ---- by topic ---- */

typedef void emit_tally(struct metric_page *page, struct slice topic,
                        const struct dispatcher_tally *tally);

/* Emits the samples of all topics. */
static void each_tally(const struct dispatchers *dispatchers, struct metric_page *page, int which,
                       emit_tally *emit)
{
    metric_begin(page, &deliver_metrics[which]);
    for (struct list *at = dispatchers->shown.next; at != &dispatchers->shown; at = at->next) {
        const struct dispatcher *dispatcher = list_entry(at, struct dispatcher, shown);
        emit(page, dispatcher->entry.key, dispatcher->tally);
    }
    if (dispatchers->has_others)
        emit(page, slice_of(METRIC_OTHERS), &dispatchers->others);
}

static void emit_attempts(struct metric_page *page, struct slice topic,
                          const struct dispatcher_tally *tally)
{
    for (enum target_outcome outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++)
        metric_sample(page, METRIC_LABELS(topic, slice_of(target_outcome_name(outcome))),
                      tally->attempts[outcome]);
}

static void emit_in_flight(struct metric_page *page, struct slice topic,
                           const struct dispatcher_tally *tally)
{
    metric_sample(page, METRIC_LABELS(topic), tally->in_flight);
}

static void emit_lease_ended(struct metric_page *page, struct slice topic,
                             const struct dispatcher_tally *tally)
{
    metric_sample(page, METRIC_LABELS(topic), tally->lease_ended);
}

static void emit_returned(struct metric_page *page, struct slice topic,
                          const struct dispatcher_tally *tally)
{
    for (int why = 0; why < DISPATCHER_RETURNS; why++)
        metric_sample(page, METRIC_LABELS(topic, slice_of(returns[why])), tally->returned[why]);
}

static void emit_results_lost(struct metric_page *page, struct slice topic,
                              const struct dispatcher_tally *tally)
{
    for (enum target_loss loss = TARGET_LOSS_TOO_BIG; loss < TARGET_LOSSES; loss++)
        metric_sample(page, METRIC_LABELS(topic, slice_of(target_loss_name(loss))),
                      tally->results_lost[loss]);
}

static void emit_endpoints(struct deliver *deliver, struct metric_page *page)
{
    unsigned open = atomic_load(&deliver->endpoints.open);
    unsigned rest = atomic_load(&deliver->endpoints.resting);
    metric_begin(page, &deliver_metrics[ENDPOINTS]);
    metric_sample(page, METRIC_LABELS(slice_of("working")), open > rest ? open - rest : 0);
    metric_sample(page, METRIC_LABELS(slice_of("resting")), rest);
}

/* ---- by endpoint ---- */

enum { ENDPOINTS_SHOWN_MAX = 50 }; /* 23 lines each, so this keeps the page fast */

/* A line, or a sum, of the page. */
struct endpoint_line {
    struct slice name;
    uint64_t in_flight, open;
    struct endpoint_sums sums;
};

static uint64_t sent_to(const struct endpoint_tally *tally)
{
    return buckets_total(&tally->sums.took_us);
}

/* Sorts by the number of messages sent, descending, then by name. */
static int by_use(const void *a, const void *b)
{
    const struct endpoint_tally *one = *(const struct endpoint_tally *const *)a,
                                *other = *(const struct endpoint_tally *const *)b;
    uint64_t sent = sent_to(one), others = sent_to(other);
    if (sent != others)
        return sent < others ? 1 : -1;
    return slice_compare(one->entry.key, other->entry.key);
}

static void add_sums(struct endpoint_line *line, const struct endpoint_sums *sums)
{
    for (int outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++)
        counter_add(&line->sums.outcomes[outcome], counter_get(&sums->outcomes[outcome]));
    buckets_merge(&line->sums.took_us, &sums->took_us);
}

static void add_tally(struct endpoint_line *line, const struct endpoint_tally *tally)
{
    line->in_flight += counter_get(&tally->in_flight);
    line->open += counter_get(&tally->state) != ENDPOINT_CLOSED;
    add_sums(line, &tally->sums);
}

/* Collects the `most` used endpoints, then one line for all others, if any. Returns the number of
 * lines. */
static size_t endpoint_lines(const struct endpoint_tallies *tallies, size_t most,
                             struct endpoint_line *lines)
{
    size_t count = 0, kept = tallies->table.table.count;
    const struct endpoint_tally **all = calloc(kept + 1, sizeof *all);
    if (!all)
        return 0;
    for (const struct endpoint_tally *at = endpoint_tally_table_first(&tallies->table); at;
         at = endpoint_tally_table_next(&tallies->table, at))
        all[count++] = at;
    qsort((void *)all, count, sizeof *all, by_use);
    size_t shown = count < most ? count : most;
    for (size_t i = 0; i < count; i++) {
        struct endpoint_line *line = &lines[i < shown ? i : shown];
        line->name = i < shown ? all[i]->entry.key : slice_of(METRIC_OTHERS);
        add_tally(line, all[i]);
    }
    free((void *)all);
    bool has_others = count > shown || buckets_total(&tallies->gone.took_us) > 0;
    lines[shown].name = slice_of(METRIC_OTHERS);
    add_sums(&lines[shown], &tallies->gone);
    return shown + has_others;
}

static void emit_outcomes(struct metric_page *page, const struct endpoint_line *line)
{
    for (enum target_outcome outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++)
        metric_sample(page, METRIC_LABELS(line->name, slice_of(target_outcome_name(outcome))),
                      counter_get(&line->sums.outcomes[outcome]));
}

static void emit_lines(struct metric_page *page, const struct endpoint_line *lines, size_t count)
{
    metric_begin(page, &deliver_metrics[ENDPOINT_OUTCOMES]);
    for (size_t i = 0; i < count; i++)
        emit_outcomes(page, &lines[i]);
    metric_begin(page, &deliver_metrics[ENDPOINT_DURATION]);
    for (size_t i = 0; i < count; i++)
        metric_histogram(page, METRIC_LABELS(lines[i].name), &lines[i].sums.took_us,
                         &endpoint_took_bounds);
    metric_begin(page, &deliver_metrics[ENDPOINT_IN_FLIGHT]);
    for (size_t i = 0; i < count; i++)
        metric_sample(page, METRIC_LABELS(lines[i].name), lines[i].in_flight);
    metric_begin(page, &deliver_metrics[ENDPOINT_BREAKER]);
    for (size_t i = 0; i < count; i++)
        metric_sample(page, METRIC_LABELS(lines[i].name), lines[i].open);
}

static void each_endpoint(struct endpoint_tallies *tallies, struct metric_page *page)
{
    struct endpoint_line lines[ENDPOINTS_SHOWN_MAX + 1] = {0};
    size_t most = page->topics_max < ENDPOINTS_SHOWN_MAX ? page->topics_max : ENDPOINTS_SHOWN_MAX;
    pthread_mutex_lock(&tallies->lock);
    emit_lines(page, lines, endpoint_lines(tallies, most, lines));
    pthread_mutex_unlock(&tallies->lock);
}

/* ---- dead letters ---- */

static void emit_dropped(struct metric_page *page, struct slice topic,
                         const struct dead_letter_tally *tally)
{
    static const char *const reasons[DEAD_LETTER_REASONS] = {
        [DEAD_LETTER_COUNT] = "count", [DEAD_LETTER_AGE] = "age", [DEAD_LETTER_BYTES] = "bytes"};
    for (int i = 0; i < DEAD_LETTER_REASONS; i++)
        metric_sample(page, METRIC_LABELS(topic, slice_of(reasons[i])), tally->dropped[i]);
}

enum { FORWARDED, RINGED, DROPPED, ALERTS, ALERT_FAILURES, DEAD_METRICS };

/* Offsets in a tally. 0 is correct for FORWARDED; DROPPED has three counters. */
static const size_t dead_offsets[DEAD_METRICS] = {
    [FORWARDED] = offsetof(struct dead_letter_tally, forwarded),
    [RINGED] = offsetof(struct dead_letter_tally, ringed),
    [ALERTS] = offsetof(struct dead_letter_tally, alerts),
    [ALERT_FAILURES] = offsetof(struct dead_letter_tally, alert_faults),
};

static void emit_dead_tally(struct metric_page *page, int which, struct slice topic,
                            const struct dead_letter_tally *tally)
{
    if (which == DROPPED)
        emit_dropped(page, topic, tally);
    else
        metric_sample(page, METRIC_LABELS(topic),
                      *(const uint64_t *)(const void *)((const char *)tally + dead_offsets[which]));
}

static void emit_dead_letters(struct dead_letter_worker *worker, struct metric_page *page)
{
    pthread_mutex_lock(&worker->lock);
    for (int which = 0; which < DEAD_METRICS; which++) {
        metric_begin(page, &dead_letter_metrics[which]);
        for (struct list *at = worker->shown.next; at != &worker->shown; at = at->next) {
            const struct dead_letter_topic *topic = list_entry(at, struct dead_letter_topic, shown);
            emit_dead_tally(page, which, slice_of(topic->name), topic->tally);
        }
        if (worker->has_others)
            emit_dead_tally(page, which, slice_of(METRIC_OTHERS), &worker->others);
    }
    pthread_mutex_unlock(&worker->lock);
}

void deliver_emit_metrics(struct deliver *deliver, struct metric_page *page)
{
    struct dispatchers *dispatchers = &deliver->dispatchers;
    pthread_mutex_lock(&dispatchers->lock);
    each_tally(dispatchers, page, ATTEMPTS, emit_attempts);
    each_tally(dispatchers, page, IN_FLIGHT, emit_in_flight);
    each_tally(dispatchers, page, RETURNED, emit_returned);
    each_tally(dispatchers, page, LEASE_ENDED, emit_lease_ended);
    each_tally(dispatchers, page, RESULTS_LOST, emit_results_lost);
    pthread_mutex_unlock(&dispatchers->lock);
    emit_endpoints(deliver, page);
    each_endpoint(&deliver->endpoints.tallies, page);
    emit_dead_letters(deliver->worker, page);
}

#define HAS_TARGET .when = "for topics with `deliver`"

const struct metric deliver_metrics[] = {
    [ATTEMPTS] = {.name = "tarry_deliver_attempts_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic", "outcome"},
                  .help = "Deliveries to a target, by outcome.",
                  .meaning =
                      "`failed` is retried after the backoff, `refused` is dead immediately, "
                      "`unsent` was not sent. Each job's last error has the target's answer.",
                  HAS_TARGET},
    [IN_FLIGHT] = {.name = "tarry_deliver_in_flight",
                   .type = PROMETHEUS_GAUGE,
                   .labels = {"topic"},
                   .help = "Deliveries to a target in progress.",
                   .meaning =
                       "Always at the topic's `max_in_flight`: the endpoint limits the rate.",
                   HAS_TARGET},
    [RETURNED] = {.name = "tarry_deliver_returned_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic", "reason"},
                  .help = "Jobs returned to the queue without an attempt.",
                  .meaning = "`endpoint_rests`: its breaker is open; `endpoint_full`: its window "
                             "is full; `too_many`: over 1,024 endpoints in use; `short_lease`: the "
                             "lease is shorter than the timeout. They lose no attempt.",
                  HAS_TARGET},
    [LEASE_ENDED] =
        {.name = "tarry_deliver_lease_ended_total",
         .type = PROMETHEUS_COUNTER,
         .labels = {"topic"},
         .help =
             "Outcomes that arrived after the job's lease had ended: the job is delivered again.",
         .meaning = "These jobs are delivered twice. The store was away, or the process was "
                    "suspended.",
         HAS_TARGET},
    [RESULTS_LOST] =
        {.name = "tarry_deliver_results_dropped_total",
         .type = PROMETHEUS_COUNTER,
         .labels = {"topic", "reason"},
         .help = "Answers of 2xx that did not become the result of their job.",
         .meaning = "`too_big`: above `--max-result`; `incomplete`: the answer broke off or did "
                    "not end within the timeout; `no_memory`. The jobs themselves are acked.",
         HAS_TARGET},
    [ENDPOINTS] = {.name = "tarry_deliver_endpoints",
                   .type = PROMETHEUS_GAUGE,
                   .labels = {"state"},
                   .help = "Endpoints in use; resting: only probes are sent there.",
                   .meaning = "`resting` above 0 for long: an endpoint is down. Its jobs wait as "
                              "ready and lose no attempts; deliveries resume when it answers."},
    [ENDPOINT_OUTCOMES] =
        {.name = "tarry_endpoint_outcomes_total",
         .type = PROMETHEUS_COUNTER,
         .labels = {"endpoint", "outcome"},
         .help = "Messages sent to an endpoint, by outcome, including alerts and tests.",
         .meaning = "`failed` grows at one endpoint: the endpoint is the cause, not a topic. `GET "
                    "/v1/topics/{topic}/endpoints` has its last "
                    "error.",
         HAS_TARGET},
    [ENDPOINT_DURATION] =
        {.name = "tarry_endpoint_duration_seconds",
         .type = PROMETHEUS_HISTOGRAM,
         .labels = {"endpoint"},
         .help = "Time from sending a message to its outcome.",
         .meaning = "Grows if the endpoint becomes slow, up to the topic's `timeout`; then "
                    "raise `max_in_flight` or make it faster, or jobs become late.",
         HAS_TARGET},
    [ENDPOINT_IN_FLIGHT] = {.name = "tarry_endpoint_in_flight",
                            .type = PROMETHEUS_GAUGE,
                            .labels = {"endpoint"},
                            .help = "Messages to the endpoint in progress.",
                            .meaning = "High while `tarry_endpoint_outcomes_total` does not "
                                       "change: the endpoint accepts messages and does not answer.",
                            HAS_TARGET},
    [ENDPOINT_BREAKER] =
        {.name = "tarry_endpoint_breaker_open",
         .type = PROMETHEUS_GAUGE,
         .labels = {"endpoint"},
         .help =
             "1 while only probes are sent there; for `(others)`, the number of such endpoints.",
         .meaning = "Alert on it after some minutes: the endpoint is down. Its jobs wait "
                    "and lose no attempts; deliveries resume automatically. Runbook page "
                    "*stuck*.",
         HAS_TARGET},
    METRIC_END};

#define HAS_RULES .when = "for topics with `dead_letter`"

const struct metric dead_letter_metrics[] = {
    [FORWARDED] = {.name = "tarry_dead_forwarded_total",
                   .type = PROMETHEUS_COUNTER,
                   .labels = {"topic"},
                   .help = "Dead jobs forwarded by 'dead_letter.to'.",
                   .meaning = "Jobs of the topic use up their attempts; the other topic has them.",
                   HAS_RULES},
    [RINGED] =
        {.name = "tarry_dead_ringed",
         .type = PROMETHEUS_GAUGE,
         .labels = {"topic"},
         .help =
             "Dead jobs that stay because topics name each other as 'dead_letter.to' in a circle.",
         .meaning = "Above 0: change `dead_letter.to` of one of the topics, then remove the "
                    "jobs or push them again.",
         HAS_RULES},
    [DROPPED] = {.name = "tarry_dead_dropped_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"topic", "reason"},
                 .help = "Dead jobs removed because a limit of 'dead_letter.keep' was reached.",
                 .meaning = "They are lost. Higher limits in `dead_letter.keep` keep more; "
                            "`dead_letter.to` forwards them.",
                 HAS_RULES},
    [ALERTS] = {.name = "tarry_alerts_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"topic"},
                .help = "Alerts about dead jobs, sent to their callback or command.",
                .meaning = "An alert about dead jobs was sent: see the runbook page on them.",
                HAS_RULES},
    [ALERT_FAILURES] = {.name = "tarry_alert_failures_total",
                        .type = PROMETHEUS_COUNTER,
                        .labels = {"topic"},
                        .help = "Alerts that failed and will be retried.",
                        .meaning =
                            "Alerts about dead jobs are not delivered. The log has the reason in "
                            "`alert failed`.",
                        HAS_RULES},
    METRIC_END};
