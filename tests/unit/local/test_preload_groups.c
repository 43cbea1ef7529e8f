/* A group whose jobs cannot be delivered, or are delivered slowly, hides no job of another group on the disk. */
#include "preload_rig_runs.h"
#include "unit/claim.h"
#include "unit/repetitions.h"
#include "unit/seed.h"

enum {
    HORIZON_MS = 10000,
    QUOTA = 5000,
    BACKLOG = 300000,
    BACKLOG_SHORT = 100000, /* several times what memory may hold */
    QUIET = 20
};

static unsigned backlog(void)
{
    static unsigned jobs;
    if (!jobs)
        jobs = (unsigned)repetitions(BACKLOG, BACKLOG_SHORT);
    return jobs;
}

static uint64_t directory_bytes(void)
{
    return backlog() * UINT64_C(24);
}

/* ---- a disk that counts what is read ---- */

static struct fs_ops counting_ops;
static struct fs counting = {.ops = &counting_ops};
static _Atomic uint64_t reads, read_bytes;

static ssize_t counting_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    reads++;
    read_bytes += len;
    return fs_posix.ops->pread(ctx, fd, into, len, offset);
}

static const struct fs *counting_fs(void)
{
    counting_ops = *fs_posix.ops;
    counting_ops.pread = counting_pread;
    reads = read_bytes = 0;
    return &counting;
}

/* ---- a backlog ---- */

static void push_of(struct rig *rig, const char *group, unsigned number, int64_t ms)
{
    rig_push_grouped(rig, "mail", group, number, (struct queue_when){QUEUE_DUE_DELAY, ms - 1});
}

static void pause_group(struct rig *rig, const char *group, bool paused)
{
    struct group_settings settings = {.paused = paused};
    assert_int_equal(
        engine_group_put(rig->shard.engine, slice_of("mail"), slice_of(group), &settings),
        QUEUE_OK);
}

/* A backlog of one group on the disk, then some jobs of others. All are due. */
static void open_backlog(struct rig *rig, bool paused)
{
    rig_open(rig, HORIZON_MS, QUOTA);
    for (unsigned i = 0; i < backlog(); i++)
        push_of(rig, "noisy", i, 1000 + i / 300);
    for (unsigned i = 0; i < QUIET; i++)
        push_of(rig, i % 2 ? "quiet" : "", backlog() + i, 3000);
    pause_group(rig, "noisy", paused);
    rig->fs = counting_fs();
    rig_restart(rig);
    reads = read_bytes = 0;
    rig_pass(rig, 4000);
}

static bool is_quiet(unsigned id)
{
    return id >= backlog();
}

CLAIM(a_held_group_hides_no_other_group)
{
    struct rig rig;
    unsigned ids[QUIET];
    open_backlog(&rig, true);
    assert_int_equal(rig_take(&rig, "mail", QUIET, ids), QUIET);
    for (unsigned i = 0; i < QUIET; i++)
        assert_true(is_quiet(ids[i]));
    rig_settle(&rig);
    rig_assert_counts(&rig, "mail", 0, backlog());
    assert_true(rig.entries_most <= 3 * QUOTA + 3 * 4096);
    /* The directory is read by time and once for the others; a job takes some 100 bytes. */
    assert_true(read_bytes <= 3 * directory_bytes() + UINT64_C(400) * rig.entries_most);
    assert_true(reads <= 400);
    rig_close(&rig);
}

CLAIM(a_group_that_is_delivered_slowly_hides_no_other_group)
{
    struct rig rig;
    unsigned ids[8], quiet = 0, taken = 0, last = 0;
    open_backlog(&rig, false);
    while (quiet < QUIET && taken < 1000) {
        size_t got = rig_take(&rig, "mail", 8, ids);
        for (size_t i = 0; i < got; i++) {
            quiet += is_quiet(ids[i]);
            assert_true(is_quiet(ids[i]) || !last || ids[i] > last);
            last = is_quiet(ids[i]) ? last : ids[i];
        }
        taken += (unsigned)got;
        rig_pass(&rig, 50);
    }
    assert_int_equal(quiet, QUIET);
    assert_true(taken <= 10 * QUIET);
    rig_close(&rig);
}

