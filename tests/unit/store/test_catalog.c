#include "base/hash.h"
#include "store/alive.h"
#include "store/catalog.h"
#include "support/sim_fs.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const DIR = "s/run";

/* ---- catalogs by chance ---- */

static char *random_bits(struct random *random, uint32_t slots, uint32_t *count)
{
    char *bits = calloc(1, alive_bytes(slots));

    assert_non_null(bits);
    *count = 0;
    for (uint32_t i = 0; i < slots; i++)
        if (random_below(random, 3)) {
            bits[i / 8] = (char)(bits[i / 8] | 1 << i % 8);
            ++*count;
        }
    return bits;
}

static struct slice random_name(struct random *random)
{
    size_t len = 1 + random_below(random, JOB_TOPIC_BYTES_MAX);
    char *name = malloc(len);

    assert_non_null(name);
    for (size_t i = 0; i < len; i++)
        name[i] = (char)('a' + random_below(random, 26));
    return slice_make(name, len);
}

static void random_runs(struct random *random, struct catalog *out)
{
    out->next_run = 1;
    out->run_count = (uint32_t)random_below(random, 5);
    out->runs = calloc(out->run_count + 1, sizeof *out->runs);
    assert_non_null(out->runs);
    for (uint32_t i = 0; i < out->run_count; i++) {
        struct catalog_run *run = &out->runs[i];

        run->number = out->next_run + (uint32_t)random_below(random, 3);
        out->next_run = run->number + 1;
        run->slots = 1 + (uint32_t)random_below(random, 300);
        run->record_bytes = random_next(random);
        run->alive = random_bits(random, run->slots, &run->alive_count);
    }
}

static struct catalog random_catalog(struct random *random)
{
    struct catalog out = {.generation = 1 + random_below(random, 1000),
                          .seed = 1 + random_below(random, 1000),
                          .next_keys = 1,
                          .log_first = (uint32_t)random_next(random),
                          .log_first_sequence = random_next(random),
                          .inner_ms = (int64_t)random_below(random, 1u << 30),
                          .wall_ms = (int64_t)random_below(random, 1u << 30)};

    random_runs(random, &out);
    out.key_count = (uint32_t)random_below(random, 4);
    out.keys = calloc(out.key_count + 1, sizeof *out.keys);
    out.topic_count = (uint32_t)random_below(random, 4);
    out.topics = calloc(out.topic_count + 1, sizeof *out.topics);
    assert_true(out.keys && out.topics);
    for (uint32_t i = 0; i < out.key_count; i++)
        out.keys[i] = out.next_keys++;
    for (uint32_t i = 0; i < out.topic_count; i++) {
        out.topics[i].name = random_name(random);
        for (size_t section = 0; section < SECTIONS; section++)
            out.topics[i].stored[section] = random_next(random);
        out.topics[i].dead_bytes = random_next(random);
    }
    return out;
}

static void encode(const struct catalog *catalog, struct buffer *out)
{
    buffer_init(out, 1 << 20);
    assert_true(catalog_encode(catalog, out));
}

static void same(const struct catalog *a, const struct catalog *b)
{
    struct buffer x, y;

    encode(a, &x);
    encode(b, &y);
    assert_true(slice_equals(buffer_slice(&x), buffer_slice(&y)));
    buffer_fini(&x);
    buffer_fini(&y);
}

static void set_sum(struct buffer *bytes)
{
    uint64_t sum = hash_64(bytes->at, bytes->len - 8);

    memcpy(bytes->at + bytes->len - 8, &sum, 8);
}

/* ---- the form ---- */

