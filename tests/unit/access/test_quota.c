/* Limits: buckets by a given clock, accounts in bounded memory, and many threads. */
#include "unit/cases.h"
#include "unit/claim.h"

#include "access/quota.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SECOND INT64_C(1000000000)

static int take_all(struct quota_bucket *bucket, struct access_rate rate, int64_t now_ns)
{
    int64_t wait_ns;
    int count = 0;
    while (quota_bucket_take(bucket, rate, now_ns, &wait_ns))
        count++;
    return count;
}

CLAIM(a_bucket_holds_one_unit_and_fills_evenly)
{
    const struct access_rate rates[] = {
        {3, 1000}, {100, 1000}, {90, 60000}, {1, 3600000}, {7, 1000}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct quota_bucket bucket = {0};
        const int64_t unit_ns = rates[i].per_ms * 1000000;
        int64_t now_ns = 5 * SECOND;
        assert_int_equal(take_all(&bucket, rates[i], now_ns), rates[i].count);
        now_ns += unit_ns / (int64_t)rates[i].count + 1;
        assert_int_equal(take_all(&bucket, rates[i], now_ns), 1);
        assert_int_equal(
            take_all(&bucket, rates[i], now_ns + unit_ns / 2 + (int64_t)rates[i].count),
            rates[i].count / 2);
        assert_int_equal(take_all(&bucket, rates[i], now_ns + 10 * unit_ns), rates[i].count);
    }
}

CLAIM(a_rejected_request_learns_when_to_retry)
{
    const struct access_rate rate = {10, 1000};
    struct quota_bucket bucket = {0};
    int64_t wait_ns = 0, now_ns = 1000;
    assert_int_equal(take_all(&bucket, rate, now_ns), 10);
    assert_false(quota_bucket_take(&bucket, rate, now_ns, &wait_ns));
    assert_int_equal(wait_ns, SECOND / 10);
    assert_false(quota_bucket_take(&bucket, rate, now_ns + wait_ns - 1, &(int64_t){0}));
    assert_true(quota_bucket_take(&bucket, rate, now_ns + wait_ns, &wait_ns));
}

CLAIM(in_any_second_come_no_more_than_two_buckets)
{
    const struct access_rate rate = {50, 1000};
    struct quota_bucket bucket = {0};
    int64_t wait_ns;
    int count = 0;
    for (int64_t now_ns = 0; now_ns < 10 * SECOND; now_ns += SECOND / 1000)
        for (int i = 0; i < 3; i++)
            count += quota_bucket_take(&bucket, rate, now_ns, &wait_ns);
    assert_in_range(count, 10 * 50, 11 * 50);
}

static struct quota *quota_with(uint32_t accounts)
{
    const struct quota_options options = {.accounts = accounts, .topics = 100, .seed = 7};
    struct quota *quota = quota_new(&options);
    assert_non_null(quota);
    return quota;
}

static void address_of(uint64_t number, unsigned char out[16])
{
    memset(out, 0, 16);
    out[0] = 0x20;
    for (int i = 0; i < 6; i++)
        out[1 + i] = (unsigned char)(number >> (8 * i));
}

CLAIM(millions_of_addresses_use_bounded_memory_and_connected_ones_stay)
{
    struct quota *quota = quota_with(4096);
    const struct access_rate rate = {10, 1000};
    unsigned char address[16];
    int64_t wait_ns;
    address_of(1, address);
    struct quota_account *connected = quota_account_of_address(quota, address);
    assert_true(quota_count_up(&connected->connections, 5));
    assert_int_equal(take_all(&connected->requests, rate, SECOND), 10);
    for (uint64_t i = 2; i < 2000000; i++) {
        address_of(i, address);
        struct quota_account *account = quota_account_of_address(quota, address);
        (void)quota_bucket_take(&account->requests, rate, SECOND, &wait_ns);
        quota_account_release(quota, account);
    }
    address_of(1, address);
    struct quota_account *again = quota_account_of_address(quota, address);
    assert_ptr_equal(again, connected);
    assert_false(quota_bucket_take(&again->requests, rate, SECOND, &wait_ns));
    quota_account_release(quota, again);
    quota_account_release(quota, connected);
    quota_free(quota);
}

