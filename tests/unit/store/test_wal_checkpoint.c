#include "store/wal_private.h"
#include "test_wal_rig.h"
#include "unit/claim.h"

static void commit(struct scene *scene)
{
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
}

/* Jobs of a size of which few fit into a file, until file `number` is written to. */
static void push_up_to_file(struct scene *scene, uint32_t number)
{
    while (wal_current_file(scene->owner.wal) < number) {
        wal_owner_push(&scene->owner, 2000);
        commit(scene);
    }
}

/* Runs all steps of a checkpoint. */
static void checkpoint(struct scene *scene)
{
    uint64_t before = scene->owner.checkpoints;

    for (int i = 0; i < 100 && scene->owner.checkpoints == before; i++)
        assert_int_equal(wal_owner_checkpoint(&scene->owner, 1), 0);
    assert_int_equal(scene->owner.checkpoints, before + 1);
}

static bool has_file(struct scene *scene, uint32_t number)
{
    char path[64];

    snprintf(path, sizeof path, "shard/wal/%08u.log", number);
    return sim_fs_bytes(&scene->sim, path, NULL);
}

static struct wal_manifest manifest_of(struct scene *scene)
{
    struct wal_disk disk = {.fs = &scene->sim.fs, .dir = "shard/wal"};
    struct wal_manifest manifest;
    int fd;

    assert_int_equal(wal_manifest_open(&disk, 0, &fd, &manifest, NULL), 0);
    scene->sim.fs.ops->close(&scene->sim, fd);
    return manifest;
}

/* ---- which files ---- */

CLAIM(a_checkpoint_is_of_whole_files_from_the_old_end)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    const struct wal *wal;

    open_well(scene);
    wal = scene->owner.wal;
    assert_int_equal(wal_checkpoint_before(wal, 1, 3), 0);
    assert_int_equal(wal_checkpoint_before(wal, 0, 3), 1);
    assert_int_equal(wal_first_sequence(wal, 1), 1); /* that it will have */
    push_up_to_file(scene, 2);
    assert_int_equal(wal_checkpoint_before(wal, 2, 3), 0);
    assert_int_equal(wal_checkpoint_before(wal, 1, 3), 2);
    push_up_to_file(scene, 6);
    assert_int_equal(wal_checkpoint_before(wal, 1, 3), 4);
    assert_int_equal(wal_checkpoint_before(wal, 1, 9), 6); /* never the one being written */
    assert_int_equal(wal_checkpoint_before(wal, 6, 9), 0);
    assert_true(wal_first_sequence(wal, 4) > wal_first_sequence(wal, 3));
    assert_true(wal_first_sequence(wal, 6) <= wal_synced(wal));
    end(scene);
}

CLAIM(files_go_by_checkpoints_and_by_nothing_else)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_owner *owner = &scene->owner;

    open_well(scene);
    push_up_to_file(scene, 5);
    for (uint32_t id = 1; id <= owner->jobs; id++)
        wal_owner_finish(owner, id);
    commit(scene);
    assert_false(wal_wants_upkeep(owner->wal));
    assert_true(has_file(scene, 1));
    checkpoint(scene);
    assert_true(wal_wants_upkeep(owner->wal));
    assert_true(has_file(scene, 3)); /* upkeep lets go, on its own thread */
    commit(scene);
    assert_int_equal(manifest_of(scene).first, 4);
    assert_int_equal(manifest_of(scene).first_sequence, wal_first_sequence(owner->wal, 4));
    assert_true(has_file(scene, 2) && has_file(scene, 3)); /* to be used again */
    wal_want_spares(owner->wal, false);
    assert_true(wal_wants_upkeep(owner->wal));
    commit(scene);
    assert_true(!has_file(scene, 2) && !has_file(scene, 3) && has_file(scene, 4));
    wal_owner_close(owner);
    open_well(scene);
    assert_int_equal(owner->live, 0);
    end(scene);
}

