/* A program of 1989 against tarry.h: a job goes in, comes out when it is due, and is acked. */
#include <stdio.h>
#include <string.h>
#include <tarry.h>

static int fail(const char *what, int code)
{
    fprintf(stderr, "%s: %s\n", what, tarry_strerror(code));
    return 1;
}

int main(void)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_take take = TARRY_TAKE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    struct tarry_change change = TARRY_CHANGE_INIT;
    struct tarry_list list = TARRY_LIST_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    struct tarry_attempt attempt = TARRY_ATTEMPT_INIT;
    const char *topics[1];
    char error[200];
    tarry *queue;
    tarry_job *job;
    size_t n, bytes;
    int code;

    (void)change;
    (void)list;
    (void)settings;
    (void)call;
    (void)attempt;
    options.flags = TARRY_TEST_CLOCK;
    code = tarry_open(&options, &queue, error, sizeof error);
    if (code)
        return fail(error, code);
    push.topic = "orders";
    push.id = "42";
    push.body = "close it";
    push.body_bytes = strlen("close it");
    push.delay_ms = 30 * 60 * 1000;
    code = tarry_push(queue, &push, 1, &result);
    if (code || result.code != TARRY_CREATED || strcmp(result.id, "42") != 0)
        return fail("push", code);
    topics[0] = "orders";
    take.topics = topics;
    take.topic_count = 1;
    code = tarry_take(queue, &take, 0, &job, &n);
    if (code || n != 0)
        return fail("it came early", code);
    tarry_advance(queue, 30 * 60 * 1000 + 1);
    code = tarry_take(queue, &take, 0, &job, &n);
    if (code || n != 1 || memcmp(tarry_job_body(job, &bytes), "close it", 8) != 0 || bytes != 8)
        return fail("take", code);
    answer.job = job;
    code = tarry_ack(queue, &answer, 1, NULL);
    if (code)
        return fail("ack", code);
    tarry_job_free(job);
    code = tarry_close(queue);
    if (code)
        return fail("close", code);
    printf("good\n");
    return 0;
}
