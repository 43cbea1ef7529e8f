/* What fsck says of a run whose slots are not what the catalog takes them for, and of what nobody
 * reads in one. */
#include "fsck_rig.h"

/* ---- what nobody reads ---- */

static void a_byte_that_nobody_reads_is_told_and_costs_nothing(void **state)
{
    (void)state;
    flip("00000001.run", 100);   /* the header's rest */
    flip("00000001.run", 8191);  /* behind the last record */
    flip("00000002.run", -5000); /* behind the topics */
    expect_clean();
    assert_int_equal(scene.report.note_count, 3);
    assert_non_null(strstr(scene.report.note[0].text, "run/00000001.run, byte 100: "));
    assert_non_null(strstr(scene.report.note[1].text, "run/00000001.run, byte 8191: "));
    assert_non_null(strstr(scene.report.note[2].text, "run/00000002.run, byte "));
    assert_int_equal(scene.report.shard[0].far, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(TEST) cmocka_unit_test_setup_teardown(TEST, make_scene, remove_scene)
        ROW(a_byte_that_nobody_reads_is_told_and_costs_nothing),
#undef ROW
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
