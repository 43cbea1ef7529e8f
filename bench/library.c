/*
 * Cost of a queue inside a process, through the functions of tarry.h.
 *
 *   bench_library hold PENDING THREADS [take]   the hold model: PENDING jobs wait; an operation takes the one that is
 *                                               due and pushes another with a random later due. Each job has an id of
 *                                               26 bytes and a body of 200. take: with a lease and an ack, in place of pop
 *   bench_library ids PENDING                   pushes; a random one is rescheduled, cancelled and pushed; bytes a job
 *   bench_library late PENDING RATE             lateness of RATE jobs a second beside PENDING that wait, one thread pops
 *
 * Time is the test clock's, except for `late`. Figures are for each second of CPU, and by the wall clock; a line of JSON each. bench/library runs
 * it beside the peers in bench/inprocess.
 */
#include "base/random.h"
#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>
#include <unistd.h>

enum {
    BODY_BYTES = 200,
    ID_BYTES = 26,
    THREADS_MAX = 64,
    ROUNDS = 5,
    ROUND_CPU_NS = 700000000, /* however long that takes */
    LATE_S = 5
};

static tarry *queue;
static char body[BODY_BYTES];
static atomic_bool is_over;
static const char *const topics[] = {"t"};

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void stop_at(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", what, tarry_strerror(code));
    exit(1);
}

static void id_write(char id[ID_BYTES + 1], char kind, uint64_t number)
{
    for (int i = ID_BYTES - 1; i > 0; i--, number /= 10)
        id[i] = (char)('0' + number % 10);
    id[0] = kind;
    id[ID_BYTES] = '\0';
}

static void push_one(char kind, uint64_t number, int64_t delay_ms)
{
    char id[ID_BYTES + 1];
    struct tarry_push push = TARRY_PUSH_INIT;
    id_write(id, kind, number);
    push.topic = topics[0];
    push.id = id;
    push.body = body;
    push.body_bytes = sizeof body;
    push.delay_ms = delay_ms;
    stop_at(tarry_push(queue, &push, 1, NULL), "push");
}

static void open_queue(uint32_t flags)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    char error[200];
    options.flags = flags;
    if (tarry_open(&options, &queue, error, sizeof error))
        stop_at(TARRY_NO_MEMORY, error);
}

