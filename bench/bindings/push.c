/* Cost in C of the push that bench/bindings/python measures: push N prints the nanoseconds of processor time of one. */
#include <stdio.h>
#include <stdlib.h>
#include <tarry.h>
#include <time.h>

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 100000;
    static char body[200];
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    struct timespec start, end;
    char id[32];
    tarry *queue;

    if (tarry_open(NULL, &queue, NULL, 0))
        return 1;
    push.topic = "t";
    push.id = id;
    push.body = body;
    push.body_bytes = sizeof body;
    push.delay_ms = 1000000;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (long i = 0; i < n; i++) {
        snprintf(id, sizeof id, "%026ld", i);
        if (tarry_push(queue, &push, 1, &result))
            return 1;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("%.0f\n",
           ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) /
               (double)n);
    return tarry_close(queue);
}
