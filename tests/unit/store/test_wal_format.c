/* The stored form of the log's files: which records have a check of their own; other formats. */
#include "store/wal_private.h"
#include "test_wal_rig.h"

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

static void only_records_read_by_place_have_a_checksum(void **unused)
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

static void rejects_unknown_formats(void **unused)
{
    (void)unused;
    for (uint32_t format = 0; format <= 2; format += 2) {
        struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

        open_well(scene);
        die(scene, SIM_DROP_UNSYNCED);
        set_format(scene, format);
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
        end(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_records_read_by_place_have_a_checksum),
        cmocka_unit_test(a_remembered_end_is_read_by_its_place_and_judged),
        cmocka_unit_test(rejects_unknown_formats),
    };

    return cmocka_run_group_tests_name("wal_format", tests, NULL, NULL);
}
