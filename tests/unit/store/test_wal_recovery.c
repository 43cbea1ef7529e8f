#include "test_wal_rig.h"
#include "unit/claim.h"

/* ---- torn tails ---- */

CLAIM(torn_tail_gives_back_all_batches_before_it)
{
    struct random random = {.state = 1};

    for (int garbage = 0; garbage < 2; garbage++) {
        for (uint32_t torn_from = 0, last_bytes = 1; torn_from < last_bytes; torn_from++) {
            struct scene *scene = start(WAL_SYNC_ALWAYS, 7);
            uint32_t begins[5], ends[5];
            char *bytes;

            open_well(scene);
            push_batches(scene, 5, begins, ends);
            die(scene, SIM_KEEP_ALL);
            last_bytes = ends[4] - begins[4];
            bytes = sim_fs_bytes(&scene->sim, FIRST, NULL);
            for (uint32_t at = begins[4] + torn_from; at < ends[4]; at++)
                bytes[at] =
                    garbage ? (char)(bytes[at] ^ (int)(1 + random_below(&random, 255))) : '\0';
            assert_int_equal(wal_owner_open(&scene->owner, 4), 0);
            assert_int_equal(wal_open_sequence(scene->owner.wal), 5);
            assert_int_equal(scene->owner.found.records, 4);
            assert_int_equal(scene->owner.found.torn_bytes,
                             torn_from >= HEAD_BYTES ? last_bytes : 0);
            /* It continues there. */
            wal_owner_push(&scene->owner, 10);
            assert_int_equal(wal_owner_commit(&scene->owner), 0);
            die(scene, SIM_DROP_UNSYNCED);
            open_well(scene);
            assert_int_equal(scene->owner.found.records, 5);
            end(scene);
        }
    }
}

/* ---- damage ---- */

CLAIM(flipped_bit_in_an_earlier_batch_is_refused_with_its_place)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 7);
    uint32_t begins[5], ends[5];

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    die(scene, SIM_KEEP_ALL);
    for (uint32_t batch = 0; batch < 4; batch++) {
        for (uint32_t at = begins[batch]; at < ends[batch]; at++) {
            char place[64];

            sim_fs_damage(&scene->sim, FIRST, at, (unsigned char)(1u << at % 8));
            snprintf(place, sizeof place, "00000001.log' is damaged at byte %u:", begins[batch]);
            assert_int_equal(wal_owner_open(&scene->owner, 5), -EBADMSG);
            assert_non_null(strstr(scene->owner.error, place));
            sim_fs_damage(&scene->sim, FIRST, at, (unsigned char)(1u << at % 8));
        }
    }
    open_well(scene);
    assert_int_equal(scene->owner.found.records, 5);
    end(scene);
}

CLAIM(damage_in_a_later_record_of_a_closed_log_is_refused)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 7);
    uint32_t begins[5], ends[5];

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    wal_owner_close(&scene->owner);
    /* Even the last batch: closing wrote into the manifest that it was synced. */
    sim_fs_damage(&scene->sim, FIRST, ends[4] - 1, 1);
    assert_int_equal(wal_owner_open(&scene->owner, 5), -EBADMSG);
    assert_non_null(strstr(scene->owner.error, "that was stored safely"));
    sim_fs_damage(&scene->sim, FIRST, ends[4] - 1, 1);
    open_well(scene);
    end(scene);
}

CLAIM(refusing_changes_no_byte)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 7);
    uint32_t begins[5], ends[5];
    char *before;
    int64_t size;

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    die(scene, SIM_KEEP_ALL);
    sim_fs_damage(&scene->sim, FIRST, begins[2] + 100, 1);
    before = malloc(FILE_BYTES);
    assert_non_null(before);
    memcpy(before, sim_fs_bytes(&scene->sim, FIRST, &size), FILE_BYTES);
    assert_int_equal(size, FILE_BYTES);
    assert_int_equal(wal_owner_open(&scene->owner, 5), -EBADMSG);
    assert_memory_equal(before, sim_fs_bytes(&scene->sim, FIRST, NULL), FILE_BYTES);
    free(before);
    end(scene);
}