CLAIM(a_written_catalog_is_read_again)
{
    struct random random = seed_random("a_written_catalog_is_read_again");

    for (int i = 0; i < 200; i++) {
        struct catalog catalog = random_catalog(&random), again = {0};
        struct buffer bytes;

        encode(&catalog, &bytes);
        assert_int_equal(catalog_decode(buffer_slice(&bytes), &again), 0);
        same(&catalog, &again);
        for (uint32_t run = 0; run < catalog.run_count; run++) {
            assert_int_equal(catalog.runs[run].number, again.runs[run].number);
            assert_int_equal(catalog.runs[run].record_bytes, again.runs[run].record_bytes);
            assert_memory_equal(catalog.runs[run].alive, again.runs[run].alive,
                                alive_bytes(catalog.runs[run].slots));
        }
        assert_true(catalog.log_first_sequence == again.log_first_sequence);
        assert_true(catalog.wall_ms == again.wall_ms && catalog.seed == again.seed);
        buffer_fini(&bytes);
        catalog_fini(&catalog);
        catalog_fini(&again);
    }
}

CLAIM(any_damage_is_seen)
{
    struct random random = seed_random("any_damage_is_seen");
    struct catalog catalog = random_catalog(&random), again;
    struct buffer bytes;

    encode(&catalog, &bytes);
    for (size_t i = 0; i < bytes.len; i++) {
        char was = bytes.at[i];

        bytes.at[i] = (char)(was ^ (1 << random_below(&random, 8)));
        assert_int_equal(catalog_decode(buffer_slice(&bytes), &again), -EBADMSG);
        assert_int_equal(catalog_check(buffer_slice(&bytes)), -EBADMSG);
        bytes.at[i] = was;
        assert_int_equal(catalog_decode(slice_make(bytes.at, i), &again), -EBADMSG);
    }
    buffer_fini(&bytes);
    catalog_fini(&catalog);
}

/* Even with a valid checksum, impossible catalogs are rejected, and accepted ones are in their written form. */
CLAIM(a_right_checksum_is_not_enough)
{
    struct random random = seed_random("a_right_checksum_is_not_enough");

    for (int i = 0; i < 3000; i++) {
        struct catalog catalog = random_catalog(&random), again;
        struct buffer bytes, second;
        int result;

        encode(&catalog, &bytes);
        bytes.at[20 + random_below(&random, bytes.len - 28)] ^=
            (char)(1 << random_below(&random, 8));
        set_sum(&bytes);
        result = catalog_decode(buffer_slice(&bytes), &again);
        assert_true(result == 0 || result == -EBADMSG);
        assert_int_equal(catalog_check(buffer_slice(&bytes)), result);
        if (result == 0) {
            encode(&again, &second);
            assert_true(slice_equals(buffer_slice(&bytes), buffer_slice(&second)));
            buffer_fini(&second);
            catalog_fini(&again);
        }
        buffer_fini(&bytes);
        catalog_fini(&catalog);
    }
}

/* ---- the file ---- */

static void write_well(struct sim_fs *sim, const struct catalog *catalog)
{
    bool fatal;

    assert_int_equal(catalog_write(&sim->fs, DIR, catalog, &fatal), 0);
}

static int read_back(struct sim_fs *sim, struct catalog *out, uint32_t *damaged)
{
    char error[256] = "";
    int result = catalog_read(&sim->fs, DIR, out, damaged, error, sizeof error);

    assert_true(result == 0 || *error);
    return result;
}

static void make_disk(struct sim_fs *sim, uint64_t seed)
{
    sim_fs_init(sim, seed);
    assert_int_equal(sim->fs.ops->mkdir(sim, "s", 0700), 0);
    assert_int_equal(sim->fs.ops->mkdir(sim, DIR, 0700), 0);
}

CLAIM(an_unreadable_catalog_replaces_nothing)
{
    static struct sim_fs sim;
    struct catalog_topic topic = {.name = slice_of("no\nname")};
    struct catalog good = {.generation = 1, .seed = 5, .next_run = 1, .next_keys = 9};
    struct catalog bad = good, found;
    uint32_t damaged;
    bool fatal = true;

    make_disk(&sim, 1);
    write_well(&sim, &good);
    bad.generation = 2;
    bad.topics = &topic;
    bad.topic_count = 1;
    assert_int_equal(catalog_write(&sim.fs, DIR, &bad, &fatal), -EBADMSG);
    assert_false(fatal);
    assert_int_equal(read_back(&sim, &found, &damaged), 0);
    assert_int_equal(found.generation, 1);
    catalog_fini(&found);
    sim_fs_fini(&sim);
}