CLAIM(records_in_files_that_went_are_gone_and_later_ones_are_read)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_owner *owner = &scene->owner;
    struct record_place first, last;
    struct buffer scratch;
    struct slice bytes;

    open_well(scene);
    push_up_to_file(scene, 4);
    first = owner->places[1];
    last = owner->places[owner->jobs];
    checkpoint(scene);
    commit(scene);
    buffer_init(&scratch, 1 << 16);
    assert_int_equal(wal_read(owner->wal, first, true, &scratch, &bytes), -ENOENT);
    assert_int_equal(wal_read(owner->wal, last, true, &scratch, &bytes), 0);
    buffer_fini(&scratch);
    end(scene);
}

/* ---- where an opening begins ---- */

/* A catalog exists, but the log's own MANIFEST does not refer to it. */
static struct scene *crash_after_catalog(void)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    open_well(scene);
    wal_owner_set_topic(&scene->owner, 5);
    push_up_to_file(scene, 5);
    checkpoint(scene);
    wal_owner_push(&scene->owner, 100);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    die(scene, SIM_DROP_UNSYNCED);
    assert_int_equal(manifest_of(scene).first, 1);
    return scene;
}

CLAIM(opening_begins_at_the_catalog_position_and_updates_the_manifest)
{
    struct scene *scene = crash_after_catalog();
    struct wal_manifest manifest;

    open_well(scene);
    assert_int_equal(scene->owner.options.first, 4);
    manifest = manifest_of(scene);
    assert_int_equal(manifest.first, 4);
    assert_int_equal(manifest.first_sequence, scene->owner.options.first_sequence);
    wal_want_spares(scene->owner.wal, false);
    commit(scene);
    assert_true(!has_file(scene, 1) && !has_file(scene, 2) && has_file(scene, 4));
    assert_int_equal(wal_checkpoint_before(scene->owner.wal, 1, 3), 5);
    die(scene, SIM_DROP_UNSYNCED);
    open_well(scene); /* now both agree */
    end(scene);
}

struct misfit {
    const char *why, *words;
    int first, sequence; /* added to the right ones */
    bool from_one;       /* `first` as it is */
};

static const struct misfit misfits[] = {
    {"a file the log let go", "log file 3 is missing", -1, -1, false},
    {"its batch too high", "the log should begin there", 0, 1, false},
    {"its batch too low", "the log should begin there", 0, -1, false},
    {"its batch far beyond", "the log should begin there", 0, 1000, false},
    {"a file that is not there", "log file 99 is missing", 95, 1000, false},
    {"the log's own first file with another batch", "different times", 1, 1, true},
    {"a later file with the batch of the first", "different times", 2, 0, true},
};

CLAIM(a_beginning_that_does_not_fit_is_refused_and_nothing_changes)
{
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        const struct misfit *row = &misfits[i];
        struct scene *scene = crash_after_catalog();
        struct wal_options options = scene->owner.options;
        struct wal_manifest manifest = manifest_of(scene), after;
        struct wal *wal;
        char error[WAL_ERROR_BYTES] = "";

        assert_int_equal(scene->sim.fs.ops->unlink(&scene->sim, "shard/wal/00000003.log"), 0);
        open_well(scene); /* learns what would be right */
        options.first = row->from_one ? (uint32_t)row->first
                                      : scene->owner.options.first + (uint32_t)row->first;
        options.first_sequence =
            row->from_one ? 1 + (uint64_t)row->sequence
                          : scene->owner.options.first_sequence + (uint64_t)row->sequence;
        end(scene);
        scene = crash_after_catalog();
        options.fs = &scene->sim.fs;
        assert_int_equal(scene->sim.fs.ops->unlink(&scene->sim, "shard/wal/00000003.log"), 0);
        if (wal_open(&options, NULL, NULL, &wal, NULL, error, sizeof error) != -EBADMSG ||
            !strstr(error, row->words))
            fail_msg("%s: %s", row->why, error);
        after = manifest_of(scene);
        assert_int_equal(after.generation, manifest.generation);
        assert_true(has_file(scene, 1) && has_file(scene, 2));
        open_well(scene);
        end(scene);
    }
}

