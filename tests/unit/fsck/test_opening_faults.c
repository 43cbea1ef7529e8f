/* Every call to the disk, and every allocation, fails once while a data directory is opened: the error
 * is described, nothing leaks, and the next opening finds all data. */
#include "fsck_rig.h"
#include "store/depot.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"

enum { CALLS_MAX = 4000 };

static uint64_t records;

static bool count_record(void *ctx, const struct record *record, struct record_place place)
{
    (void)ctx, (void)record, (void)place;
    records++;
    return true;
}

static struct depot *open_depot(const char *dir, char error[512], int *result)
{
    const struct depot_options options = {.fs = &fs_posix,
                                          .dir = dir,
                                          .hash_seed = scene.manifest.hash_seed,
                                          .seed = SEED,
                                          .identity = scene.catalog.identity};
    struct depot *depot = NULL;

    *result = depot_open(&options, &depot, error, 512);
    return depot;
}

/* Looks up a cold job by its key, and merges the tables. */
static int use(struct depot *depot)
{
    struct hash128 key = hash_pair(slice_of("orders"), slice_of("b3"), scene.manifest.hash_seed);
    struct depot_view *view = depot_hold(depot);
    struct depot_hit hit;
    struct buffer found;
    int result = view ? depot_load_filters(view) : -ENOMEM;

    buffer_init(&found, 1 << 16);
    if (result == 0)
        result = depot_find(view, scene.manifest.hash_seed, key, &found, &hit);
    if (result >= 0)
        assert_int_equal(result, 1); /* never "there is none" */
    buffer_fini(&found);
    if (view)
        depot_let_go(view);
    return result < 0 ? result : 0;
}

static int open_all(char error[512])
{
    struct datadir *datadir = NULL;
    struct datadir_manifest manifest;
    char dir[160];
    int result = datadir_open(scene.dir, 1, &datadir, &manifest, error, 512);

    snprintf(dir, sizeof dir, "%s/shard-00", scene.dir);
    records = 0;
    if (result >= 0) {
        struct depot *depot = open_depot(dir, error, &result);
        if (depot) {
            const struct catalog *catalog = depot_catalog(depot);
            const struct wal_options options = {.fs = &fs_posix,
                                                .dir = dir,
                                                .file_bytes = 1 << 20,
                                                .sync = WAL_SYNC_ALWAYS,
                                                .identity = scene.catalog.identity,
                                                .inner_ms = now_ms,
                                                .wall_ms = now_ms,
                                                .first = catalog->log_first,
                                                .first_sequence = catalog->log_first_sequence};
            struct wal *wal = NULL;
            result = wal_open(&options, count_record, NULL, &wal, NULL, error, 512);
            wal_close(wal);
            if (result >= 0 && (result = use(depot)) < 0)
                strcpy(error, "cannot look");
            depot_close(depot);
        }
    }
    datadir_close(datadir);
    return result < 0 ? result : 0;
}

CLAIM_BETWEEN(a_failed_opening_reports_the_error_and_removes_nothing, make_scene, remove_scene)
{
    bool is_through = false;
    uint64_t all;
    char error[512];

    assert_int_equal(open_all(error), 0);
    all = records;
    assert_true(all > 0);
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call++) {
        *error = '\0';
        failed = 0;
        calls_left = call;
        int result = open_all(error);
        calls_left = -1;
        is_through = failed == 0;
        assert_true(result == 0 || *error);
        assert_true(result < 0 || records == all);
        *error = '\0';
        if (open_all(error) < 0)
            fail_msg("after call %ld failed: %s", (long)call, error);
        assert_int_equal(records, all);
    }
    assert_true(is_through);
    expect_clean();
}

CLAIMS_MAIN(NULL, NULL)