CLAIM(a_held_group_continues_when_it_is_resumed)
{
    struct rig rig;
    unsigned *ids = calloc(backlog() + QUIET + 100, sizeof *ids), taken = 0, noisy = 0;
    open_backlog(&rig, true);
    assert_int_equal(rig_take(&rig, "mail", QUIET + 1, ids), QUIET);
    pause_group(&rig, "noisy", false);
    reads = read_bytes = 0;
    for (size_t got; (got = rig_take(&rig, "mail", 700, ids + taken)) != 0; rig_pass(&rig, 30))
        taken += (unsigned)got;
    assert_int_equal(taken, backlog());
    for (; noisy < backlog(); noisy++)
        assert_int_equal(ids[noisy], noisy);
    /* The number of bytes read is linear in the number of jobs. */
    assert_true(read_bytes <= 3 * directory_bytes() + UINT64_C(150) * backlog());
    rig_settle(&rig);
    rig_assert_counts(&rig, "mail", 0, 0);
    free(ids);
    rig_close(&rig);
}

/* ---- many groups ---- */

enum { GROUPS = 40, JOBS = 60000 };

static unsigned group_of(unsigned id)
{
    return id * 2654435761u % GROUPS * (id * 2654435761u % GROUPS) / GROUPS; /* some have more */
}

static const char *group_name_of(unsigned group, char into[16])
{
    snprintf(into, 16, group ? "g%u" : "", group);
    return into;
}

/* Pauses and resumes groups, and takes; each job is taken once, those of a group in the order of the push. */
static void churn_groups(struct rig *rig, struct random *random, bool *taken, unsigned *count)
{
    unsigned ids[64];
    char name[16];
    unsigned group = 1 + (unsigned)random_below(random, GROUPS - 1);
    if (random_below(random, 4) == 0)
        pause_group(rig, group_name_of(group, name), random_below(random, 2) == 0);
    size_t got = rig_take(rig, "mail", 64, ids);
    for (size_t i = 0; i < got; i++) {
        assert_false(taken[ids[i]]);
        taken[ids[i]] = true;
    }
    *count += (unsigned)got;
    rig_pass(rig, (int64_t)random_below(random, 60));
    if (random_below(random, 300) == 0)
        rig_checkpoint(rig, NULL);
    if (random_below(random, 300) == 0)
        rig_evict(rig);
}

CLAIM(many_groups_that_pause_and_resume_deliver_each_job_once)
{
    struct rig rig;
    char name[16];
    unsigned count = 0;
    bool *taken = calloc(JOBS, sizeof *taken);
    struct random random = seed_random("many_groups_that_pause_and_resume_deliver_each_job_once");
    rig_open(&rig, HORIZON_MS, 1000);
    for (unsigned i = 0; i < JOBS; i++) {
        push_of(&rig, group_name_of(group_of(i), name), i, 1000 + i / 20);
        if (i % 20000 == 0)
            rig_checkpoint(&rig, NULL);
    }
    rig_restart(&rig);
    for (unsigned round = 0; round < 3000; round++)
        churn_groups(&rig, &random, taken, &count);
    for (unsigned group = 1; group < GROUPS; group++)
        pause_group(&rig, group_name_of(group, name), false);
    for (unsigned idle = 0; count < JOBS && idle < 100; idle++) {
        unsigned before = count;
        churn_groups(&rig, &random, taken, &count);
        for (unsigned group = 1; group < GROUPS; group++)
            pause_group(&rig, group_name_of(group, name), false);
        idle = count > before ? 0 : idle;
    }
    assert_int_equal(count, JOBS);
    rig_pass(&rig, 5000);
    rig_assert_counts(&rig, "mail", 0, 0);
    assert_true(rig.entries_most <= 3 * 1000 + 3 * 4096 + 20000);
    free(taken);
    rig_close(&rig);
}

/* ---- strict order ---- */

enum { IN_ORDER = 4000, SMALL_QUOTA = 1000 };

static void set_strict(struct rig *rig)
{
    struct topic_settings settings = {.flow.group_order = FLOW_STRICT};
    assert_int_equal(engine_topic_put(rig->shard.engine, slice_of("mail"), &settings),
                     QUEUE_CREATED);
}