CLAIM(a_newer_format_is_refused_by_name)
{
    static struct sim_fs sim;
    struct random random = seed_random("a_newer_format_is_refused_by_name");
    struct catalog old = random_catalog(&random), again;
    struct buffer bytes;
    char error[256], *file;
    int64_t size;
    uint32_t damaged;

    make_disk(&sim, 1);
    old.generation = 7;
    write_well(&sim, &old);
    file = sim_fs_bytes(&sim, "s/run/CATALOG-00000007", &size);
    buffer_init(&bytes, 1 << 20);
    buffer_append(&bytes, file, (size_t)size);
    bytes.at[8]++;
    set_sum(&bytes);
    memcpy(file, bytes.at, (size_t)size);
    assert_int_equal(catalog_read(&sim.fs, DIR, &again, &damaged, error, sizeof error),
                     -EPROTONOSUPPORT);
    assert_non_null(strstr(error, "CATALOG-00000007"));
    assert_non_null(strstr(error, "newer"));
    buffer_fini(&bytes);
    catalog_fini(&old);
    sim_fs_fini(&sim);
}

CLAIM(file_names_are_recognised)
{
    char name[32];

    for (uint64_t generation = 1; generation < 1000000000000; generation *= 7) {
        catalog_file_name(generation, name);
        assert_true(catalog_file_generation(name) == generation);
    }
    assert_int_equal(catalog_file_generation("CATALOG-00000000"), 0);
    assert_int_equal(catalog_file_generation("CATALOG-7"), 0);
    assert_int_equal(catalog_file_generation("CATALOG-00000007x"), 0);
    assert_int_equal(catalog_file_generation("CATALOG.tmp"), 0);
}

CLAIM(only_the_newest_is_left)
{
    static struct sim_fs sim;
    struct random random = seed_random("only_the_newest_is_left");
    struct catalog again;
    uint32_t damaged;

    make_disk(&sim, 1);
    assert_int_equal(read_back(&sim, &again, &damaged), -ENOENT);
    for (uint64_t generation = 1; generation < 20; generation++) {
        struct catalog catalog = random_catalog(&random);

        catalog.generation = generation;
        write_well(&sim, &catalog);
        assert_int_equal(read_back(&sim, &again, &damaged), 0);
        same(&catalog, &again);
        assert_int_equal(sim.now.count, 2); /* in two copies */
        catalog_fini(&again);
        catalog_fini(&catalog);
    }
    sim_fs_fini(&sim);
}

CLAIM(a_damaged_catalog_counts_only_without_an_older_one)
{
    static struct sim_fs sim;
    struct random random = seed_random("a_damaged_catalog_counts_only_without_an_older_one");
    struct catalog old = random_catalog(&random), next = random_catalog(&random), again;
    uint32_t damaged;

    make_disk(&sim, 1);
    next.generation = 4;
    write_well(&sim, &next);
    old.generation = 3; /* a crash kept it from being removed */
    write_well(&sim, &old);
    assert_int_equal(read_back(&sim, &again, &damaged), 0);
    assert_int_equal(damaged, 0);
    same(&next, &again);
    catalog_fini(&again);
    sim_fs_damage(&sim, "s/run/CATALOG-00000004", 30, 1);
    assert_int_equal(read_back(&sim, &again, &damaged), 0);
    assert_int_equal(damaged, 0);
    same(&next, &again); /* its second copy */
    catalog_fini(&again);
    sim_fs_damage(&sim, "s/run/CATALOG-00000004.2", 30, 1);
    assert_int_equal(read_back(&sim, &again, &damaged), 0);
    assert_int_equal(damaged, 1);
    same(&old, &again);
    catalog_fini(&again);
    sim_fs_damage(&sim, "s/run/CATALOG-00000003", 30, 1);
    sim_fs_damage(&sim, "s/run/CATALOG-00000003.2", 30, 1);
    assert_int_equal(read_back(&sim, &again, &damaged), -EBADMSG);
    catalog_fini(&old);
    catalog_fini(&next);
    sim_fs_fini(&sim);
}

