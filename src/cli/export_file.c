#include "cli/export_file.h"

#include "cli/cli.h"
#include "cli/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const struct export_file *file, int error)
{
    return cli_error("cannot write '%s', %s", file->path ? file->path : "standard output",
                     strerror(error));
}

int export_file_create(struct export_file *file)
{
    file->out = file->path ? private_file_open(file->path, "w", O_EXCL) : stdout;
    if (file->out)
        return CLI_OK;
    if (errno == EEXIST)
        return cli_error("'%s' exists, go on with it by --resume, or give another name",
                         file->path);
    return cannot_write(file, errno);
}

bool export_state_add(struct export_state *state, const char *name)
{
    dump_name *names = realloc(state->names, (state->name_count + 1) * sizeof *names);
    if (!names)
        return false;
    state->names = names;
    snprintf(names[state->name_count++], sizeof *names, "%s", name);
    return true;
}

static bool read_head(const struct dump_line *line, struct export_state *state)
{
    const char *at = NULL;
    dump_name name;
    while (line->version == 1 && dump_next_name(line->topics, &at, name))
        if (!export_state_add(state, name))
            return false;
    return line->version == 1;
}

static size_t find_name(const struct export_state *state, const char *name)
{
    size_t at = 0;
    while (at < state->name_count && strcmp(state->names[at], name) != 0)
        at++;
    return at;
}

/*
 * Where the export could be gone on with. A server that was started again may show due times a
 * little apart from those it showed before: a cursor is good where the jobs after it in the file
 * reach on by OVERLAP_MS; else jobs just behind it might be missed.
 */
enum { OVERLAP_MS = 10 * 1000 };

struct mark {
    off_t at;
    struct export_state state; /* its names are not its own */
    int64_t due_ms;            /* of the job before it */
};

struct reading {
    struct export_state *state; /* as of the last line */
    struct mark *marks;         /* within a topic, in their order; the first one is always good */
    size_t count, cap;
    int64_t due_ms;
};

static bool add_mark(struct reading *reading, off_t at)
{
    if (reading->count == reading->cap) {
        size_t cap = reading->cap ? reading->cap * 2 : 64;
        struct mark *marks = realloc(reading->marks, cap * sizeof *marks);
        if (!marks)
            return false;
        reading->marks = marks;
        reading->cap = cap;
    }
    reading->marks[reading->count++] =
        (struct mark){.at = at, .state = *reading->state, .due_ms = reading->due_ms};
    return true;
}

/* A line that ends at `at`. False: it is not an export's. */
static bool read_line(struct reading *reading, struct slice text, off_t at)
{
    struct export_state *state = reading->state;
    struct dump_line line;
    dump_read(text, &line);
    if (!reading->count && line.kind != DUMP_HEAD)
        return false;
    switch (line.kind) {
    case DUMP_HEAD:
        return read_head(&line, state) && add_mark(reading, at);
    case DUMP_TOPIC:
        state->at = find_name(state, line.topic);
        state->topics++;
        state->has_topic_line = true;
        state->cursor[0] = '\0';
        reading->count = 0;
        return add_mark(reading, at);
    case DUMP_CURSOR:
        memcpy(state->cursor, line.cursor, sizeof line.cursor);
        return add_mark(reading, at);
    case DUMP_END:
        return state->is_complete = true;
    case DUMP_JOB:
        state->jobs++;
        reading->due_ms = line.at_ms;
        return true;
    case DUMP_MALFORMED:
        return false;
    }
    return false;
}

/* Returns the length of what can stay; 0: nothing. */
static off_t go_back(struct reading *reading)
{
    while (reading->count > 1 &&
           reading->marks[reading->count - 1].due_ms > reading->due_ms - OVERLAP_MS)
        reading->count--;
    if (!reading->count)
        return 0;
    const struct mark *mark = &reading->marks[reading->count - 1];
    dump_name *names = reading->state->names;
    size_t name_count = reading->state->name_count;
    *reading->state = mark->state;
    reading->state->names = names;
    reading->state->name_count = name_count;
    return mark->at;
}

static off_t read_state(FILE *in, struct export_state *state)
{
    struct reading reading = {.state = state};
    char *text = NULL;
    size_t cap = 0;
    off_t at = 0;
    for (ssize_t got; !state->is_complete && (got = getline(&text, &cap, in)) > 0;) {
        if (text[got - 1] != '\n') /* cut short */
            break;
        at += got;
        if (!read_line(&reading, slice_make(text, (size_t)got - 1), at))
            break;
    }
    free(text);
    off_t keep = state->is_complete ? at : go_back(&reading);
    free(reading.marks);
    return keep;
}

/* What is there to be gone on with: a file of this user's, by its own name, and from now on this
 * user's alone to read. */
static int open_own(struct export_file *file)
{
    struct stat stat;
    file->out = private_file_open(file->path, "r+", O_NOFOLLOW | O_NONBLOCK);
    if (!file->out && errno == ELOOP)
        return cli_error("'%s' is a symbolic link, name the file itself", file->path);
    if (!file->out || fstat(fileno(file->out), &stat) != 0)
        return cli_error("cannot open '%s', %s", file->path, strerror(errno));
    if (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid())
        return cli_error("'%s' is not a file of this user's, start anew in another one",
                         file->path);
    if ((stat.st_mode & 077) && fchmod(fileno(file->out), S_IRUSR | S_IWUSR) != 0)
        return cannot_write(file, errno);
    return CLI_OK;
}

int export_file_resume(struct export_file *file, struct export_state *state)
{
    int exit_code = open_own(file);
    if (exit_code != CLI_OK)
        return exit_code;
    off_t keep = read_state(file->out, state);
    if (ferror(file->out))
        return cli_error("cannot read '%s', %s", file->path, strerror(errno));
    if (!keep)
        return cli_error("'%s' is not the beginning of an export, start anew without --resume",
                         file->path);
    if (state->is_complete)
        return CLI_OK;
    if (fseeko(file->out, keep, SEEK_SET) != 0 || ftruncate(fileno(file->out), keep) != 0)
        return cannot_write(file, errno);
    return CLI_OK;
}

int export_file_write(struct export_file *file, struct buffer *lines)
{
    if (lines->failed)
        return cli_error("out of memory");
    if (lines->len == 0)
        return CLI_OK;
    if (fwrite(lines->at, 1, lines->len, file->out) != lines->len || fflush(file->out) != 0)
        return cannot_write(file, errno);
    buffer_clear(lines);
    return CLI_OK;
}

int export_file_close(struct export_file *file)
{
    if (!file->path || !file->out)
        return CLI_OK;
    int error = fsync(fileno(file->out)) != 0 ? errno : 0;
    if (fclose(file->out) != 0 && !error)
        error = errno;
    file->out = NULL;
    return error ? cannot_write(file, error) : CLI_OK;
}