/* Fails the first job of the topic, which waits an hour for its retry. */
static void nack_first(struct rig *rig)
{
    struct engine_view view;
    struct queue_result result = {0};
    assert_int_equal(engine_take(rig->shard.engine, slice_of("mail"), 1, SIZE_MAX, 1000,
                                 (struct slice){0}, rig_now(rig), &view),
                     1);
    struct engine_lease lease = {.key_low = view.key.low, .delivery = view.delivery};
    struct queue_answer answer = {.verb = QUEUE_NACK, .delay_ms = 3600 * 1000};
    engine_answer(rig->shard.engine, &lease, &answer, rig_now(rig), &result);
    assert_int_equal(result.status, QUEUE_OK);
    engine_view_fini(&view);
}

CLAIM(a_retry_on_the_disk_holds_its_strict_group)
{
    struct rig rig;
    unsigned ids[10], next = 0;
    rig_open(&rig, HORIZON_MS, SMALL_QUOTA);
    set_strict(&rig);
    for (unsigned i = 0; i < IN_ORDER; i++)
        push_of(&rig, "a", i, 1000 + i / 10);
    push_of(&rig, "b", IN_ORDER, 1000);
    for (unsigned i = 0; i < IN_ORDER; i++)
        rig_push_in(&rig, "other", i, 1000 + i / 10);
    rig_pass(&rig, 2000);
    nack_first(&rig);
    rig_restart(&rig);
    push_of(&rig, "a", IN_ORDER + 1, 1); /* it must not overtake jobs that were on the disk */
    rig_pass(&rig, 2000);
    rig_evict(&rig);
    assert_int_equal(rig_take(&rig, "mail", 10, ids), 1);
    assert_int_equal(ids[0], IN_ORDER); /* of the other group */
    assert_int_equal(rig_take(&rig, "mail", 10, ids), 0);
    rig_pass(&rig, 3600 * 1000);
    for (; rig_take(&rig, "mail", 1, ids); rig_pass(&rig, 1), next++)
        assert_int_equal(ids[0], next < IN_ORDER ? next : IN_ORDER + 1);
    assert_int_equal(next, IN_ORDER + 1);
    rig_settle(&rig);
    rig_assert_counts(&rig, "mail", 0, 0);
    rig_close(&rig);
}

/* ---- the number of jobs of a group ---- */

enum { FAR_JOBS = 3000 };

static enum queue_status push_one_more(struct rig *rig, const char *group)
{
    struct queue_result result = {0};
    struct queue_push push = {.topic = slice_of("mail"),
                              .id = slice_of("more"),
                              .group = slice_of(group),
                              .priority = QUEUE_PRIORITY_UNSET};
    engine_push(rig->shard.engine, &push, rig_now(rig), &result);
    return result.status;
}

static void count_jobs_on_the_disk(bool by_topic)
{
    struct rig rig;
    struct topic_settings settings = {.flow.group_max_jobs = by_topic ? FAR_JOBS : 0};
    struct group_settings own = {.max_jobs = FAR_JOBS};
    unsigned ids[10];
    rig_open(&rig, HORIZON_MS, SMALL_QUOTA);
    (void)engine_topic_put(rig.shard.engine, slice_of("mail"), &settings);
    for (unsigned i = 0; i < FAR_JOBS; i++)
        push_of(&rig, "a", i, 3600 * 1000 + i);
    if (!by_topic)
        assert_int_equal(engine_group_put(rig.shard.engine, slice_of("mail"), slice_of("a"), &own),
                         QUEUE_OK);
    rig_checkpoint(&rig, NULL);
    rig_evict(&rig);
    assert_int_equal(push_one_more(&rig, "a"), QUEUE_GROUP_FULL);
    rig_restart(&rig);
    rig_evict(&rig);
    assert_int_equal(push_one_more(&rig, "a"), QUEUE_GROUP_FULL);
    assert_int_equal(push_one_more(&rig, "b"), QUEUE_CREATED);
    rig_pass(&rig, 3601 * 1000);
    assert_int_equal(rig_take(&rig, "mail", 2, ids), 2);
    assert_int_equal(push_one_more(&rig, "a"), QUEUE_CREATED);
    rig_close(&rig);
}

CLAIM(jobs_on_the_disk_count_for_the_maximum_of_groups)
{
    count_jobs_on_the_disk(true);
}

CLAIM(jobs_on_the_disk_count_for_the_maximum_of_one_group)
{
    count_jobs_on_the_disk(false);
}
CLAIMS_MAIN(NULL, NULL)