CLAIM(an_older_catalog_than_the_log_is_refused)
{
    struct scene *scene = crash_after_catalog();
    struct wal_options options;
    struct wal *wal;
    char error[WAL_ERROR_BYTES] = "";

    open_well(scene);
    options = scene->owner.options;
    wal_owner_close(&scene->owner);
    options.first--;
    options.first_sequence -= 3;
    assert_int_equal(wal_open(&options, NULL, NULL, &wal, NULL, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "different times"));
    open_well(scene);
    end(scene);
}

CLAIM(a_missing_log_is_not_recreated_next_to_runs)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_options options = scene->owner.options;
    struct wal *wal;
    char error[WAL_ERROR_BYTES] = "";

    options.first = 1;
    options.first_sequence = 1;
    assert_int_equal(wal_open(&options, NULL, NULL, &wal, NULL, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "no MANIFEST"));
    assert_null(sim_fs_bytes(&scene->sim, MANIFEST, NULL));
    end(scene);
}

/* Its own batch does not prove that it was synced, but the catalog does. */
CLAIM(a_damaged_first_batch_is_not_the_end_of_the_log)
{
    struct scene *scene = start(WAL_SYNC_NEVER, 3);
    struct wal_owner *owner = &scene->owner;

    open_well(scene);
    push_up_to_file(scene, 2);
    checkpoint(scene);
    die(scene, SIM_DROP_UNSYNCED);
    sim_fs_damage(&scene->sim, "shard/wal/00000002.log", WAL_HEADER_BYTES + 100, 1);
    assert_int_equal(wal_owner_open(owner, 0), -EBADMSG);
    assert_non_null(strstr(owner->error, "00000002.log' is damaged at byte 4096: the log should"));
    sim_fs_damage(&scene->sim, "shard/wal/00000002.log", WAL_HEADER_BYTES + 100, 1);
    open_well(scene);
    end(scene);
}

/* ---- backups ---- */

CLAIM(while_held_back_no_file_goes_nor_is_used_again)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_owner *owner = &scene->owner;

    open_well(scene);
    push_up_to_file(scene, 4);
    checkpoint(scene);
    commit(scene); /* the three wait to be used again */
    wal_hold_back(owner->wal, true);
    wal_hold_back(owner->wal, true);
    wal_hold_back(owner->wal, false);
    push_up_to_file(scene, 8);
    assert_true(has_file(scene, 1));
    checkpoint(scene);
    commit(scene);
    for (uint32_t number = 4; number <= 9; number++)
        assert_true(has_file(scene, number));
    assert_int_equal(manifest_of(scene).first, 4);
    wal_hold_back(owner->wal, false);
    commit(scene);
    assert_int_equal(manifest_of(scene).first, 7);
    assert_true(!has_file(scene, 4) && !has_file(scene, 6) && has_file(scene, 7));
    push_up_to_file(scene, 9);
    assert_false(has_file(scene, 1) && has_file(scene, 2) && has_file(scene, 3));
    wal_owner_close(owner);
    open_well(scene);
    end(scene);
}

/* ---- space ---- */

CLAIM(the_log_stays_small_whatever_lives_long)
{
    for (enum wal_sync sync = WAL_SYNC_ALWAYS; sync <= WAL_SYNC_NEVER; sync++) {
        struct scene *scene = start(sync, 9);
        struct wal_stats stats;

        open_well(scene);
        for (int i = 0; i < 1500; i++) {
            assert_int_equal(wal_owner_step(&scene->owner), 0);
            wal_stats(scene->owner.wal, &stats);
            assert_true(stats.files <= 10);
        }
        assert_true(scene->owner.checkpoints > 30);
        wal_owner_close(&scene->owner);
        open_well(scene);
        end(scene);
    }
}

CLAIMS_MAIN(NULL, NULL)
