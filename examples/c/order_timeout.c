/* An order that is not paid in time is closed, by a queue inside the program: order_timeout [SECONDS], 1800 by default. */
#include <stdio.h>
#include <stdlib.h>
#include <tarry.h>

static tarry *queue;

static void check(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", what, tarry_strerror(code));
    exit(1);
}

/* The job has the order's own number, so any code with the order can cancel it. */
static void place(const char *order, int64_t delay_ms)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    push.topic = "orders";
    push.id = order;
    push.delay_ms = delay_ms;
    check(tarry_push(queue, &push, 1, NULL), "push");
    printf("order %s placed\n", order);
}

static void pay(const char *order)
{
    struct tarry_change change = TARRY_CHANGE_INIT;
    change.topic = "orders";
    change.id = order;
    if (tarry_cancel(queue, &change, 1, NULL) == TARRY_OK)
        printf("order %s paid, nothing to close\n", order);
}

/* Waits for the next order that is due; a worker of yours goes round for ever. */
static void close_next(void)
{
    static const char *const topics[] = {"orders"};
    struct tarry_take take = TARRY_TAKE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    tarry_job *job;
    size_t n;
    take.topics = topics;
    take.topic_count = 1;
    check(tarry_take(queue, &take, -1, &job, &n), "take");
    printf("order %s closed: not paid in time\n", tarry_job_id(job));
    answer.job = job;
    check(tarry_ack(queue, &answer, 1, NULL), "ack");
    tarry_job_free(job);
}

int main(int argc, char **argv)
{
    int64_t delay_ms = (int64_t)((argc > 1 ? atof(argv[1]) : 1800) * 1000);
    char error[200];
    if (tarry_open(NULL, &queue, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    place("1001", delay_ms);
    place("1002", delay_ms);
    pay("1001");
    close_next();
    return tarry_close(queue);
}