static int64_t resident_bytes(void)
{
    long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* ---- hold ---- */

struct worker {
    pthread_t thread;
    struct random random;
    char kind;
    bool takes;
    uint64_t pending;
    _Atomic uint64_t operations;
};

/* Takes a due job; if no job is due, moves the clock until some are. */
static void take_one(const struct worker *worker)
{
    struct tarry_take take = TARRY_TAKE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    tarry_job *job;
    size_t n = 0;
    take.topics = topics;
    take.topic_count = 1;
    while (!n) {
        stop_at((worker->takes ? tarry_take : tarry_pop)(queue, &take, 0, &job, &n), "take");
        if (!n)
            stop_at(tarry_advance(queue, 32), "advance");
    }
    answer.job = job;
    if (worker->takes)
        stop_at(tarry_ack(queue, &answer, 1, NULL), "ack");
    tarry_job_free(job);
}

static void *hold_run(void *ctx)
{
    struct worker *worker = ctx;
    for (uint64_t number = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); number++) {
        take_one(worker);
        push_one(worker->kind, number,
                 1 + (int64_t)random_below(&worker->random, 2 * worker->pending));
        atomic_fetch_add_explicit(&worker->operations, 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t operations_of(struct worker *workers, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += atomic_load(&workers[i].operations);
    return sum;
}

static void hold(uint64_t pending, int threads, bool takes)
{
    static struct worker workers[THREADS_MAX];
    struct random random = {1};
    double best_cpu = 0, best_wall = 0;
    open_queue(TARRY_TEST_CLOCK);
    for (uint64_t i = 0; i < pending; i++)
        push_one('p', i, 1 + (int64_t)random_below(&random, 2 * pending));
    for (int i = 0; i < threads; i++) {
        workers[i].random.state = (uint64_t)i * 7919 + 1;
        workers[i].kind = (char)('A' + i);
        workers[i].takes = takes;
        workers[i].pending = pending;
        pthread_create(&workers[i].thread, NULL, hold_run, &workers[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = operations_of(workers, threads);
        int64_t wall = measure_ns(), cpu = cpu_ns();
        do
            usleep(100000);
        while (cpu_ns() - cpu < ROUND_CPU_NS);
        double done = (double)(operations_of(workers, threads) - before);
        double by_cpu = done * 1e9 / (double)(cpu_ns() - cpu);
        double by_wall = done * 1e9 / (double)(measure_ns() - wall);
        best_cpu = by_cpu > best_cpu ? by_cpu : best_cpu;
        best_wall = by_wall > best_wall ? by_wall : best_wall;
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    printf("{\"what\":\"%s\",\"pending\":%lu,\"threads\":%d,\"per_cpu_s\":%.0f,\"per_s\":%.0f}\n",
           takes ? "hold_take" : "hold", (unsigned long)pending, threads, best_cpu, best_wall);
    tarry_close(queue);
}

/* ---- by id ---- */

static void rate_print(const char *what, uint64_t pending, uint64_t count, int64_t since_cpu_ns)
{
    printf("{\"what\":\"%s\",\"pending\":%lu,\"per_cpu_s\":%.0f}\n", what, (unsigned long)pending,
           (double)count * 1e9 / (double)(cpu_ns() - since_cpu_ns));
}

static void ids(uint64_t pending)
{
    struct random random = {1};
    struct tarry_change change = TARRY_CHANGE_INIT;
    char id[ID_BYTES + 1];
    uint64_t count = 1000000;
    open_queue(TARRY_TEST_CLOCK);
    int64_t before = resident_bytes(), since = cpu_ns();
    for (uint64_t i = 0; i < pending; i++)
        push_one('p', i, 1 + (int64_t)random_below(&random, 3600000));
    rate_print("push", pending, pending, since);
    printf("{\"what\":\"bytes\",\"pending\":%lu,\"bytes\":%.0f}\n", (unsigned long)pending,
           (double)(resident_bytes() - before) / (double)pending);
    change.topic = topics[0];
    change.id = id;
    change.flags = TARRY_HAS_DELAY;
    since = cpu_ns();
    for (uint64_t i = 0; i < count; i++) {
        id_write(id, 'p', random_below(&random, pending));
        change.delay_ms = 1 + (int64_t)random_below(&random, 3600000);
        stop_at(tarry_reschedule(queue, &change, 1, NULL), "reschedule");
    }
    rate_print("reschedule", pending, count, since);
    since = cpu_ns();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = random_below(&random, pending);
        id_write(id, 'p', number);
        change.flags = 0;
        stop_at(tarry_cancel(queue, &change, 1, NULL), "cancel");
        push_one('p', number, 1 + (int64_t)random_below(&random, 3600000));
    }
    rate_print("cancel_push", pending, count, since);
    tarry_close(queue);
}

/* ---- late ---- */

static int64_t *lates;
static size_t late_count, late_want;

static int64_t boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Receives jobs whose bodies hold their due time, to the nanosecond. */
static void *late_run(void *ctx)
{
    struct tarry_take take = TARRY_TAKE_INIT;
    tarry_job *jobs[64];
    (void)ctx;
    take.topics = topics;
    take.topic_count = 1;
    take.max = 64;
    while (late_count < late_want) {
        size_t n, bytes;
        int64_t due_ns;
        stop_at(tarry_pop(queue, &take, -1, jobs, &n), "pop");
        int64_t now_ns = boot_ns();
        for (size_t i = 0; i < n; i++) {
            memcpy(&due_ns, tarry_job_body(jobs[i], &bytes), sizeof due_ns);
            lates[late_count++] = now_ns - due_ns;
            tarry_job_free(jobs[i]);
        }
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return first < second ? -1 : first > second;
}

static void late(uint64_t pending, uint64_t rate)
{
    struct random random = {1};
    pthread_t thread;
    open_queue(0);
    for (uint64_t i = 0; i < pending; i++)
        push_one('p', i, 3600000 + (int64_t)random_below(&random, 3600000));
    late_want = rate * LATE_S;
    lates = malloc((late_want + 64) * sizeof *lates);
    if (!lates)
        stop_at(TARRY_NO_MEMORY, "late");
    pthread_create(&thread, NULL, late_run, NULL);
    int64_t began_ns = boot_ns();
    for (uint64_t sent = 0; sent < late_want;) {
        uint64_t want = (uint64_t)(boot_ns() - began_ns) * rate / 1000000000;
        for (; sent < want && sent < late_want; sent++) {
            int64_t delay_ms = 100 + (int64_t)random_below(&random, 1900);
            int64_t due_ns = boot_ns() + delay_ms * 1000000;
            memcpy(body, &due_ns, sizeof due_ns);
            push_one('j', sent, delay_ms);
        }
        usleep(500);
    }
    pthread_join(thread, NULL);
    qsort(lates, late_count, sizeof *lates, compare);
    printf("{\"what\":\"late\",\"pending\":%lu,\"rate\":%lu,\"p50_us\":%.0f,\"p99_us\":%.0f,"
           "\"first_us\":%."
           "0f,\"last_us\":%.0f}\n",
           (unsigned long)pending, (unsigned long)rate, (double)lates[late_count / 2] / 1e3,
           (double)lates[late_count * 99 / 100] / 1e3, (double)lates[0] / 1e3,
           (double)lates[late_count - 1] / 1e3);
    free(lates);
    tarry_close(queue);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    uint64_t pending = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    long third = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    if (!strcmp(what, "hold") && pending && third > 0 && third <= THREADS_MAX)
        hold(pending, (int)third, argc > 4 && !strcmp(argv[4], "take"));
    else if (!strcmp(what, "ids") && pending)
        ids(pending);
    else if (!strcmp(what, "late") && third > 0)
        late(pending, (uint64_t)third);
    else
        return fprintf(stderr, "usage: bench_library hold PENDING THREADS [take] | ids PENDING | "
                               "late PENDING RATE\n"),
               2;
    return 0;
}
