/* metrics: lines of a Prometheus page about deliveries. Labels: topics that deliver, and words of
 * ours: their number is bounded by the settings. */
#include "base/prometheus.h"
#include "deliver/state.h"

static const uint32_t bounds_ms[] = {1,   2,    5,    10,   25,    50,    100,   250,
                                     500, 1000, 2500, 5000, 10000, 30000, 60000, 300000};
enum { BOUNDS = sizeof bounds_ms / sizeof bounds_ms[0] };

static const char *const returns[DISPATCHER_RETURNS] = {
    [DISPATCHER_RETURN_RESTS] = "endpoint_rests", [DISPATCHER_RETURN_CROWDED] = "endpoint_full",
    [DISPATCHER_RETURN_LATER] = "too_many",       [DISPATCHER_RETURN_SHORT_LEASE] = "short_lease",
    [DISPATCHER_RETURN_UNSENT] = "unsent",        [DISPATCHER_RETURN_STOPPING] = "stopping"};

typedef void emit_dispatcher(const struct dispatcher *dispatcher, struct buffer *out);

static void each_dispatcher(struct deliver *deliver, emit_dispatcher *emit, struct buffer *out)
{
    const struct dispatcher_table *table = &deliver->dispatchers.table;
    for (const struct dispatcher *at = dispatcher_table_first(table); at;
         at = dispatcher_table_next(table, at))
        if (at->tally.has_delivered)
            emit(at, out);
}

static void emit_attempts(const struct dispatcher *dispatcher, struct buffer *out)
{
    for (enum target_outcome outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++) {
        const struct prometheus_label labels[] = {
            {"topic", dispatcher->entry.key},
            {"outcome", slice_of(target_outcome_name(outcome))},
            {0}};
        prometheus_sample(out, "tarry_deliver_attempts_total", labels,
                          (int64_t)dispatcher->tally.attempts[outcome]);
    }
}

static void emit_in_flight(const struct dispatcher *dispatcher, struct buffer *out)
{
    const struct prometheus_label labels[] = {{"topic", dispatcher->entry.key}, {0}};
    prometheus_sample(out, "tarry_deliver_in_flight", labels, (int64_t)dispatcher->tally.in_flight);
}

static void emit_lease_ended(const struct dispatcher *dispatcher, struct buffer *out)
{
    const struct prometheus_label labels[] = {{"topic", dispatcher->entry.key}, {0}};
    prometheus_sample(out, "tarry_deliver_lease_ended_total", labels,
                      (int64_t)dispatcher->tally.lease_ended);
}

static void emit_returned(const struct dispatcher *dispatcher, struct buffer *out)
{
    for (int why = 0; why < DISPATCHER_RETURNS; why++) {
        const struct prometheus_label labels[] = {
            {"topic", dispatcher->entry.key}, {"reason", slice_of(returns[why])}, {0}};
        prometheus_sample(out, "tarry_deliver_returned_total", labels,
                          (int64_t)dispatcher->tally.returned[why]);
    }
}

static void emit_endpoints(struct deliver *deliver, struct buffer *out)
{
    static const char name[] = "tarry_deliver_endpoints";
    const struct prometheus_label resting[] = {{"state", slice_of("resting")}, {0}};
    const struct prometheus_label working[] = {{"state", slice_of("working")}, {0}};
    unsigned open = atomic_load(&deliver->endpoints.open);
    unsigned rest = atomic_load(&deliver->endpoints.resting);
    prometheus_family(out, name, PROMETHEUS_GAUGE,
                      "Endpoints in use; resting: nothing is sent there but probes.");
    prometheus_sample(out, name, working, open > rest ? open - rest : 0);
    prometheus_sample(out, name, resting, rest);
}

static void emit_times(const struct deliver *deliver, struct buffer *out)
{
    prometheus_family(out, "tarry_deliver_seconds", PROMETHEUS_HISTOGRAM,
                      "From handing a job to its target to the outcome.");
    prometheus_histogram(out, "tarry_deliver_seconds", NULL, &deliver->dispatchers.took, 1,
                         bounds_ms, BOUNDS);
    prometheus_family(out, "tarry_deliver_lateness_seconds", PROMETHEUS_HISTOGRAM,
                      "From a job's due time to its first attempt.");
    prometheus_histogram(out, "tarry_deliver_lateness_seconds", NULL, &deliver->dispatchers.late, 1,
                         bounds_ms, BOUNDS);
}

void deliver_emit_metrics(void *ctx, struct buffer *out)
{
    struct deliver *deliver = ctx;
    pthread_mutex_lock(&deliver->dispatchers.lock);
    prometheus_family(out, "tarry_deliver_attempts_total", PROMETHEUS_COUNTER,
                      "Jobs handed to a target, by what became of them.");
    each_dispatcher(deliver, emit_attempts, out);
    prometheus_family(out, "tarry_deliver_in_flight", PROMETHEUS_GAUGE, "Jobs with a target now.");
    each_dispatcher(deliver, emit_in_flight, out);
    prometheus_family(out, "tarry_deliver_returned_total", PROMETHEUS_COUNTER,
                      "Jobs given back to the queue without an attempt.");
    each_dispatcher(deliver, emit_returned, out);
    prometheus_family(out, "tarry_deliver_lease_ended_total", PROMETHEUS_COUNTER,
                      "Outcomes that came after the job's lease had ended: it comes again.");
    each_dispatcher(deliver, emit_lease_ended, out);
    emit_times(deliver, out);
    pthread_mutex_unlock(&deliver->dispatchers.lock);
    emit_endpoints(deliver, out);
    dead_letter_worker_emit_metrics(deliver->worker, out);
}
