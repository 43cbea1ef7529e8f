#include "deliver/endpoint_tally.h"

#include <stdio.h>
#include <stdlib.h>

const struct bucket_bounds endpoint_took_bounds = {.units = 1000000,
                                                   .count = 15,
                                                   .at = {1000, 2500, 5000, 10000, 25000, 50000,
                                                          100000, 250000, 500000, 1000000, 2500000,
                                                          5000000, 10000000, 30000000, 60000000}};

void endpoint_tallies_init(struct endpoint_tallies *tallies)
{
    *tallies = (struct endpoint_tallies){0};
    list_init(&tallies->idle);
    pthread_mutex_init(&tallies->lock, NULL);
}

static void tally_free(struct endpoint_tally *tally)
{
    free(tally->name);
    free(tally);
}

void endpoint_tallies_fini(struct endpoint_tallies *tallies)
{
    struct endpoint_tally *next;
    for (struct endpoint_tally *at = endpoint_tally_table_first(&tallies->table); at; at = next) {
        next = endpoint_tally_table_next(&tallies->table, at);
        tally_free(at);
    }
    endpoint_tally_table_fini(&tallies->table);
    pthread_mutex_destroy(&tallies->lock);
}

/* Removes a tally; adds its sums to those of removed ones. */
static void tally_forget(struct endpoint_tallies *tallies, struct endpoint_tally *tally)
{
    for (int outcome = 0; outcome <= TARGET_UNSENT; outcome++)
        counter_add(&tallies->gone.outcomes[outcome], counter_get(&tally->sums.outcomes[outcome]));
    buckets_merge(&tallies->gone.took_us, &tally->sums.took_us);
    list_remove(&tally->idle);
    endpoint_tally_table_remove(&tallies->table, tally);
    tally_free(tally);
}

static struct endpoint_tally *tally_new(struct endpoint_tallies *tallies, struct slice name,
                                        const char *kind, int64_t now_ms)
{
    struct endpoint_tally *tally = calloc(1, sizeof *tally);
    if (!tally || !(tally->name = strndup(name.at, name.len))) {
        free(tally);
        return NULL;
    }
    tally->kind = kind;
    tally->state = ENDPOINT_CLOSED;
    tally->since_ms = (uint64_t)now_ms;
    tally->entry.key = slice_of(tally->name);
    list_init(&tally->idle);
    pthread_mutex_lock(&tallies->lock);
    if (tallies->table.table.count >= ENDPOINT_TALLIES_MAX && !list_is_empty(&tallies->idle))
        tally_forget(tallies, list_entry(tallies->idle.next, struct endpoint_tally, idle));
    endpoint_tally_table_add(&tallies->table, tally);
    pthread_mutex_unlock(&tallies->lock);
    return tally;
}

struct endpoint_tally *endpoint_tally_open(struct endpoint_tallies *tallies, struct slice name,
                                           const char *kind, int64_t now_ms)
{
    struct endpoint_tally *tally = endpoint_tally_table_find(&tallies->table, name);
    if (!tally)
        tally = tally_new(tallies, name, kind, now_ms);
    if (!tally)
        return NULL;
    list_remove(&tally->idle);
    endpoint_tally_show(tally, &(struct breaker){0}, 0, now_ms);
    return tally;
}

void endpoint_tally_close(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                          int64_t now_ms)
{
    endpoint_tally_show(tally, &(struct breaker){0}, 0, now_ms);
    list_add_last(&tallies->idle, &tally->idle);
}

void endpoint_tally_report(struct endpoint_tallies *tallies, struct endpoint_tally *tally,
                           const struct target_report *report, int64_t took_us, int64_t now_ms)
{
    counter_add(&tally->sums.outcomes[report->outcome], 1);
    buckets_add(&tally->sums.took_us, &endpoint_took_bounds, took_us > 0 ? (uint64_t)took_us : 0);
    if (report->outcome == TARGET_DONE)
        return;
    pthread_mutex_lock(&tallies->lock);
    snprintf(tally->error, sizeof tally->error, "%s", report->error);
    tally->error_at_ms = now_ms;
    pthread_mutex_unlock(&tallies->lock);
}

void endpoint_tally_show(struct endpoint_tally *tally, const struct breaker *breaker,
                         uint32_t in_flight, int64_t now_ms)
{
    enum endpoint_state state = !breaker->is_open     ? ENDPOINT_CLOSED
                                : breaker->is_probing ? ENDPOINT_HALF_OPEN
                                                      : ENDPOINT_OPEN;
    if (counter_get(&tally->state) != state) {
        counter_set(&tally->state, state);
        counter_set(&tally->since_ms, (uint64_t)now_ms);
    }
    counter_set(&tally->wait_until_ms,
                breaker->wait_until_ms > now_ms ? (uint64_t)breaker->wait_until_ms : 0);
    counter_set(&tally->in_flight, in_flight);
}
