/* A job's history: attempts one after the other, the oldest left out, and whatever bytes may be
 * found in its place. */
#include "job/job.h"

#include "unit/claim.h"
#include "unit/seed.h"

#include <stdlib.h>

enum { ROUNDS = 3000, NOISE_ROUNDS = 200000, TEXT_BYTES = 300 };

static struct job_attempt random_attempt(struct random *random, char text[TEXT_BYTES])
{
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + random_below(random, 26));
    return (struct job_attempt){
        .attempt = 1 + (uint32_t)(random_next(random) >> (33 + random_below(random, 31))),
        .started_ms = (int64_t)(random_next(random) >> (1 + random_below(random, 63))),
        .duration_ms = (int64_t)(random_next(random) >> (1 + random_below(random, 63))),
        .outcome = (enum job_outcome)(1 + random_below(random, 3)),
        .error = slice_make(text, random_below(random, 2) ? random_below(random, TEXT_BYTES) : 0)};
}

static void assert_attempt(const struct job_attempt *is, const struct job_attempt *should)
{
    struct slice error = should->error;

    if (error.len > JOB_HISTORY_ERROR_BYTES_MAX)
        error.len = JOB_HISTORY_ERROR_BYTES_MAX;
    assert_int_equal(is->attempt, should->attempt);
    assert_true(is->started_ms == should->started_ms);
    assert_true(is->duration_ms == should->duration_ms);
    assert_int_equal(is->outcome, should->outcome);
    assert_true(slice_equals(is->error, error));
}

CLAIM(the_last_attempts_come_back_in_their_order)
{
    enum { ATTEMPTS = 3 * JOB_HISTORY_MAX };
    struct random random = seed_random(__func__);

    for (int round = 0; round < ROUNDS; round++) {
        static char texts[ATTEMPTS][TEXT_BYTES];
        struct job_attempt added[ATTEMPTS], is;
        char *history = malloc(JOB_HISTORY_BYTES_MAX);
        size_t bytes = 0, count = 1 + random_below(&random, ATTEMPTS);

        assert_non_null(history);
        for (size_t i = 0; i < count; i++) {
            char *next = malloc(JOB_HISTORY_BYTES_MAX);

            assert_non_null(next);
            added[i] = random_attempt(&random, texts[i]);
            bytes = job_history_add(slice_make(history, bytes), &added[i], next);
            assert_true(bytes <= JOB_HISTORY_BYTES_MAX);
            assert_true(job_history_check(slice_make(next, bytes)));
            free(history);
            history = next;
        }
        size_t at = 0, left = count < JOB_HISTORY_MAX ? count : JOB_HISTORY_MAX;

        for (size_t i = count - left; i < count; i++) {
            assert_true(job_history_next(slice_make(history, bytes), &at, &is));
            assert_attempt(&is, &added[i]);
        }
        assert_false(job_history_next(slice_make(history, bytes), &at, &is));
        assert_int_equal(at, bytes);
        free(history);
    }
}

struct cut_row {
    const char *tail; /* behind 98 letters */
    size_t left;      /* of the whole */
};

/* The limit is at 100 bytes. */
static const struct cut_row cuts[] = {
    {"", 98},
    {"ab", 100},
    {"abc", 100},
    {"\xc3\xa4", 100},                /* ends there */
    {"a\xc3\xa4", 99},                /* would be cut after its first byte */
    {"\xe2\x82\xac", 98},             /* three bytes, one too many */
    {"a\xe2\x82\xac", 99},            /* two too many */
    {"\xf0\x9f\x98\x80", 98},         /* four bytes */
    {"a\xf0\x9f\x98\x80", 99},        /* three too many */
    {"\xc3\xa4\xc3\xa4", 100},        /* the next one is left out whole */
    {"\x80\x80\x80\x80\x80\x80", 97}, /* no characters: never more than three bytes less */
};

CLAIM(an_error_is_cut_between_characters)
{
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        char text[128], history[JOB_HISTORY_BYTES_MAX];
        size_t at = 0, tail = strlen(cuts[i].tail);
        struct job_attempt is, attempt = {.attempt = 1, .outcome = JOB_OUTCOME_FAILED};

        memset(text, 'x', 98);
        memcpy(text + 98, cuts[i].tail, tail);
        attempt.error = slice_make(text, 98 + tail);
        assert_true(job_history_next(
            slice_make(history, job_history_add((struct slice){0}, &attempt, history)), &at, &is));
        assert_int_equal(is.error.len, cuts[i].left);
        assert_memory_equal(is.error.at, text, is.error.len);
    }
}

