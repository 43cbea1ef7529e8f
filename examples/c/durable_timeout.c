/* The same order, closed in time even if the program ends meanwhile: durable_timeout DIR [SECONDS], 1800 by default. Stop it
 * as you like and start it again: it continues. */
#include <stdio.h>
#include <stdlib.h>
#include <tarry.h>

static void on_log(void *owner, int level, const char *line)
{
    (void)owner;
    if (level >= TARRY_LOG_WARN)
        fprintf(stderr, "%s\n", line);
}

/* Again and again with the same number: the first push counts. */
static int place(tarry *queue, const char *order, int64_t delay_ms)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    int code;
    push.topic = "orders";
    push.id = order;
    push.delay_ms = delay_ms;
    push.on_conflict = TARRY_KEEP;
    code = tarry_push(queue, &push, 1, &result);
    if (code)
        fprintf(stderr, "push: %s\n", tarry_strerror(code));
    else
        printf("order %s %s\n", order, result.code == TARRY_EXISTED ? "is known" : "placed");
    return code;
}

static int close_next(tarry *queue)
{
    static const char *const topics[] = {"orders"};
    struct tarry_take take = TARRY_TAKE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    tarry_job *job;
    size_t n;
    int code;
    take.topics = topics;
    take.topic_count = 1;
    code = tarry_take(queue, &take, -1, &job, &n);
    if (code) {
        fprintf(stderr, "take: %s\n", tarry_strerror(code));
        return code;
    }
    printf("order %s closed: not paid in time\n", tarry_job_id(job));
    answer.job = job;
    code = tarry_ack(queue, &answer, 1, NULL);
    tarry_job_free(job);
    return code;
}

int main(int argc, char **argv)
{
    int64_t delay_ms = (int64_t)((argc > 2 ? atof(argv[2]) : 1800) * 1000);
    struct tarry_options options = TARRY_OPTIONS_INIT;
    char error[300];
    tarry *queue;
    int code;
    if (argc < 2) {
        fprintf(stderr, "usage: durable_timeout DIR [SECONDS]\n");
        return 2;
    }
    options.dir = argv[1];
    options.log = on_log;
    if (tarry_open(&options, &queue, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    code = place(queue, "1001", delay_ms);
    if (!code)
        code = close_next(queue);
    tarry_close(queue);
    return code != 0;
}
