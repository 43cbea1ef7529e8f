/* Every call to the disk, and every allocation, fails once while fsck looks and while it mends:
 * what is damaged is never called clean, and what could not be mended is mended by the next. */
#include "fsck_rig.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/stat.h>

/* ---- a disk that fails: these stand before the system's own ---- */

static int64_t calls_left = -1; /* below 0: none fails */
static int64_t failed;

static bool fails(void)
{
    if (calls_left < 0 || calls_left-- > 0)
        return false;
    failed++;
    errno = EIO;
    return true;
}

static void *real(const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);

    if (!at)
        abort();
    return at;
}

#define STANDS_BEFORE(NAME, RESULT, TAKES, GIVES)                                                  \
    RESULT faulty_##NAME TAKES __asm__(#NAME);                                                     \
    RESULT faulty_##NAME TAKES                                                                     \
    {                                                                                              \
        static RESULT(*next) TAKES;                                                                \
        if (!next)                                                                                 \
            *(void **)&next = real(#NAME);                                                         \
        return fails() ? -1 : next GIVES;                                                          \
    }

STANDS_BEFORE(pread, ssize_t, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
STANDS_BEFORE(pread64, ssize_t, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))
STANDS_BEFORE(pwrite, ssize_t, (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(pwrite64, ssize_t, (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(fdatasync, int, (int fd), (fd))
STANDS_BEFORE(fsync, int, (int fd), (fd))
STANDS_BEFORE(rename, int, (const char *from, const char *to), (from, to))
STANDS_BEFORE(fstat, int, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(fstat64, int, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(open, int, (const char *path, int flags, mode_t mode), (path, flags, mode))
STANDS_BEFORE(open64, int, (const char *path, int flags, mode_t mode), (path, flags, mode))

/* The linker puts these before the house's calls (tests/CMakeLists.txt). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    return fails() ? NULL : __real_realloc(at, bytes);
}

/* ---- claims ---- */

enum { CALLS_MAX = 4000 };

/* Whether it came to its end before the call that was to fail. */
static bool look_with_fault(int64_t call, int *result)
{
    failed = 0;
    calls_left = call;
    *result = fsck_run(scene.dir, &scene.report);
    calls_left = -1;
    if (*result < 0)
        assert_true(*scene.report.error != '\0');
    return failed == 0;
}

static void damage_is_never_called_clean_whatever_the_disk_says(void **state)
{
    bool is_through = false;
    int result;

    (void)state;
    flip("00000002.run", scene.second_at + 30);
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call++) {
        is_through = look_with_fault(call, &result);
        if (result == 0 && scene.report.finding_count == 0)
            fail_msg("clean, though call %ld failed", (long)call);
    }
    assert_true(is_through);
}

static void looking_with_a_failing_disk_leaves_a_sound_shard_sound(void **state)
{
    bool is_through = false;
    int result;

    (void)state;
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call++)
        is_through = look_with_fault(call, &result);
    assert_true(is_through);
    expect_clean();
    assert_int_equal(scene.report.shard[0].far, 18);
}

/* Each time from the same damage. Whether the repair fails or not, the next one ends it. */
static void mend_with_faults(void (*damage)(void), bool accept_loss, unsigned stride)
{
    bool is_through = false;

    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride) {
        const struct fsck_options options = {.repair = true, .accept_loss = accept_loss};
        int result;

        assert_int_equal(make_scene(NULL), 0);
        damage();
        failed = 0;
        calls_left = call;
        result = fsck_run_with(scene.dir, &options, &scene.report);
        calls_left = -1;
        is_through = failed == 0;
        assert_true(result == 0 || *scene.report.error);
        repair(accept_loss);
        expect_clean();
        if (!accept_loss) /* else what could not be read that time is given up, too */
            assert_int_equal(scene.report.shard[0].far, 18);
        assert_true(scene.report.shard[0].far > 0);
        remove_scene(NULL);
    }
    assert_true(is_through);
}

static void lose_a_table(void)
{
    remove_file("00000002.keys");
}

static void break_a_record(void)
{
    flip("00000002.run", scene.second_at + 30);
}

static void a_repair_that_the_disk_interrupts_is_made_by_the_next(void **state)
{
    (void)state;
    mend_with_faults(lose_a_table, false, 5);
}

static void giving_up_a_job_that_the_disk_interrupts_is_done_by_the_next(void **state)
{
    (void)state;
    mend_with_faults(break_a_record, true, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damage_is_never_called_clean_whatever_the_disk_says,
                                        make_scene, remove_scene),
        cmocka_unit_test_setup_teardown(looking_with_a_failing_disk_leaves_a_sound_shard_sound,
                                        make_scene, remove_scene),
        cmocka_unit_test(a_repair_that_the_disk_interrupts_is_made_by_the_next),
        cmocka_unit_test(giving_up_a_job_that_the_disk_interrupts_is_done_by_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
