/* Files of the log as versions before wrote them: a check behind every record. */
#include "store/wal_private.h"
#include "test_wal_rig.h"

static uint32_t format_of(struct scene *scene, uint32_t number)
{
    char path[64];
    uint32_t format = 0;
    const char *bytes;

    snprintf(path, sizeof path, "shard/wal/%08u.log", number);
    bytes = sim_fs_bytes(&scene->sim, path, NULL);
    if (bytes)
        memcpy(&format, bytes + 8, sizeof format);
    return format;
}

/* The header of the first file as another version would have written it. */
static void set_format(struct scene *scene, uint32_t format)
{
    struct wal_disk disk = {.seed = scene->owner.options.seed};
    char header[WAL_HEADER_BYTES];

    wal_file_header(&disk, format, 1, FILE_BYTES, 1, header);
    for (int at = 0; at < WAL_HEADER_BYTES; at++) {
        char is = sim_fs_bytes(&scene->sim, FIRST, NULL)[at];

        if (is != header[at])
            sim_fs_damage(&scene->sim, FIRST, at, (unsigned char)(is ^ header[at]));
    }
}

/* An empty log whose first file is of the older format. */
static struct scene *start_old(uint64_t seed)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, seed);

    open_well(scene);
    die(scene, SIM_DROP_UNSYNCED);
    set_format(scene, 1);
    open_well(scene);
    assert_int_equal(format_of(scene, 1), 1);
    return scene;
}

static struct record end_of(uint32_t id, int64_t remember_until_ms)
{
    return (struct record){.kind = RECORD_DONE,
                           .done = {.key = {0, id},
                                    .reason = RECORD_ACKED,
                                    .sequence = id,
                                    .remember_until_ms = remember_until_ms,
                                    .topic = slice_of("t")}};
}

static uint32_t bytes_between(struct wal *wal, const struct record *first)
{
    struct record_place one, two;

    assert_int_equal(wal_has_room(wal, 2 * record_bytes_max(first), WAL_FOR_ANSWER), 0);
    one = wal_append(wal, first);
    two = wal_append(wal, first);
    return two.at - one.at - one.bytes;
}

static const struct record state = {.kind = RECORD_STATE,
                                    .state = {.key = {0, 9}, .state = JOB_DELAYED}};

static void only_what_is_read_by_its_place_has_a_check(void **unused)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    const struct record forgotten = end_of(9, 0), remembered = end_of(9, 1000);
    const struct record topic = {.kind = RECORD_TOPIC,
                                 .topic = {.topic = slice_of("t"), .exists = true}};

    (void)unused;
    open_well(scene);
    assert_int_equal(bytes_between(scene->owner.wal, &state), 0);
    assert_int_equal(bytes_between(scene->owner.wal, &forgotten), 0);
    assert_int_equal(bytes_between(scene->owner.wal, &topic), 0);
    assert_int_equal(bytes_between(scene->owner.wal, &remembered), CHECK_BYTES);
    end(scene);
    scene = start_old(3);
    assert_int_equal(bytes_between(scene->owner.wal, &state), CHECK_BYTES);
    assert_int_equal(bytes_between(scene->owner.wal, &forgotten), CHECK_BYTES);
    end(scene);
}

static void a_remembered_end_is_read_by_its_place_and_judged(void **unused)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    const struct record remembered = end_of(9, 1000);
    struct record decoded;
    struct record_place place;
    struct buffer scratch;
    struct slice bytes;

    (void)unused;
    scene->owner.options.recent_bytes_max = 1;
    open_well(scene);
    assert_int_equal(wal_has_room(scene->owner.wal, 200, WAL_FOR_ANSWER), 0);
    place = wal_append(scene->owner.wal, &remembered);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    buffer_init(&scratch, 1 << 16);
    assert_int_equal(wal_read(scene->owner.wal, place, true, &scratch, &bytes), 0);
    assert_true(record_decode(bytes, &decoded) && decoded.done.remember_until_ms == 1000);
    sim_fs_damage(&scene->sim, FIRST, place.at + 8, 1);
    assert_int_equal(wal_read(scene->owner.wal, place, true, &scratch, &bytes), -EIO);
    buffer_fini(&scratch);
    end(scene);
}

/* Goes on in the old form where the file is old, in the new one in the next. */
static void a_log_of_the_older_format_opens_and_goes_on(void **unused)
{
    (void)unused;
    struct scene *scene = start_old(5);
    struct wal_owner *owner = &scene->owner;

    while (wal_current_file(owner->wal) < 3) {
        wal_owner_push(owner, 300);
        wal_owner_push(owner, 10);
        wal_owner_finish(owner, owner->jobs);
        assert_int_equal(wal_owner_commit(owner), 0);
        assert_int_equal(wal_owner_upkeep(owner), 0);
        die(scene, SIM_DROP_UNSYNCED);
        open_well(scene);
    }
    assert_int_equal(format_of(scene, 1), 1);
    assert_int_equal(format_of(scene, 2), 2);
    assert_true(work(scene, 300));
    wal_want_spares(owner->wal, false);
    assert_int_equal(wal_owner_upkeep(owner), 0);
    assert_int_equal(format_of(scene, 1), 0); /* went, or is another one by now */
    assert_int_equal(format_of(scene, wal_current_file(owner->wal)), 2);
    wal_owner_close(owner);
    open_well(scene);
    end(scene);
}

static void a_format_not_known_yet_is_refused(void **unused)
{
    (void)unused;
    for (uint32_t format = 0; format <= 3; format += 3) {
        struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

        open_well(scene);
        die(scene, SIM_DROP_UNSYNCED);
        set_format(scene, format);
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
        end(scene);
    }
}

static void no_crash_while_the_format_changes_loses_what_was_committed(void **unused)
{
    struct random random = seed_random(__func__);

    (void)unused;
    for (int round = 0; round < 150; round++) {
        struct scene *scene = start_old(random_next(&random));

        for (int i = 0; i < 4; i++) {
            enum sim_damage damage = (enum sim_damage)(1 + random_below(&random, SIM_DAMAGES));

            scene->sim.crash_at = scene->sim.ios + 1 + random_below(&random, 80);
            work(scene, 40);
            die(scene, damage);
            open_well(scene);
        }
        end(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_read_by_its_place_has_a_check),
        cmocka_unit_test(a_remembered_end_is_read_by_its_place_and_judged),
        cmocka_unit_test(a_log_of_the_older_format_opens_and_goes_on),
        cmocka_unit_test(a_format_not_known_yet_is_refused),
        cmocka_unit_test(no_crash_while_the_format_changes_loses_what_was_committed),
    };

    return cmocka_run_group_tests_name("wal_format", tests, NULL, NULL);
}
