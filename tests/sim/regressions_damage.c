/* Bits that flip in what was synced long ago. */
#include "regressions.h"

/* Checks that every job comes unchanged, or that the damage is reported. */
static void open_damaged(const struct sim_fs *whole, const char *path, int64_t at)
{
    enum { JOBS = 300 };
    uint32_t harmed = 0;

    sim_fs_clone(&rig.disk, whole, 3);
    sim_fs_damage(&rig.disk, path, at, (unsigned char)(1 << at % 8));
    machine_log_clear();
    rig_power_up(1700000000000 + HOUR_MS);
    if (world_open(&rig.world)) {
        assert_true(strlen(rig.world.error) > 0);
        rig.reported++;
    } else {
        for (uint32_t id = 0; id < JOBS; id++)
            if (!rig_get(id) || !rig.body_is_right[0] || rig.ids[0] != id) {
                assert_int_equal(rig.status,
                                 QUEUE_UNAVAILABLE); /* never a wrong or a missing one */
                harmed++;
            }
        if (harmed && !machine_log_has("cannot be") && !machine_log_has("damaged"))
            fail_msg("%s: byte %lld: %u jobs are gone and nothing was logged", path, (long long)at,
                     harmed);
        if (harmed > rig.harmed_most)
            rig.harmed_most = harmed;
        rig.reported += harmed != 0;
    }
    rig_end();
}

/* The catalog exists twice: damage to one of them is repaired without a report. */
static void flip_bits_of(const struct sim_fs *whole, const char *section, bool is_reported)
{
    enum { PLACES = 40 };

    rig.reported = rig.harmed_most = 0;
    for (int i = 0; i < whole->now.count; i++) {
        const struct sim_entry *entry = &whole->now.entries[i];
        int64_t size = entry->inode->size;

        if (size > 0 && strstr(entry->name, section))
            for (int64_t place = 0; place < PLACES; place++)
                open_damaged(whole, entry->name, size * place / PLACES);
    }
    assert_int_equal(rig.reported > 0, is_reported);
}

/* Flips a bit in one job's body. */
static void flip_a_bit_of_a_body(struct sim_fs *whole)
{
    for (int i = 0; i < whole->now.count; i++) {
        const char *name = whole->now.entries[i].name;
        int64_t size;
        const char *bytes = sim_fs_bytes(whole, name, &size);
        const char *body =
            strstr(name, ".run") ? memmem(bytes, (size_t)size, "<body of 77>", 12) : NULL;

        if (!body)
            continue;
        rig.reported = rig.harmed_most = 0;
        open_damaged(whole, name, body - bytes + 100);
        assert_int_equal(rig.harmed_most, 1);
        return;
    }
    fail_msg("the job is in no run");
}

void test_a_flipped_bit_is_reported_and_harms_at_most_one_job(void **state)
{
    static struct sim_fs whole;
    (void)state;

    rig_begin(&rig_small, 700);
    rig_push(0, 300, 1000LL * HOUR_MS, 0);
    rig_age();
    assert_int_equal(rig_far_jobs(), 300);
    sim_fs_clone(&whole, &rig.disk, 2);
    sim_fs_crash(&whole, SIM_DROP_UNSYNCED);
    rig_end();
    flip_bits_of(&whole, ".run", true);
    flip_bits_of(&whole, ".keys", true);
    flip_bits_of(&whole, "CATALOG-", false);
    flip_a_bit_of_a_body(&whole);
    sim_fs_fini(&whole);
}
