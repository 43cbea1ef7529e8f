/*
 * The contract suite: suite DRIVER, or suite self for the proof that it can fail.
 *
 * TARRY_TEST_SEED   the seed of the random sequences; drawn and printed when not given
 * TARRY_TEST_RUNS   how many sequences; nothing else is run then
 * TARRY_TEST_TRACE  set: directed claims print their steps
 * TARRY_TEST_ONLY   a pattern with * and ?: only the tests whose names match it are run
 */
#include "directed.h"
#include "steps.h"

#include "base/clock.h"
#include "unit/repetitions.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { COMMANDS = 80, RUNS = 60, CATCH_RUNS = 400 };

static const struct driver *driver;

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void report(uint64_t seed, const char *fault, struct step *steps)
{
    size_t left;
    char shrunk[1024];

    printf("FAULT: %s\nTARRY_TEST_SEED=%" PRIu64 " TARRY_TEST_RUNS=1 repeats it; shrinking …\n",
           fault, seed);
    fflush(stdout);
    left = steps_shrink(driver, steps, COMMANDS);
    printf("the shortest that still fails, %zu commands:\n", left);
    steps_run(driver, steps, left, stdout, shrunk);
    fflush(stdout);
}

/* Draws the steps of a sequence. */
typedef void draw_steps(struct random *random, struct step *steps, size_t count);

/* Runs one in `share` of the usual number of sequences. Each has its own seed, the first one's is
 * the one given. */
static void run_sequences(const char *name, draw_steps *draw, uint64_t share)
{
    uint64_t seed = number_from("TARRY_TEST_SEED", random_u64());
    uint64_t usual = (driver->runs ? driver->runs : RUNS) / share;
    uint64_t some = repetitions(usual, usual / 3);
    uint64_t runs = number_from("TARRY_TEST_RUNS", some ? some : 1);
    struct step steps[COMMANDS];
    char fault[1024];

    printf("%s, %s: TARRY_TEST_SEED=%" PRIu64 ", %" PRIu64 " runs of %d commands\n", driver->name,
           name, seed, runs, COMMANDS);
    fflush(stdout);
    for (uint64_t i = 0; i < runs; i++, seed++) {
        struct random random = {seed};

        draw(&random, steps, COMMANDS);
        if (steps_run(driver, steps, COMMANDS, NULL, fault))
            continue;
        report(seed, fault, steps);
        fail_msg("seed %" PRIu64 ": %s", seed, fault);
    }
}

static void random_commands_match_the_model(void **state)
{
    (void)state;
    run_sequences("random commands", steps_draw, 1);
}

static void topics_that_go_and_come_back_keep_their_counts(void **state)
{
    (void)state;
    run_sequences("churn", steps_draw_churn, 3);
}

/* ---- the suite itself ---- */

/* True: a run failed; `steps` is its sequence. */
static bool catches(const struct driver *faulty, struct step *steps, char fault[1024], int *runs)
{
    for (*runs = 1; *runs <= CATCH_RUNS; ++*runs) {
        struct random random = {(uint64_t)*runs * 1000003};

        steps_draw(&random, steps, COMMANDS);
        if (!steps_run(faulty, steps, COMMANDS, NULL, fault))
            return true;
    }
    return false;
}

static void suite_catches_every_fault_built_in(void **state)
{
    struct step steps[COMMANDS];
    const struct driver *faulty;
    const char *what;
    char fault[1024];
    int runs;

    (void)state;
    for (size_t i = 0; (faulty = driver_faulty(i, &what)); i++) {
        if (!catches(faulty, steps, fault, &runs))
            fail_msg("nothing was noticed when %s", what);
        printf("%s: noticed in run %d: %s\n", what, runs, fault);
    }
}

static void suite_shrinks_a_failure_to_a_few_commands(void **state)
{
    struct step steps[COMMANDS];
    const struct driver *faulty;
    const char *what;
    char fault[1024];
    int runs;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        faulty = driver_faulty(i, &what);
        assert_true(catches(faulty, steps, fault, &runs));
        assert_in_range(steps_shrink(faulty, steps, COMMANDS), 1, 10);
    }
}

static int run_self(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_catches_every_fault_built_in),
        cmocka_unit_test(suite_shrinks_a_failure_to_a_few_commands),
    };

    return cmocka_run_group_tests_name("the suite itself", tests, NULL, NULL);
}

/* ---- one implementation ---- */

static int run_claims(const char *name, const struct CMUnitTest *tests, size_t count)
{
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

static int run_driver(void)
{
    const struct CMUnitTest random_tests[] = {
        cmocka_unit_test(random_commands_match_the_model),
        cmocka_unit_test(topics_that_go_and_come_back_keep_their_counts),
    };
    int failed = 0;

    directed_choose(driver);
    cmocka_set_test_filter(getenv("TARRY_TEST_ONLY"));
    if (!getenv("TARRY_TEST_RUNS")) { /* else one failure is repeated */
        failed += run_claims("pushing", directed_push, directed_push_count);
        failed += run_claims("delivering", directed_deliver, directed_deliver_count);
        failed += run_claims("changing", directed_change, directed_change_count);
        failed += run_claims("topics", directed_topic, directed_topic_count);
        failed += run_claims("failing", directed_failure, directed_failure_count);
        failed += run_claims("events", directed_event, directed_event_count);
        failed += run_claims("holders", directed_holder, directed_holder_count);
        failed += run_claims("choosing", directed_choice, directed_choice_count);
        failed += run_claims("rules of a life", directed_life, directed_life_count);
        failed += run_claims("pushing again", directed_again, directed_again_count);
        failed += run_claims("pushing once", directed_once, directed_once_count);
        failed += run_claims("filters", directed_sweep, directed_sweep_count);
        failed += run_claims("successors", directed_after, directed_after_count);
        failed += run_claims("finished jobs", directed_finished, directed_finished_count);
        failed += run_claims("flow control", directed_flow, directed_flow_count);
        failed += run_claims("batches", directed_batches, directed_batches_count);
    }
    failed += run_claims("batches at random", random_batches, 1);
    failed += run_claims("random commands", random_tests, 2);
    return failed;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);       /* as programs with sockets do */
    (void)prctl(PR_SET_TIMERSLACK, 1000); /* ns: a rest is as short as it is meant */
    if (argc == 2 && strcmp(argv[1], "self") == 0)
        return run_self();
    driver = argc == 2 ? driver_find(argv[1]) : NULL;
    if (!driver) {
        fprintf(stderr, "usage: contract "
                        "naive|local_1|local_3|memory|lib|lib_clock|redis_1|redis_3|redis_cluster|"
                        "postgres|mariadb|mysql|self\n");
        return 2;
    }
    return run_driver() ? 1 : 0;
}
