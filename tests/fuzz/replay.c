/*
 * replay: runs a fuzz target over files without a fuzzing engine.
 *
 * fuzz_NAME [--mutate N] [--seed S] FILE|DIRECTORY…
 *
 * Each file is run as it is, and N times with random damage, a fifth of N in a short run. The same seed does the same damage;
 * the default is fixed, so that a failure in a nightly run can be had again. The target aborts by
 * itself; the input at fault is named first, and a damaged one is left in the working directory as
 * "crash-input".
 */
#include "base/buffer.h"
#include "base/random.h"
#include "base/text.h"

#include "unit/mutate.h"
#include "unit/repetitions.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 1 << 20, DEFAULT_SEED = 8279 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct {
    uint64_t mutations, seed;
    size_t files, runs;
    const char *path;       /* what is running: the file, */
    uint64_t mutation;      /* how often it was damaged before, */
    const uint8_t *running; /* and the bytes */
    size_t running_len;
} replay = {.seed = DEFAULT_SEED};

/* Prints what was running when the target aborted. */
static void on_abort(int signal_number)
{
    char text[512];
    int len = snprintf(text, sizeof text, "crash: '%s', mutation %" PRIu64 ", seed %" PRIu64 "\n",
                       replay.path, replay.mutation, replay.seed);

    if (write(STDERR_FILENO, text, (size_t)len) < 0)
        _exit(1);
    FILE *file = fopen("crash-input", "wb");
    if (file) {
        fwrite(replay.running, 1, replay.running_len, file);
        fclose(file);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* The target gets memory of exactly that size, so that a sanitizer sees every byte read beyond it.
 */
static void run_bytes(struct slice bytes)
{
    uint8_t *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    if (!copy)
        abort();
    if (bytes.len > 0)
        memcpy(copy, bytes.at, bytes.len);
    replay.running = copy;
    replay.running_len = bytes.len;
    replay.runs++;
    LLVMFuzzerTestOneInput(copy, bytes.len);
    free(copy);
}

static bool read_file(const char *path, struct buffer *into)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    char *at = buffer_reserve(into, INPUT_BYTES_MAX);
    if (at)
        into->len += fread(at, 1, INPUT_BYTES_MAX, file);
    bool good = at && !ferror(file);
    fclose(file);
    return good;
}

static bool run_file(const char *path)
{
    struct random random = {.state = replay.seed};
    struct buffer original, damaged;

    buffer_init(&original, INPUT_BYTES_MAX);
    buffer_init(&damaged, 2 * INPUT_BYTES_MAX);
    bool good = read_file(path, &original);
    replay.path = path;
    replay.mutation = 0;
    replay.files += good;
    if (good)
        run_bytes(buffer_slice(&original));
    for (uint64_t i = 0; good && i < replay.mutations; i++) {
        /* Damage adds up for a while, then begins again with the original. */
        if (i % 8 == 0) {
            buffer_clear(&damaged);
            buffer_append_slice(&damaged, buffer_slice(&original));
        }
        mutate(&damaged, &random, buffer_slice(&original));
        replay.mutation = i + 1;
        run_bytes(buffer_slice(&damaged));
    }
    buffer_fini(&original);
    buffer_fini(&damaged);
    if (!good)
        fprintf(stderr, "cannot read '%s'\n", path);
    return good;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Runs files in the order of their names, so that every machine does the same. */
static bool run_directory(const char *directory)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_visible, alphasort);
    bool good = count >= 0;

    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        good = run_file(path) && good;
        free(entries[i]);
    }
    free(entries);
    return good;
}

static bool run_path(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        fprintf(stderr, "cannot find '%s'\n", path);
        return false;
    }
    return S_ISDIR(info.st_mode) ? run_directory(path) : run_file(path);
}

/* Takes an option and its value off the front of the arguments; false for other arguments. */
static bool take_option(int *argc, char ***argv, const char *name, uint64_t *value)
{
    if (*argc < 2 || strcmp((*argv)[0], name) != 0)
        return false;
    if (!text_parse_u64(slice_of((*argv)[1]), UINT64_MAX, value)) {
        fprintf(stderr, "cannot use '%s' as the value of '%s', give a number\n", (*argv)[1], name);
        exit(2);
    }
    *argc -= 2;
    *argv += 2;
    return true;
}

int main(int argc, char **argv)
{
    bool good = true;

    argc--;
    argv++;
    while (take_option(&argc, &argv, "--mutate", &replay.mutations) ||
           take_option(&argc, &argv, "--seed", &replay.seed))
        continue;
    replay.mutations = repetitions(replay.mutations, (replay.mutations + 4) / 5);
    signal(SIGABRT, on_abort);
    for (int i = 0; i < argc; i++)
        good = run_path(argv[i]) && good;
    printf("%zu files, %zu runs, seed %" PRIu64 "\n", replay.files, replay.runs, replay.seed);
    if (replay.files == 0)
        fprintf(stderr, "nothing was run: name files or directories\n");
    return good && replay.files > 0 ? 0 : 1;
}
