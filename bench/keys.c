/*
 * How long it takes to know that a key is new (16 filters of 6 million hashes each), to write,
 * merge and open tables of keys, and to find one in them. The tables lie in the directory given, by
 * default /var/tmp; 800 MB are needed.
 */
#include "store/keys.h"
#include "base/random.h"

#include "measure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILTERS = 16, HASHES = 6000000, QUESTIONS = 2000000, TABLES = 8, ENTRIES = 2000000 };

static void insist(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "cannot %s\n", what);
        exit(1);
    }
}

/* ---- filters ---- */

static void fill(struct filter *filter, uint64_t number)
{
    struct random random = {.state = number << 48};
    int64_t since_ns = measure_ns();

    insist(filter_init(filter, HASHES), "take memory for a filter");
    for (int i = 0; i < HASHES; i++)
        filter_put(filter, random_next(&random));
    if (number == 0)
        measure_print("filter_put, hashes in no order", HASHES, since_ns);
}

static void ask_filters(const struct filter *filters, int count)
{
    struct random random = {.state = 99};
    uint64_t wrong = 0;
    int64_t since_ns = measure_ns();
    char label[64];

    for (int i = 0; i < QUESTIONS; i++) {
        uint64_t hash = random_next(&random);

        for (int f = 0; f < count; f++)
            filter_prefetch(&filters[f], hash);
        for (int f = 0; f < count; f++)
            wrong += filter_maybe(&filters[f], hash);
    }
    snprintf(label, sizeof label, "is it new? asked of %d filters", count);
    measure_print(label, QUESTIONS, since_ns);
    printf("  false maybe: %.4f %% a filter\n", 100.0 * (double)wrong / QUESTIONS / count);
}

/* Asks several questions ahead, like the batches of a server: the next ones are in flight meanwhile. */
static void ask_ahead(const struct filter *filters, int count)
{
    enum { AHEAD = 8 };
    struct random random = {.state = 98}, ahead = random;
    uint64_t maybe = 0;
    int64_t since_ns = measure_ns();
    char label[64];

    for (int i = 0; i < QUESTIONS + AHEAD; i++) {
        uint64_t hash = random_next(&ahead);

        for (int f = 0; f < count; f++)
            filter_prefetch(&filters[f], hash);
        if (i < AHEAD)
            continue;
        hash = random_next(&random);
        for (int f = 0; f < count; f++)
            maybe += filter_maybe(&filters[f], hash);
    }
    snprintf(label, sizeof label, "the same, %d jobs ahead", AHEAD);
    measure_print(label, QUESTIONS, since_ns);
    insist(maybe < (uint64_t)QUESTIONS, "trust these filters");
}

static void run_filters(void)
{
    struct filter filters[FILTERS];

    for (uint64_t i = 0; i < FILTERS; i++)
        fill(&filters[i], i);
    ask_filters(filters, FILTERS);
    ask_ahead(filters, FILTERS);
    for (int i = 0; i < FILTERS; i++)
        filter_fini(&filters[i]);
}

/* ---- tables ---- */

static int by_hash(const void *a, const void *b)
{
    const struct keys_entry *one = a, *other = b;

    return one->hash < other->hash ? -1 : one->hash > other->hash;
}

static struct keys_entry *make_entries(uint32_t number)
{
    struct keys_entry *entries = malloc(ENTRIES * sizeof *entries);
    struct random random = {.state = number};

    insist(entries, "take memory");
    for (uint32_t i = 0; i < ENTRIES; i++)
        entries[i] = (struct keys_entry){.hash = random_next(&random), .run = number, .slot = i};
    qsort(entries, ENTRIES, sizeof *entries, by_hash);
    return entries;
}

static struct keys *open_table(const char *dir, uint32_t number)
{
    struct keys *keys;
    char error[300];

