/* The test clock over long ways. */
#include "lib_rig.h"
#include "unit/claim.h"

#include <stdio.h>
#include <time.h>

enum { JOBS = 1000, ATTEMPTS = 3 };
static const int64_t DAY_MS = 24 * 3600 * 1000, YEAR_MS = INT64_C(365) * 24 * 3600 * 1000;

static void on_taken(void *owner, const struct tarry_reply *reply)
{
    for (size_t i = 0; i < reply->job_count; i++)
        tarry_job_free(reply->jobs[i]);
    *(size_t *)owner += reply->job_count;
}

static int64_t awake_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Jobs without answers: a waiting take gets them when they are due, their leases end, and they come again. */
CLAIM(a_year_of_a_thousand_jobs_with_retries_passes_in_one_call)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_topic topic = {.size = sizeof topic};
    struct tarry_take take = rig_take(1);
    struct tarry_call call = TARRY_CALL_INIT;
    size_t taken = 0;
    char id[32];
    settings.max_attempts = ATTEMPTS;
    settings.lease_ms = 60 * 1000;
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_CREATED);
    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, (YEAR_MS - DAY_MS) / JOBS * (i + 1));
    }
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    call.n = 1;
    call.wait_ms = -1;
    for (int i = 0; i < JOBS * ATTEMPTS; i++)
        assert_int_equal(tarry_submit(queue, &call, on_taken, &taken), TARRY_OK);

    int64_t began_ms = awake_ms();
    assert_int_equal(tarry_advance(queue, YEAR_MS), TARRY_OK);
    printf("a year of %d jobs, %d deliveries: %lld ms\n", JOBS, JOBS * ATTEMPTS,
           (long long)(awake_ms() - began_ms));

    assert_int_equal(tarry_dispatch(queue, 0), JOBS * ATTEMPTS);
    assert_int_equal(taken, JOBS * ATTEMPTS);
    assert_int_equal(tarry_topic_get(queue, "t", &topic), TARRY_OK);
    assert_int_equal(topic.delivered, JOBS * ATTEMPTS);
    assert_int_equal(topic.lease_ended, JOBS * ATTEMPTS);
    assert_int_equal(topic.died, JOBS);
    assert_int_equal(topic.dead, JOBS);
    for (int i = 0; i < JOBS; i += 97) { /* each at its moment */
        tarry_job *job;
        struct tarry_attempt first = TARRY_ATTEMPT_INIT, second = TARRY_ATTEMPT_INIT;
        snprintf(id, sizeof id, "%d", i);
        assert_int_equal(tarry_get(queue, "t", id, &job), TARRY_OK);
        assert_int_equal(tarry_job_history(job, 0, &first), TARRY_OK);
        assert_int_equal(tarry_job_history(job, 1, &second), TARRY_OK);
        assert_int_equal(first.started_ms, RIG_START_MS + 1 + (YEAR_MS - DAY_MS) / JOBS * (i + 1));
        assert_int_equal(first.duration_ms, settings.lease_ms + 1);
        assert_in_range(second.started_ms - first.started_ms, settings.lease_ms + 800,
                        settings.lease_ms + 1300); /* a second of backoff, a fifth more or less */
        tarry_job_free(job);
    }
    tarry_close(queue);
}

CLAIMS_MAIN(NULL, NULL)
