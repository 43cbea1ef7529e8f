/* Counts of an endpoint outlive it and are never lost. */
#include "deliver/endpoint_tally.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

static const struct target_report done = {.outcome = TARGET_DONE};
static const struct target_report failed = {.outcome = TARGET_FAILED, .error = "http 500"};

static struct endpoint_tally *open_one(struct endpoint_tallies *tallies, const char *name)
{
    struct endpoint_tally *tally = endpoint_tally_open(tallies, slice_of(name), "http", 1000);
    assert_non_null(tally);
    return tally;
}

CLAIM(outcomes_times_and_the_last_error_are_kept)
{
    struct endpoint_tallies tallies;
    endpoint_tallies_init(&tallies);
    struct endpoint_tally *tally = open_one(&tallies, "http://a:80");
    assert_string_equal(tally->error, "");
    endpoint_tally_report(&tallies, tally, &failed, 3000, 2000);
    endpoint_tally_report(&tallies, tally, &done, 2000000, 2500);
    endpoint_tally_report(&tallies, tally, &done, -5, 2600);
    assert_int_equal(tally->sums.outcomes[TARGET_DONE], 2);
    assert_int_equal(tally->sums.outcomes[TARGET_FAILED], 1);
    assert_int_equal(buckets_total(&tally->sums.took_us), 3);
    assert_int_equal(tally->sums.took_us.sum, 2003000);
    assert_string_equal(tally->error, "http 500");
    assert_int_equal(tally->error_at_ms, 2000);
    endpoint_tallies_fini(&tallies);
}

CLAIM(a_returning_endpoint_continues_its_counts)
{
    struct endpoint_tallies tallies;
    endpoint_tallies_init(&tallies);
    struct endpoint_tally *tally = open_one(&tallies, "http://a:80");
    endpoint_tally_report(&tallies, tally, &done, 10, 2000);
    endpoint_tally_close(&tallies, tally, 3000);
    assert_ptr_equal(open_one(&tallies, "http://a:80"), tally);
    assert_true(list_is_empty(&tallies.idle));
    assert_int_equal(tally->sums.outcomes[TARGET_DONE], 1);
    endpoint_tallies_fini(&tallies);
}

CLAIM(shows_the_breaker_state_and_its_start)
{
    struct endpoint_tallies tallies;
    struct breaker breaker = {0};
    endpoint_tallies_init(&tallies);
    struct endpoint_tally *tally = open_one(&tallies, "http://a:80");
    assert_int_equal(tally->state, ENDPOINT_CLOSED);
    assert_int_equal(tally->since_ms, 1000);
    breaker = (struct breaker){.is_open = true, .wait_until_ms = 9000};
    endpoint_tally_show(tally, &breaker, 3, 5000);
    assert_int_equal(tally->state, ENDPOINT_OPEN);
    assert_int_equal(tally->since_ms, 5000);
    assert_int_equal(tally->wait_until_ms, 9000);
    assert_int_equal(tally->in_flight, 3);
    endpoint_tally_show(tally, &breaker, 2, 6000);
    assert_int_equal(tally->since_ms, 5000);
    breaker.is_probing = true;
    endpoint_tally_show(tally, &breaker, 1, 9500);
    assert_int_equal(tally->state, ENDPOINT_HALF_OPEN);
    assert_int_equal(tally->since_ms, 9500);
    assert_int_equal(tally->wait_until_ms, 0);
    endpoint_tally_close(&tallies, tally, 9600);
    assert_int_equal(tally->state, ENDPOINT_CLOSED);
    endpoint_tallies_fini(&tallies);
}

static uint64_t done_of_all(const struct endpoint_tallies *tallies)
{
    uint64_t sum = counter_get(&tallies->gone.outcomes[TARGET_DONE]);
    for (const struct endpoint_tally *at = endpoint_tally_table_first(&tallies->table); at;
         at = endpoint_tally_table_next(&tallies->table, at))
        sum += counter_get(&at->sums.outcomes[TARGET_DONE]);
    return sum;
}

CLAIM(beyond_the_limit_removed_endpoints_are_kept_as_a_sum)
{
    struct endpoint_tallies tallies;
    char name[32];
    endpoint_tallies_init(&tallies);
    struct endpoint_tally *busy = open_one(&tallies, "http://busy:80");
    for (int i = 0; i < ENDPOINT_TALLIES_MAX + 300; i++) {
        snprintf(name, sizeof name, "http://h%d:80", i);
        struct endpoint_tally *tally = open_one(&tallies, name);
        endpoint_tally_report(&tallies, tally, &done, 1000, 2000);
        endpoint_tally_close(&tallies, tally, 3000);
    }
    assert_int_equal(tallies.table.table.count, ENDPOINT_TALLIES_MAX);
    assert_int_equal(done_of_all(&tallies), ENDPOINT_TALLIES_MAX + 300);
    assert_int_equal(buckets_total(&tallies.gone.took_us), 301);
    assert_null(endpoint_tally_table_find(&tallies.table, slice_of("http://h0:80")));
    assert_ptr_equal(endpoint_tally_table_find(&tallies.table, slice_of("http://busy:80")), busy);
    endpoint_tallies_fini(&tallies);
}

CLAIMS_MAIN(NULL, NULL)