static long page_faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* The table of accounts has 9 MB. A server with few callers does not touch most of it, even when it ends. */
CLAIM(only_the_memory_of_used_accounts_is_touched)
{
    struct quota *quota = quota_with(0);
    unsigned char address[16];
    long before = page_faults();
    for (uint64_t i = 0; i < 20; i++) {
        address_of(i, address);
        quota_account_release(quota, quota_account_of_address(quota, address));
    }
    quota_look_begin(quota);
    quota_look_end(quota, true);
    quota_free(quota);
    assert_in_range(page_faults() - before, 0, 500);
}

CLAIM(an_address_of_ipv6_is_its_network_and_one_of_ipv4_is_itself)
{
    struct quota *quota = quota_with(4096);
    unsigned char one[16] = {0x20, 1, 2, 3, 4, 5, 6, 7, 8},
                  other[16] = {0x20, 1, 2, 3, 4, 5, 6, 7, 99};
    unsigned char v4[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1};
    struct quota_account *a = quota_account_of_address(quota, one);
    assert_ptr_equal(quota_account_of_address(quota, other), a);
    other[7] = 8;
    assert_ptr_not_equal(quota_account_of_address(quota, other), a);
    struct quota_account *b = quota_account_of_address(quota, v4);
    v4[15] = 2;
    assert_ptr_not_equal(quota_account_of_address(quota, v4), b);
    quota_free(quota);
}

CLAIM(a_count_stops_at_its_limit)
{
    _Atomic uint32_t count = 0;
    assert_true(quota_count_up(&count, 2) && quota_count_up(&count, 2));
    assert_false(quota_count_up(&count, 2));
    quota_count_down(&count);
    assert_true(quota_count_up(&count, 2));
    assert_true(quota_count_up(&count, 0));
}

CLAIM(rates_of_topics_come_change_and_go)
{
    struct quota *quota = quota_with(4096);
    const struct slice topic = slice_of("orders");
    int64_t wait_ns;
    char name[16];
    assert_false(quota_has_topics(quota));
    assert_true(quota_topic_take(quota, topic, SECOND, &wait_ns));
    quota_topic_set(quota, topic, (struct frequency){2, FREQUENCY_MINUTE});
    assert_true(quota_has_topics(quota));
    assert_true(quota_topic_take(quota, topic, SECOND, &wait_ns));
    assert_true(quota_topic_take(quota, topic, SECOND, &wait_ns));
    assert_false(quota_topic_take(quota, topic, SECOND, &wait_ns));
    assert_int_equal(wait_ns, 30 * SECOND);
    assert_true(quota_topic_take(quota, slice_of("others"), SECOND, &wait_ns));
    quota_topic_set(quota, topic, (struct frequency){0});
    assert_false(quota_has_topics(quota));
    assert_true(quota_topic_take(quota, topic, SECOND, &wait_ns));
    for (int round = 0; round < 100; round++) /* of those that went, the places are used again */
        for (int i = 0; i < 100; i++) {
            struct slice each =
                slice_make(name, (size_t)snprintf(name, sizeof name, "t%d-%d", round, i));
            quota_topic_set(quota, each, (struct frequency){1, FREQUENCY_HOUR});
            assert_true(quota_topic_take(quota, each, SECOND, &wait_ns));
            assert_false(quota_topic_take(quota, each, SECOND, &wait_ns));
            quota_topic_set(quota, each, (struct frequency){0});
        }
    quota_free(quota);
}

CLAIM(jobs_of_a_caller_are_the_last_count_plus_later_pushes)
{
    struct quota *quota = quota_with(4096);
    struct access_caller *caller = access_anyone();
    struct quota_account *account = quota_account_of_caller(quota, caller);
    assert_false(quota_wants_look(quota)); /* no limit */
    atomic_fetch_add(&account->pushed, 3);
    assert_true(quota_has_jobs_left(account, 4));
    assert_false(quota_has_jobs_left(account, 3));
    quota_account_release(quota, account);
    quota_free(quota);
}

struct race {
    struct quota_bucket bucket;
    _Atomic uint64_t taken;
};

static void *take_many(void *arg)
{
    struct race *race = arg;
    int64_t wait_ns;
    for (int i = 0; i < 100000; i++)
        if (quota_bucket_take(&race->bucket, (struct access_rate){150000, 1000}, SECOND, &wait_ns))
            atomic_fetch_add(&race->taken, 1);
    return NULL;
}

CLAIM(threads_take_no_more_than_there_is)
{
    struct race race = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &race), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(race.taken, 150000);
}

CLAIMS_MAIN(NULL, NULL)