CLAIM(missing_file_is_refused_by_name)
{
    for (int missing = 1; missing <= 4; missing++) {
        struct scene *scene = several_files();
        char path[64], words[64];

        snprintf(path, sizeof path, "shard/wal/%08d.log", missing);
        snprintf(words, sizeof words, "log file %d is missing", missing);
        assert_int_equal(scene->sim.fs.ops->unlink(&scene->sim, path), 0);
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
        assert_non_null(strstr(scene->owner.error, words));
        end(scene);
    }
}

CLAIM(damaged_file_header_is_refused)
{
    for (int at = 0; at < 4096; at += 5) {
        struct scene *scene = several_files();

        sim_fs_damage(&scene->sim, "shard/wal/00000002.log", at, 4);
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
        assert_non_null(strstr(scene->owner.error, "00000002.log' is damaged at byte 0"));
        end(scene);
        if (at > 60)
            at += 301;
    }
}

CLAIM(a_log_without_a_manifest_is_rejected_and_not_recreated)
{
    struct scene *scene = several_files();

    assert_int_equal(scene->sim.fs.ops->unlink(&scene->sim, MANIFEST), 0);
    assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
    assert_non_null(strstr(scene->owner.error, "no MANIFEST"));
    assert_null(sim_fs_bytes(&scene->sim, MANIFEST, NULL));
    end(scene);
}

CLAIM(one_damaged_copy_of_the_manifest_is_survived_two_are_refused)
{
    for (int at = 0; at < 512; at += 7) {
        struct scene *scene = several_files();
        /* Only one file was begun at a time since the opening: the older copy is the one of making.
         */
        wal_owner_open(&scene->owner, 30);
        die(scene, SIM_KEEP_ALL);
        sim_fs_damage(&scene->sim, MANIFEST, at + 4096 * (at & 1), 2);
        open_well(scene);
        die(scene, SIM_KEEP_ALL);
        sim_fs_damage(&scene->sim, MANIFEST, at, 2);
        sim_fs_damage(&scene->sim, MANIFEST, at + 4096, 2);
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
        assert_non_null(strstr(scene->owner.error, "MANIFEST' is damaged"));
        end(scene);
    }
}

/* ---- what must not come back ---- */

CLAIM(left_over_batches_behind_a_torn_one_never_come_back)
{
    for (int rounds = 1; rounds < 4; rounds++) {
        struct scene *scene = start(WAL_SYNC_NEVER, 7);
        struct wal_owner *owner = &scene->owner;

        open_well(scene);
        for (int i = 0; i < 6; i++) { /* all of one size, not synced */
            wal_owner_push(owner, 100);
            assert_int_equal(wal_owner_commit(owner), 0);
        }
        die(scene, SIM_KEEP_ALL);
        /* Batch 3 did not reach the disk; 4, 5 and 6 did. */
        sim_fs_damage(&scene->sim, FIRST, owner->places[3].at + 20, 0xff);
        assert_int_equal(wal_owner_open(owner, 2), 0);
        assert_int_equal(owner->found.records, 2);
        assert_true(owner->found.torn_bytes > 4 * 172);
        /* Openings that write nothing, and then batches of just the size of those left over. */
        for (int i = 0; i < rounds; i++) {
            die(scene, SIM_KEEP_ALL);
            open_well(scene);
            assert_int_equal(owner->found.records, 2);
        }
        for (uint64_t records = 3; records < 6; records++) {
            wal_owner_push(owner, 100);
            assert_int_equal(wal_owner_commit(owner), 0);
            die(scene, SIM_KEEP_ALL);
            owner->synced_acked = owner->acked;
            open_well(scene);
            assert_int_equal(owner->found.records, records);
        }
        end(scene);
    }
}

/* The disk could not read batch 3 once, and can again: it was served without, so without it stays.
 */