    if (keys_open(&fs_posix, dir, number, 1, &keys, error, sizeof error) == 0)
        return keys;
    fprintf(stderr, "%s\n", error);
    exit(1);
}

static void write_table(const char *dir, uint32_t number)
{
    const struct keys_writing writing = {
        .fs = &fs_posix, .dir = dir, .number = number, .seed = 1, .entries_max = ENTRIES};
    struct keys_entry *entries = make_entries(number);
    struct keys_writer *writer;
    int64_t since_ns = measure_ns();

    insist(keys_writer_new(&writing, &writer) == 0, "make a table");
    for (size_t i = 0; i < ENTRIES; i++)
        insist(keys_writer_add(writer, &entries[i]) == 0, "write a table");
    insist(keys_writer_finish(writer) == 0, "finish a table");
    if (number == 1)
        measure_print("write a table, an entry", ENTRIES, since_ns);
    free(entries);
}

static bool keeps_all(void *ctx, const struct keys_entry *entry)
{
    (void)ctx, (void)entry;
    return true;
}

static void forget_cached(const char *dir, uint32_t number)
{
    char name[32], path[4096];
    int fd;

    keys_file_name(number, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    insist(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "drop a file's cache");
    close(fd);
}

static void find(const char *dir, const struct keys *keys, int count, const char *label)
{
    struct random random = {.state = 3}; /* the hashes of table 3 */
    struct keys_entry found;
    int64_t since_ns;

    forget_cached(dir, keys_number(keys));
    since_ns = measure_ns();
    for (int i = 0; i < count; i++)
        insist(keys_find(keys, random_next(&random), true, &found, 1) == 1, "find a key");
    measure_print(label, (size_t)count, since_ns);
}

static void merge(const char *dir)
{
    const struct keys_writing writing = {.fs = &fs_posix,
                                         .dir = dir,
                                         .number = TABLES + 1,
                                         .seed = 1,
                                         .entries_max = (uint64_t)TABLES * ENTRIES};
    struct keys *tables[TABLES];
    struct keys_merger *merger;
    int64_t since_ns;

    for (uint32_t i = 0; i < TABLES; i++)
        tables[i] = open_table(dir, i + 1);
    since_ns = measure_ns();
    insist(keys_merger_new(&writing, tables, TABLES, keeps_all, NULL, &merger) == 0 &&
               keys_merger_step(merger, UINT64_MAX) == 0,
           "merge");
    measure_print("merge 8 tables, an entry", keys_merger_kept(merger), since_ns);
    keys_merger_free(merger);
    for (uint32_t i = 0; i < TABLES; i++)
        keys_close(tables[i]);
}

static void run_merged(const char *dir)
{
    struct keys *keys = open_table(dir, TABLES + 1);
    int64_t since_ns;

    printf("  %.2f bytes an entry on the disk\n",
           (double)keys_file_bytes(keys) / (double)keys_count(keys));
    find(dir, keys, 500, "find by value, from the disk");
    forget_cached(dir, TABLES + 1);
    since_ns = measure_ns();
    insist(keys_load_filter(keys) == 0, "read a filter");
    measure_print("read a filter, an entry", keys_count(keys), since_ns);
    find(dir, keys, 500, "find by fences, from the disk");
    keys_close(keys);
}

static void remove_tables(const char *dir)
{
    char name[32], path[4096];

    for (uint32_t i = 1; i <= TABLES + 1; i++) {
        keys_file_name(i, name);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        unlink(path);
    }
    rmdir(dir);
}

int main(int argc, char **argv)
{
    char dir[4000];

    snprintf(dir, sizeof dir, "%s/tarry-keys-XXXXXX", argc > 1 ? argv[1] : "/var/tmp");
    run_filters();
    insist(mkdtemp(dir), "make a directory");
    for (uint32_t i = 1; i <= TABLES; i++)
        write_table(dir, i);
    merge(dir);
    run_merged(dir);
    remove_tables(dir);
    return 0;
}