static size_t three_attempts(char history[JOB_HISTORY_BYTES_MAX])
{
    char next[JOB_HISTORY_BYTES_MAX];
    size_t bytes = 0;

    for (uint32_t number = 1; number <= 3; number++) {
        struct job_attempt attempt = {.attempt = number * 1000,
                                      .started_ms = 1790000000000,
                                      .duration_ms = 250,
                                      .outcome = JOB_OUTCOME_LEASE_ENDED,
                                      .error = slice_of("lease ended")};

        bytes = job_history_add(slice_make(history, bytes), &attempt, next);
        memcpy(history, next, bytes);
    }
    return bytes;
}

CLAIM(a_cut_history_ends_with_its_last_whole_attempt)
{
    char whole[JOB_HISTORY_BYTES_MAX];
    size_t bytes = three_attempts(whole);

    for (size_t len = 0; len <= bytes; len++) {
        char *cut = malloc(len ? len : 1);
        struct job_attempt is;
        size_t at = 0, count = 0;

        assert_non_null(cut);
        memcpy(cut, whole, len);
        while (job_history_next(slice_make(cut, len), &at, &is))
            assert_int_equal(is.attempt, ++count * 1000);
        assert_int_equal(count, len / (bytes / 3));
        assert_int_equal(at, count * (bytes / 3));
        assert_int_equal(job_history_check(slice_make(cut, len)), at == len);
        free(cut);
    }
}

/* An unreadable entry goes with all that follows it; a new entry comes after the rest. */
CLAIM(adding_to_a_damaged_history_leaves_a_good_one)
{
    struct random random = seed_random(__func__);
    struct job_attempt attempt = {.attempt = 7, .outcome = JOB_OUTCOME_REFUSED};

    for (int round = 0; round < NOISE_ROUNDS; round++) {
        char into[JOB_HISTORY_BYTES_MAX];
        size_t len = random_below(&random, 200), at = 0;
        char *noise = malloc(len ? len : 1);
        struct job_attempt is = {0};

        assert_non_null(noise);
        for (size_t i = 0; i < len; i++) /* small numbers get further */
            noise[i] = (char)(random_next(&random) >> (56 + random_below(&random, 8)));
        size_t bytes = job_history_add(slice_make(noise, len), &attempt, into);
        assert_true(bytes <= JOB_HISTORY_BYTES_MAX);
        assert_true(job_history_check(slice_make(into, bytes)));
        while (job_history_next(slice_make(into, bytes), &at, &is))
            ;
        assert_int_equal(is.attempt, 7);
        free(noise);
    }
}

CLAIM(more_attempts_than_are_kept_are_not_a_history)
{
    char one[JOB_HISTORY_BYTES_MAX], many[JOB_HISTORY_BYTES_MAX];
    struct job_attempt attempt = {.attempt = 1, .outcome = JOB_OUTCOME_FAILED};
    size_t bytes = job_history_add((struct slice){0}, &attempt, one);

    for (size_t i = 0; i <= JOB_HISTORY_MAX; i++)
        memcpy(many + i * bytes, one, bytes);
    assert_true(job_history_check(slice_make(many, JOB_HISTORY_MAX * bytes)));
    assert_false(job_history_check(slice_make(many, (JOB_HISTORY_MAX + 1) * bytes)));
    /* Nor does adding to it make one of it that is too long. */
    bytes = job_history_add(slice_make(many, (JOB_HISTORY_MAX + 1) * bytes), &attempt, one);
    assert_true(job_history_check(slice_make(one, bytes)));
}

CLAIM(outcomes_have_names)
{
    assert_string_equal(job_outcome_name(JOB_OUTCOME_FAILED), "failed");
    assert_string_equal(job_outcome_name(JOB_OUTCOME_LEASE_ENDED), "lease_ended");
    assert_string_equal(job_outcome_name(JOB_OUTCOME_REFUSED), "refused");
}

CLAIMS_MAIN(NULL, NULL)