CLAIM(batch_left_out_once_never_comes_back)
{
    struct scene *scene = start(WAL_SYNC_NEVER, 7);
    struct wal_owner *owner = &scene->owner;
    uint32_t begins[5], ends[5];

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    die(scene, SIM_KEEP_ALL);
    sim_fs_damage(&scene->sim, FIRST, begins[2] + 80, 1);
    assert_int_equal(wal_owner_open(owner, 2), 0);
    assert_int_equal(owner->found.records, 2);
    die(scene, SIM_KEEP_ALL);
    sim_fs_damage(&scene->sim, FIRST, begins[2] + 80, 1);
    open_well(scene);
    assert_int_equal(owner->found.records, 2);
    end(scene);
}

/* The batch that replaces a left-over one is in the next file, and the left-over stays where
 * the chain looks first. */
CLAIM(leftover_bytes_at_the_end_of_a_file_are_skipped)
{
    struct scene *scene = start(WAL_SYNC_NEVER, 7);
    struct wal_owner *owner = &scene->owner;
    uint32_t torn;

    open_well(scene);
    wal_owner_upkeep(owner);
    while (owner->jobs == 0 || owner->places[owner->jobs].at < 12000) {
        wal_owner_push(owner, 1000);
        assert_int_equal(wal_owner_commit(owner), 0);
    }
    for (int i = 0; i < 2; i++) {
        wal_owner_push(owner, 100);
        assert_int_equal(wal_owner_commit(owner), 0);
    }
    torn = owner->places[owner->jobs - 1].at;
    die(scene, SIM_KEEP_ALL);
    sim_fs_damage(&scene->sim, FIRST, torn, 1);
    open_well(scene);
    wal_owner_upkeep(owner);
    wal_owner_push(owner, 100);
    assert_int_equal(owner->places[owner->jobs].at, torn);
    assert_int_equal(wal_owner_commit(owner), 0);
    wal_owner_push(owner, 3500);
    assert_int_equal(owner->places[owner->jobs].file, 2);
    assert_int_equal(wal_owner_commit(owner), 0);
    for (int i = 0; i < 3; i++) {
        owner->synced_acked = owner->acked;
        die(scene, SIM_KEEP_ALL);
        open_well(scene);
    }
    end(scene);
}

/* Older files go again and again, with the topic's record of each checkpoint but the last. */
CLAIM(topics_outlive_the_files_they_were_written_to)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 5);
    struct wal_owner *owner = &scene->owner;

    open_well(scene);
    wal_owner_set_topic(owner, 9);
    for (int i = 0; i < 600; i++) {
        wal_owner_push(owner, 900);
        wal_owner_finish(owner, owner->jobs);
        assert_int_equal(wal_owner_commit(owner), 0);
        assert_int_equal(wal_owner_checkpoint(owner, 1), 0);
        assert_int_equal(wal_owner_upkeep(owner), 0);
        if (i % 100 > 50) {
            die(scene, SIM_DROP_UNSYNCED);
            open_well(scene);
            assert_int_equal(owner->topic_value, 9);
        }
    }
    assert_true(owner->checkpoints > 10);
    end(scene);
}

CLAIM(reused_files_never_return_old_records)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 5);
    struct wal_owner *owner = &scene->owner;
    struct wal_stats stats;

    open_well(scene);
    for (int i = 0; i < 400; i++) {
        wal_owner_push(owner, 700);
        wal_owner_finish(owner, owner->jobs);
        assert_int_equal(wal_owner_commit(owner), 0);
        assert_int_equal(wal_owner_checkpoint(owner, 1), 0);
        assert_int_equal(wal_owner_upkeep(owner), 0);
        if (i % 7 == 0) {
            die(scene, SIM_DROP_UNSYNCED);
            open_well(scene);
            assert_int_equal(owner->live, 0);
        }
    }
    wal_stats(owner->wal, &stats);
    assert_true(stats.files <= 4);
    assert_null(sim_fs_bytes(&scene->sim, FIRST, NULL));
    end(scene);
}

CLAIMS_MAIN(NULL, NULL)
