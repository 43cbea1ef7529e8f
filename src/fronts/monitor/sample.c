#include "monitor/sample.h"

#include "base/clock.h"
#include "http/state.h"

#include <stdlib.h>

void monitor_figures_add(struct monitor_figures *sum, const struct monitor_figures *more)
{
    sum->counts.delayed += more->counts.delayed;
    sum->counts.retrying += more->counts.retrying;
    sum->counts.ready += more->counts.ready;
    sum->counts.leased += more->counts.leased;
    sum->counts.dead += more->counts.dead;
    sum->counts.dead_bytes += more->counts.dead_bytes;
    sum->counts.held += more->counts.held;
    for (size_t i = 0; i < MONITOR_RATES; i++)
        sum->rates[i] += more->rates[i];
    if (more->oldest_ready_due_ms &&
        (!sum->oldest_ready_due_ms || more->oldest_ready_due_ms < sum->oldest_ready_due_ms))
        sum->oldest_ready_due_ms = more->oldest_ready_due_ms;
}

double monitor_rate_of(uint64_t now, uint64_t before, int64_t ms)
{
    return now > before && ms > 0 ? (double)(now - before) * 1000 / (double)ms : 0;
}

static int64_t lateness_at(const struct buckets *recent, double fraction, uint64_t max_ms)
{
    uint64_t ms = buckets_at(recent, &lateness_bounds, fraction);
    return (int64_t)(ms < max_ms ? ms : max_ms);
}

struct monitor_lateness monitor_sample_lateness(struct http_shared *shared, struct slice topic)
{
    struct monitor_lateness out = {.p50_ms = -1, .p99_ms = -1};
    struct buckets recent = {0};
    if (!shared->lateness)
        return out;
    uint64_t max_ms = lateness_recent(shared->lateness, topic, clock_wall_ms(), &recent);
    out.count = buckets_total(&recent);
    if (out.count) {
        out.p50_ms = lateness_at(&recent, 0.5, max_ms);
        out.p99_ms = lateness_at(&recent, 0.99, max_ms);
    }
    return out;
}

struct monitor_sample *monitor_sample_hold(struct monitor_sample *sample)
{
    atomic_fetch_add_explicit(&sample->holders, 1, memory_order_relaxed);
    return sample;
}

void monitor_sample_release(struct monitor_sample *sample)
{
    if (!sample || atomic_fetch_sub_explicit(&sample->holders, 1, memory_order_acq_rel) != 1)
        return;
    free(sample->topics);
    buffer_fini(&sample->names);
    free(sample);
}