/* Old or new after a crash at any I/O, and new if the write succeeded. */
CLAIM(a_crash_leaves_the_old_or_the_new)
{
    struct random random = seed_random("a_crash_leaves_the_old_or_the_new");
    struct catalog old = random_catalog(&random), next = random_catalog(&random);

    old.generation = 8;
    next.generation = 9;
    for (int damage = 1; damage <= SIM_DAMAGES; damage++)
        for (uint64_t crash = 1, more = 1; more; crash++) {
            static struct sim_fs sim;
            struct catalog again;
            uint32_t damaged;
            bool fatal;
            int result;

            make_disk(&sim, random_next(&random));
            write_well(&sim, &old);
            sim.crash_at = sim.ios + crash;
            result = catalog_write(&sim.fs, DIR, &next, &fatal);
            more = sim.is_down;
            sim_fs_crash(&sim, (enum sim_damage)damage);
            assert_int_equal(read_back(&sim, &again, &damaged), 0);
            assert_int_equal(damaged, 0);
            if (result == 0 || again.generation == 9)
                same(&next, &again);
            else
                same(&old, &again);
            catalog_fini(&again);
            sim_fs_fini(&sim);
        }
    catalog_fini(&old);
    catalog_fini(&next);
}

/* Writes the catalog while its nth I/O fails. Returns false if it has fewer. */
static bool write_with_fault(const struct catalog *old, const struct catalog *next, uint64_t disk,
                             uint64_t nth, bool is_for_ever, bool *fatal)
{
    static struct sim_fs sim;
    struct catalog again;
    uint32_t damaged;
    bool has_failed;
    int result;

    make_disk(&sim, disk);
    write_well(&sim, old);
    sim.fail_at = sim.ios + nth;
    sim.fail_for_ever = is_for_ever;
    sim.fail_errno = EIO;
    result = catalog_write(&sim.fs, DIR, next, fatal);
    has_failed = sim.ios >= sim.fail_at;
    sim.fail_at = 0;
    assert_true(result == 0 || result == -EIO);
    assert_int_equal(read_back(&sim, &again, &damaged), 0);
    if (!*fatal)
        same(result == 0 ? next : old, &again);
    catalog_fini(&again);
    if (!*fatal) { /* and it can be tried again */
        write_well(&sim, next);
        assert_int_equal(read_back(&sim, &again, &damaged), 0);
        same(next, &again);
        catalog_fini(&again);
    }
    sim_fs_fini(&sim);
    return has_failed;
}

CLAIM(a_failed_io_is_fatal_only_if_the_outcome_is_unknown)
{
    struct random random = seed_random("a_failed_io_is_fatal_only_if_the_outcome_is_unknown");
    struct catalog old = random_catalog(&random), next = random_catalog(&random);

    old.generation = 8;
    next.generation = 9;
    for (int i = 0; i < 2; i++) {
        const uint64_t disk = random_next(&random); /* the same until the fault */
        int fatals = 0;
        bool fatal;

        for (uint64_t nth = 1; write_with_fault(&old, &next, disk, nth, i == 1, &fatal); nth++)
            fatals += fatal;
        assert_int_equal(fatals, 1); /* the sync of the directory after the rename */
    }
    catalog_fini(&old);
    catalog_fini(&next);
}

CLAIMS_MAIN(NULL, NULL)
