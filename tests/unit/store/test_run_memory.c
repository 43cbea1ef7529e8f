/* Every allocation of runs fails once: the failure is reported, and nothing is left behind. */
#include "unit/claim.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int allocations_left = -1; /* below 0: all succeed */

static bool has_memory(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

static void *scarce_malloc(size_t bytes)
{
    return has_memory() ? malloc(bytes) : NULL;
}

static void *scarce_calloc(size_t count, size_t bytes)
{
    return has_memory() ? calloc(count, bytes) : NULL;
}

static void *scarce_realloc(void *at, size_t bytes)
{
    return has_memory() ? realloc(at, bytes) : NULL;
}

static char *scarce_strdup(const char *text)
{
    return has_memory() ? strdup(text) : NULL;
}

/* The real thing, but for where its memory comes from. */
#define malloc scarce_malloc
#define calloc scarce_calloc
#define realloc scarce_realloc
#define strdup scarce_strdup
#include "base/buffer.c"
#include "store/run.c"
#include "store/run_read.c"
#include "store/run_write.c"
#undef malloc
#undef calloc
#undef realloc
#undef strdup

#include "run_rig.h"
#include "unit/seed.h"

static struct sim_fs sim;
static struct rig rig;

static int wants_all(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    (void)ctx, (void)slot, (void)entry;
    return 1;
}

static bool note(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    (void)entry;
    assert_int_equal(slot, *(uint32_t *)ctx); /* no slot is left out */
    assert_int_equal(record.len, rig.slots[slot].bytes);
    ++*(uint32_t *)ctx;
    return true;
}

static int read_and_scan(const struct run *run)
{
    uint32_t given = 0, next;
    struct run_scan scan = {.end = rig.count, .wants = wants_all, .each = note, .ctx = &given};
    struct buffer scratch;
    struct slice record;
    int result;

    buffer_init(&scratch, 4 << 20);
    result = run_read(run, 5, 0, true, &scratch, &record);
    buffer_fini(&scratch);
    if (result < 0)
        return result;
    result = run_scan(run, &scan, &next);
    assert_int_equal(next, given);
    assert_true(result < 0 || given == rig.count);
    return result;
}

static int write_and_read(void)
{
    struct run_info info;
    char error[512] = "";
    struct run *run;
    int result = rig_write(&rig, &sim.fs, 7, &info);

    if (result < 0) {
        assert_int_equal(sim.now.count, 0);
        return result;
    }
    result = run_open(&sim.fs, "s/run", 7, RIG_SEED, &run, error, sizeof error);
    if (result == 0) {
        result = read_and_scan(run);
        run_close(run);
    } else {
        assert_string_equal(error, "out of memory");
    }
    assert_int_equal(sim.fs.ops->unlink(&sim, "s/run/00000007.run"), 0);
    return result;
}

CLAIM(every_allocation_fails_once)
{
    struct random random = seed_random(__func__);
    int failed = 0, result;

    sim_fs_init(&sim, 1);
    rig_init(&rig, &random, 300, (1 << SECTIONS) - 1, 0);
    /* A scan without memory for many records reads them one by one. */
    for (; allocations_left < 0; failed++) {
        allocations_left = failed;
        result = write_and_read();
        assert_true(result == 0 || (result == -ENOMEM && allocations_left < 0));
    }
    assert_true(failed >= 20);
    allocations_left = -1;
    rig_fini(&rig);
    for (int i = 0; i < SIM_FDS_MAX; i++)
        assert_null(sim.fds[i]);
    sim_fs_fini(&sim);
}

CLAIMS_MAIN(NULL, NULL)
