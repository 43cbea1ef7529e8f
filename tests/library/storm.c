/*
 * Two queues in one process whose threads are hit by signals all the time and which forks meanwhile: each job comes out
 * once, children get an error and continue with queues of their own, and the library leaves signals, threads and streams unchanged.
 *
 * storm [JOBS]
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tarry.h>
#include <unistd.h>

/* Present with the address sanitizer, in any object: its allocator does not survive a fork while other threads
 * are in it. */
extern void __asan_init(void) __attribute__((weak));

enum { FORKS = 3, QUEUES = 2, PUSHERS = 2, TAKERS = 2, JOBS_MAX = 100000 };

static tarry *queues[QUEUES];
static int jobs_each;
static atomic_int seen[QUEUES][PUSHERS * JOBS_MAX];
static atomic_int taken[QUEUES], signals, wrong;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void fault(const char *what, int code)
{
    fprintf(stderr, "%s: %s\n", what, tarry_strerror(code));
    atomic_store(&wrong, 1);
}

struct worker {
    pthread_t thread;
    int queue, number;
};

static void *push_run(void *ctx)
{
    const struct worker *worker = ctx;
    for (int i = 0; i < jobs_each; i++) {
        struct tarry_push push = TARRY_PUSH_INIT;
        int name = worker->number * jobs_each + i;
        push.topic = "storm";
        push.body = &name;
        push.body_bytes = sizeof name;
        push.delay_ms = i % 7;
        int code = tarry_push(queues[worker->queue], &push, 1, NULL);
        if (code)
            fault("push", code);
    }
    return NULL;
}

static void *take_run(void *ctx)
{
    static const char *const topics[] = {"storm"};
    const struct worker *worker = ctx;
    struct tarry_take take = TARRY_TAKE_INIT;
    take.topics = topics;
    take.topic_count = 1;
    take.max = 10;
    while (atomic_load(&taken[worker->queue]) < PUSHERS * jobs_each) {
        tarry_job *jobs[10];
        size_t n;
        int code = worker->number % 2 ? tarry_pop(queues[worker->queue], &take, 20, jobs, &n)
                                      : tarry_take(queues[worker->queue], &take, 20, jobs, &n);
        if (code)
            fault("take", code);
        for (size_t i = 0; i < n; i++) {
            struct tarry_answer answer = TARRY_ANSWER_INIT;
            int name;
            memcpy(&name, tarry_job_body(jobs[i], NULL), sizeof name);
            answer.job = jobs[i];
            if (worker->number % 2 == 0 &&
                (code = tarry_ack(queues[worker->queue], &answer, 1, NULL)))
                fault("ack", code);
            if (atomic_fetch_add(&seen[worker->queue][name], 1))
                fault("a job came twice", TARRY_EXISTED);
            atomic_fetch_add(&taken[worker->queue], 1);
            tarry_job_free(jobs[i]);
        }
    }
    return NULL;
}

/* A child has nothing of its parent's queues, and can have its own. */
static int child_run(void)
{
    static const char *const topics[] = {"own"};
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_take take = TARRY_TAKE_INIT;
    tarry *own;
    tarry_job *job;
    size_t n;
    push.topic = topics[0];
    take.topics = topics;
    take.topic_count = 1;
    for (int i = 0; i < QUEUES; i++)
        if (tarry_push(queues[i], &push, 1, NULL) != TARRY_FORKED ||
            tarry_take(queues[i], &take, -1, &job, &n) != TARRY_FORKED ||
            tarry_close(queues[i]) != TARRY_FORKED)
            return 1;
    if (tarry_open(NULL, &own, NULL, 0) || tarry_push(own, &push, 1, NULL) ||
        tarry_pop(own, &take, -1, &job, &n) || n != 1)
        return 2;
    tarry_job_free(job);
    return tarry_close(own) ? 3 : 0;
}

static int thread_count(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *at; tasks && (at = readdir(tasks));)
        count += at->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

/* Reads the process's disposition of each signal, as one number each. */
static void dispositions_read(void *handlers[NSIG])
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action = {0};
        handlers[number] = sigaction(number, NULL, &action) ? NULL : (void *)action.sa_handler;
    }
}

int main(int argc, char **argv)
{
    static struct worker pushers[QUEUES * PUSHERS], takers[QUEUES * TAKERS];
    static void *before[NSIG], *after[NSIG];
    const struct sigaction storm = {.sa_handler =
                                        on_signal}; /* calls of the system are interrupted */
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    jobs_each = argc > 1 ? atoi(argv[1]) : 20000;
    if (jobs_each < 1 || jobs_each > JOBS_MAX)
        return fprintf(stderr, "usage: storm [JOBS]\n"), 2;
    sigaction(SIGALRM, &storm, NULL);
    sigaction(SIGUSR1, &storm, NULL);
    dispositions_read(before);
    int threads = thread_count();
    for (int i = 0; i < QUEUES; i++)
        if (tarry_open(NULL, &queues[i], NULL, 0) || tarry_fd(queues[i]) < 0)
            return 1;
    if (thread_count() != threads)
        fault("a queue has a thread", TARRY_OK);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < QUEUES * TAKERS; i++) {
        takers[i] = (struct worker){.queue = i % QUEUES, .number = i / QUEUES};
        pthread_create(&takers[i].thread, NULL, take_run, &takers[i]);
    }
    for (int i = 0; i < QUEUES * PUSHERS; i++) {
        pushers[i] = (struct worker){.queue = i % QUEUES, .number = i / QUEUES};
        pthread_create(&pushers[i].thread, NULL, push_run, &pushers[i]);
    }
    for (int i = 0; i < FORKS && !__asan_init; i++) {
        for (int hits = 0; hits < 50; hits++)
            pthread_kill(takers[hits % (QUEUES * TAKERS)].thread, SIGUSR1);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(child_run());
        int status;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            fprintf(stderr, "child: status %d\n", status);
            atomic_store(&wrong, 1);
        }
    }
    for (int i = 0; i < QUEUES * PUSHERS; i++)
        pthread_join(pushers[i].thread, NULL);
    for (int i = 0; i < QUEUES * TAKERS; i++)
        pthread_join(takers[i].thread, NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < QUEUES; i++) {
        for (int name = 0; name < PUSHERS * jobs_each; name++)
            if (seen[i][name] != 1)
                fault("a job did not come", TARRY_NOT_FOUND);
        if (tarry_close(queues[i]))
            return 1;
    }
    dispositions_read(after);
    if (memcmp(before, after, sizeof before) != 0)
        fault("a signal's disposition", TARRY_OK);
    if (!signals || wrong)
        return 1;
    printf("good, in spite of %d signals\n", (int)signals);
    return 0;
}
