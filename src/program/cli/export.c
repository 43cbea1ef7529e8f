/* export: writes topics and their jobs as lines (dump.h), to a file or to standard output. */
#include "base/clock.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dump.h"
#include "cli/interrupt.h"
#include "cli/private_file.h"
#include "cli/progress.h"
#include "cli/retry.h"
#include "cli/show.h"
#include "cli/topic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

/*
 * The file of an export, and the point from which an interrupted export can continue.
 *
 * A file is never overwritten: it is new, or it is the beginning of an export. One thread.
 */

struct export_file {
    const char *path; /* NULL: standard output */
    FILE *out;        /* NULL: not open */
};

VECTOR_DECLARE(export_names, struct dump_name)

/* The progress of a file. */
struct export_state {
    struct export_names names; /* topics to export, in order */
    size_t topics;             /* written */
    struct dump_contents written;
    size_t at;             /* index of the next topic */
    bool has_topic_line;   /* the line of that topic is written */
    bool is_finished_part; /* all its jobs are written; finished ones follow */
    char cursor[DUMP_CURSOR_BYTES_MAX];
    bool is_complete;
};

static int cannot_write(const struct export_file *file, int error)
{
    return cli_error("cannot write '%s', %s", file->path ? file->path : "standard output",
                     strerror(error));
}

/* Creates the file. Returns an exit code; errors are printed. The same holds for the other
 * export_file_ functions. */
static int export_file_create(struct export_file *file)
{
    file->out = file->path ? private_file_open(file->path, "w", O_EXCL) : stdout;
    if (file->out)
        return CLI_OK;
    if (errno == EEXIST)
        return cli_error("'%s' exists, continue it with --resume, or give another name",
                         file->path);
    return cannot_write(file, errno);
}

/* Adds a topic. Returns false if out of memory. */
static bool export_state_add(struct export_state *state, const char *name)
{
    if (!export_names_reserve(&state->names, state->names.count + 1))
        return false;
    struct dump_name *last = &state->names.at[state->names.count++];
    snprintf(last->text, sizeof last->text, "%s", name);
    return true;
}

static bool read_head(const struct dump_line *line, struct export_state *state)
{
    const char *at = NULL;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    while (line->version == 1 && dump_next_name(line->topics, &at, name))
        if (!export_state_add(state, name))
            return false;
    state->written.has_finished = line->is_finished;
    return line->version == 1;
}

static size_t find_name(const struct export_state *state, const char *name)
{
    size_t at = 0;
    while (at < state->names.count && strcmp(state->names.at[at].text, name) != 0)
        at++;
    return at;
}

/*
 * A point from which the export can continue. A restarted server may return slightly different due
 * times than before. A cursor is usable if the jobs after it in the file extend by at least
 * OVERLAP_MS; otherwise jobs shortly after it might be missed.
 */
enum { OVERLAP_MS = 10 * 1000 };

struct export_mark {
    off_t at;
    struct export_state state; /* does not own its names */
    int64_t due_ms;            /* of the job before the mark; of a finished one minus its end */
};

VECTOR_DECLARE(export_marks, struct export_mark)

struct export_reading {
    struct export_state *state; /* state after the last line */
    struct export_marks marks;  /* marks within a topic, in order; the first is always usable */
    int64_t due_ms;
};

static bool add_mark(struct export_reading *reading, off_t at)
{
    struct export_mark mark = {.at = at, .state = *reading->state, .due_ms = reading->due_ms};
    return export_marks_add(&reading->marks, mark);
}

/* Reads a line that ends at `at`. Returns false if it is not a line of an export. */
static bool read_line(struct export_reading *reading, struct slice text, off_t at)
{
    struct export_state *state = reading->state;
    struct dump_line line;
    dump_read(text, &line);
    if (!reading->marks.count && line.kind != DUMP_HEAD)
        return false;
    switch (line.kind) {
    case DUMP_HEAD:
        return read_head(&line, state) && add_mark(reading, at);
    case DUMP_TOPIC:
        state->at = find_name(state, line.topic);
        state->topics++;
        state->has_topic_line = true;
        state->is_finished_part = false;
        state->cursor[0] = '\0';
        reading->marks.count = 0;
        return add_mark(reading, at);
    case DUMP_GROUP: /* before the line of its topic, so an interrupted export writes it again */
        return true;
    case DUMP_CURSOR:
        if (line.is_finished && !state->is_finished_part)
            reading->marks.count = 0;
        state->is_finished_part = line.is_finished;
        memcpy(state->cursor, line.cursor, sizeof line.cursor);
        return add_mark(reading, at);
    case DUMP_END:
        return state->is_complete = true;
    case DUMP_JOB:
        state->written.jobs++;
        reading->due_ms = line.at_ms;
        return true;
    case DUMP_FINISHED:
        state->written.finished++;
        reading->due_ms = -line.at_ms;
        return true;
    case DUMP_MALFORMED:
        return false;
    }
    return false;
}

/* Goes back to the last usable mark. Returns the length of the file to keep; 0: no usable part. */
static off_t cut_back(struct export_reading *reading)
{
    while (reading->marks.count > 1 &&
           reading->marks.at[reading->marks.count - 1].due_ms > reading->due_ms - OVERLAP_MS)
        reading->marks.count--;
    if (!reading->marks.count)
        return 0;
    const struct export_mark *mark = &reading->marks.at[reading->marks.count - 1];
    struct export_names names = reading->state->names;
    *reading->state = mark->state;
    reading->state->names = names;
    return mark->at;
}

/* Reads the existing lines. Returns the length of the file to keep. */
static off_t read_state(FILE *in, struct export_state *state)
{
    struct export_reading reading = {.state = state};
    char *text = NULL;
    size_t cap = 0;
    off_t at = 0;
    for (ssize_t got; !state->is_complete && (got = getline(&text, &cap, in)) > 0;) {
        if (text[got - 1] != '\n') /* incomplete */
            break;
        at += got;
        if (!read_line(&reading, slice_make(text, (size_t)got - 1), at))
            break;
    }
    free(text);
    off_t keep = state->is_complete ? at : cut_back(&reading);
    export_marks_fini(&reading.marks);
    return keep;
}

/* Opens the file to continue. It must belong to this user and not be a symbolic link; it is made
 * readable only by this user. */
static int open_own(struct export_file *file)
{
    struct stat stat;
    file->out = private_file_open(file->path, "r+", O_NOFOLLOW | O_NONBLOCK);
    if (!file->out && errno == ELOOP)
        return cli_error("'%s' is a symbolic link, name the file itself", file->path);
    if (!file->out || fstat(fileno(file->out), &stat) != 0)
        return cli_error("cannot open '%s', %s", file->path, strerror(errno));
    if (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid())
        return cli_error("'%s' does not belong to this user, start again with another file",
                         file->path);
    if ((stat.st_mode & 077) && fchmod(fileno(file->out), S_IRUSR | S_IWUSR) != 0)
        return cannot_write(file, errno);
    return CLI_OK;
}

/* Reads the existing lines and truncates the file after a complete page. Jobs in the kept part
 * may be written again. */
static int export_file_resume(struct export_file *file, struct export_state *state)
{
    int exit_code = open_own(file);
    if (exit_code != CLI_OK)
        return exit_code;
    off_t keep = read_state(file->out, state);
    if (ferror(file->out))
        return cli_error("cannot read '%s', %s", file->path, strerror(errno));
    if (!keep)
        return cli_error("'%s' is not the beginning of an export, start again without --resume",
                         file->path);
    if (state->is_complete)
        return CLI_OK;
    if (fseeko(file->out, keep, SEEK_SET) != 0 || ftruncate(fileno(file->out), keep) != 0)
        return cannot_write(file, errno);
    return CLI_OK;
}

/* Writes and clears the lines. Standard output may be a terminal. */
static int export_file_write(struct export_file *file, struct buffer *lines)
{
    if (lines->failed)
        return cli_error("out of memory");
    if (lines->len == 0)
        return CLI_OK;
    bool is_written = file->path ? fwrite(lines->at, 1, lines->len, file->out) == lines->len
                                 : show_json_text(buffer_slice(lines), file->out);
    if (!is_written || fflush(file->out) != 0)
        return cannot_write(file, errno);
    buffer_clear(lines);
    return CLI_OK;
}

/* Closes the file after syncing it to disk. */
static int export_file_close(struct export_file *file)
{
    if (!file->path || !file->out)
        return CLI_OK;
    int error = fsync(fileno(file->out)) != 0 ? errno : 0;
    if (fclose(file->out) != 0 && !error)
        error = errno;
    file->out = NULL;
    return error ? cannot_write(file, error) : CLI_OK;
}

enum {
    PAGE_JOBS = 1000,
    LINES_BYTES_MAX = 256 << 20,
    AWAY = -1 /* not an exit code: the server is unreachable, and retrying is possible */
};

struct export
{
    struct client client;
    struct retry retry;
    struct export_file file;
    struct export_state state;
    struct buffer lines, scratch;
    uint64_t jobs_total; /* approximate */
};

static int not_ours(const struct export *export)
{
    return cli_error("unexpected answer from '%s', check that it is a tarry server of this version",
                     export->client.shown);
}

/* ---- selection of topics ---- */

static uint64_t jobs_of(const json_t *topic, bool with_finished)
{
    const char *state;
    json_t *counts = json_object_get(topic, "counts"), *count;
    uint64_t sum = 0;
    json_object_foreach(counts, state, count)
    {
        if (strcmp(state, "held") != 0 && (with_finished || strcmp(state, "finished") != 0))
            sum += (uint64_t)json_integer_value(count);
    }
    return sum;
}

static bool is_wanted(const char *name, const struct cli_list *wanted, bool *found)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (strcmp(name, wanted->at[i]) == 0)
            return found[i] = true;
    return wanted->count == 0;
}

static int check_found(const struct cli_list *wanted, const bool *found)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (!found[i]) {
            cli_error("there is no topic '%s'", wanted->at[i]);
            return CLI_NOTHING;
        }
    return CLI_OK;
}

/* Collects all topics, or those named, and counts the jobs to export. */
static int learn_topics(struct export *export, const struct cli_list *wanted, bool is_new)
{
    bool found[CLI_LIST_MAX] = {false};
    const json_t *topic;
    json_t *all;
    size_t i;
    int exit_code = topic_pages(&export->client, &all);
    if (exit_code != CLI_OK)
        return exit_code;
    export->jobs_total = 0;
    json_array_foreach(json_object_get(all, "topics"), i, topic)
    {
        const char *name = json_string_value(json_object_get(topic, "topic"));
        if (!name || !is_wanted(name, wanted, found))
            continue;
        export->jobs_total += jobs_of(topic, export->state.written.has_finished);
        if (is_new && exit_code == CLI_OK && !export_state_add(&export->state, name))
            exit_code = cli_error("out of memory");
    }
    json_decref(all);
    return exit_code == CLI_OK ? check_found(wanted, found) : exit_code;
}

/* ---- lines of a topic ---- */

static struct buffer *begin_topic(struct export *export, const char *name)
{
    struct buffer *target = client_begin(&export->client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, name);
    return target;
}

/*
 * Fetches an answer without parsing it: lines are copied from it. Returns AWAY only when writing to
 * a file: standard output cannot be rewound, and jobs after a cursor may have moved meanwhile.
 * `is_unsupported`: set if the store of the server lacks the call; NULL: that is an error.
 */
static int fetch_answer(struct export *export, bool *is_unsupported)
{
    struct client *client = &export->client;
    long status = 0;
    client->wants_raw = true;
    if (!client_prepare(client, "GET", NULL, 0))
        return CLI_USAGE;
    CURLcode code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (is_unsupported && (*is_unsupported = code == CURLE_OK && status == 501))
        return CLI_OK;
    if (export->file.path && retry_helps(client, code) &&
        retry_wait(&export->retry, "the server", 0))
        return AWAY;
    progress_clear();
    return client_finish(client, code);
}

/* Writes the settings of the groups of a topic, if the store has groups. */
static int export_groups(struct export *export, const char *name)
{
    char cursor[DUMP_CURSOR_BYTES_MAX] = "";
    bool is_unsupported = false;
    do {
        struct buffer *target = begin_topic(export, name);
        cli_url_add_segment(target, "groups");
        cli_url_add_query_number(target, "limit", PAGE_JOBS);
        cli_url_add_query(target, "cursor", cursor[0] ? cursor : NULL);
        int exit_code = fetch_answer(export, &is_unsupported);
        if (exit_code != CLI_OK || is_unsupported)
            return exit_code;
        if (!dump_write_groups(&export->lines, name, buffer_slice(&export->client.answer), cursor))
            return not_ours(export);
    } while (cursor[0]);
    return CLI_OK;
}

static int export_topic_line(struct export *export, const char *name)
{
    int exit_code = export_groups(export, name);
    if (exit_code != CLI_OK)
        return exit_code;
    begin_topic(export, name);
    exit_code = fetch_answer(export, NULL);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!dump_write_topic(&export->lines, buffer_slice(&export->client.answer)))
        return not_ours(export);
    export->state.topics++;
    return export_file_write(&export->file, &export->lines);
}

/* Exports the page after the cursor and sets the cursor to the next page; empty after the last. */
static int export_page(struct export *export, const char *name)
{
    struct export_state *state = &export->state;
    struct buffer *target = begin_topic(export, name);
    cli_url_add_segment(target, "jobs");
    cli_url_add_query(target, "body", "base64");
    cli_url_add_query_number(target, "limit", PAGE_JOBS);
    cli_url_add_query(target, "state", state->is_finished_part ? "finished" : NULL);
    cli_url_add_query(target, "cursor", state->cursor[0] ? state->cursor : NULL);
    int exit_code = fetch_answer(export, NULL);
    if (exit_code != CLI_OK)
        return exit_code;
    struct slice answer = buffer_slice(&export->client.answer);
    uint64_t *written = state->is_finished_part ? &state->written.finished : &state->written.jobs;
    if (!dump_write_page(&export->lines, answer, state->is_finished_part, &export->scratch, written,
                         state->cursor))
        return not_ours(export);
    retry_reset(&export->retry);
    progress_show(state->written.jobs + state->written.finished, export->jobs_total, -1);
    return export_file_write(&export->file, &export->lines);
}

/* Exports the pages from the cursor to the last one. */
static int export_pages(struct export *export, const char *name)
{
    int exit_code;
    do
        exit_code = interrupt_came() ? cli_error("interrupted") : export_page(export, name);
    while (exit_code == CLI_OK && export->state.cursor[0]);
    return exit_code;
}

/* Exports a topic. A topic that was deleted meanwhile has no jobs. */
static int export_topic(struct export *export, const char *name)
{
    struct export_state *state = &export->state;
    int exit_code = CLI_OK;
    if (!state->has_topic_line)
        exit_code = export_topic_line(export, name);
    if (exit_code == CLI_OK && !state->is_finished_part) {
        exit_code = export_pages(export, name);
        state->is_finished_part = exit_code == CLI_OK && state->written.has_finished;
        if (state->is_finished_part)
            dump_write_finished_begin(&export->lines, name);
    }
    if (exit_code == CLI_OK && state->is_finished_part)
        exit_code = export_pages(export, name);
    state->has_topic_line = state->is_finished_part = false;
    state->cursor[0] = '\0';
    return exit_code == CLI_NOTHING ? CLI_OK : exit_code;
}

static int export_topics(struct export *export)
{
    struct export_state *state = &export->state;
    for (; state->at < state->names.count; state->at++) {
        int exit_code = export_topic(export, state->names.at[state->at].text);
        if (exit_code != CLI_OK)
            return exit_code;
    }
    return CLI_OK;
}

/* Waits until the server answers again, then continues from the state in the file. */
static int go_back(struct export *export)
{
    struct retry rest = export->retry; /* only a page renews the limit */
    cli_url_add_segment(client_begin(&export->client), "topics");
    int exit_code = retry_call(&rest, &export->client, "GET", NULL);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = export_file_close(&export->file);
    export_names_fini(&export->state.names);
    export->state = (struct export_state){0};
    buffer_clear(&export->lines);
    return exit_code == CLI_OK ? export_file_resume(&export->file, &export->state) : exit_code;
}

/* Exports all topics, and resumes after each outage of the server. */
static int export_all(struct export *export)
{
    struct export_state *state = &export->state;
    progress_show(state->written.jobs + state->written.finished, export->jobs_total, -1);
    int exit_code = export_topics(export);
    while (exit_code == AWAY) {
        exit_code = go_back(export);
        if (exit_code == CLI_OK)
            exit_code = export_topics(export);
    }
    if (exit_code != CLI_OK)
        return exit_code;
    dump_write_end(&export->lines, state->topics, &state->written);
    return export_file_write(&export->file, &export->lines);
}

/* ---- the complete export ---- */

static int export_begin(struct export *export, const struct cli_list *wanted)
{
    int exit_code = learn_topics(export, wanted, true);
    if (exit_code == CLI_OK)
        exit_code = export_file_create(&export->file);
    if (exit_code != CLI_OK)
        return exit_code;
    const struct dump_contents contents = {.jobs = export->jobs_total,
                                           .has_finished = export->state.written.has_finished};
    dump_write_head(&export->lines, clock_wall_ms(), export->state.names.at,
                    export->state.names.count, &contents);
    return export_file_write(&export->file, &export->lines);
}

static int export_go_on(struct export *export, const struct cli_list *wanted)
{
    int exit_code = export_file_resume(&export->file, &export->state);
    if (exit_code != CLI_OK || export->state.is_complete)
        return exit_code;
    return learn_topics(export, wanted, false);
}

static void print_done(const struct export_state *state, bool has_json)
{
    unsigned long long jobs = state->written.jobs, finished = state->written.finished;
    fprintf(stderr, "exported %llu job%s", jobs, jobs == 1 ? "" : "s");
    if (state->written.has_finished)
        fprintf(stderr, " and %llu finished job%s", finished, finished == 1 ? "" : "s");
    fprintf(stderr, " of %zu topic%s\n", state->topics, state->topics == 1 ? "" : "s");
    if (!has_json)
        return;
    printf("{\"jobs\":%llu", jobs);
    if (state->written.has_finished)
        printf(",\"finished\":%llu", finished);
    printf(",\"topics\":%zu}\n", state->topics);
}

/* Begins or resumes the export, closes the file and prints a summary. */
static int export_run(struct export *export, const struct cli_list *wanted, bool resumes,
                      bool has_json)
{
    const struct export_state *state = &export->state;
    int exit_code = resumes ? export_go_on(export, wanted) : export_begin(export, wanted);
    bool has_begun = exit_code == CLI_OK;
    interrupt_catch();
    if (exit_code == CLI_OK && !state->is_complete)
        exit_code = export_all(export);
    progress_clear();
    int closed = export_file_close(&export->file);
    if (exit_code == CLI_OK)
        exit_code = closed;
    if (exit_code == CLI_OK)
        print_done(state, has_json);
    else if (has_begun && export->file.path)
        cli_error("'%s' is not complete, continue it with --resume", export->file.path);
    return exit_code;
}

static int export_command(int argc, char **argv)
{
    static struct cli_list topics; /* too large for the stack */
    static struct export export;
    const char *path = NULL, *retry = RETRY_TEXT;
    bool resumes = false, wants_progress = false, with_finished = false;
    const struct cli_flag flags[] = {
        {"topic", CLI_LIST, &topics, "TOPIC", "Only this topic; repeatable"},
        {"finished", CLI_SWITCH, &with_finished, NULL,
         "Also write the finished jobs that topics keep, with outcome, times and result"},
        {"output", CLI_TEXT, &path, "FILE", "Write to this new file (default: standard output)"},
        {"resume", CLI_SWITCH, &resumes, NULL, "Continue an interrupted export to FILE"},
        {"retry-for", CLI_DURATION, &retry, "TIME",
         "With --output: How long to wait for a server that is away (default: " RETRY_TEXT ")"},
        {"progress", CLI_SWITCH, &wants_progress, NULL,
         "Print progress lines although standard error is not a terminal"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "export [--topic TOPIC]... [--finished] [--output FILE [--resume]]",
        .about = "Writes topics with their settings and jobs, one JSON object per line, for 'tarry "
                 "import'.\n"
                 "Jobs are ordered by due time. Jobs that change meanwhile may be missing or "
                 "appear twice:\n"
                 "stop pushing and pause the topics first. A leased job is written as due at the "
                 "end of its\n"
                 "lease. Finished jobs are written for archives and reports: 'tarry import' skips "
                 "them.",
        .flags = flags,
    };
    struct cli_args args;
    topics = (struct cli_list){0};
    export = (struct export){0};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (resumes && !path)
        return cli_usage("'--resume' needs '--output FILE'");
    if (args.json && !path)
        return cli_usage(
            "'--json' needs '--output FILE', because the export is on standard output");
    if (resumes && topics.count)
        return cli_usage("both '--resume' and '--topic' are given, leave '--topic' out: the file "
                         "contains the topics");
    if (resumes && with_finished)
        return cli_usage("both '--resume' and '--finished' are given, leave '--finished' out: the "
                         "file contains the choice");
    if (!retry_parse(retry, &export.retry))
        return CLI_USAGE;
    export.state.written.has_finished = with_finished;
    export.file.path = path;
    progress_begin("exported", wants_progress);
    if (!client_open(&export.client, args.url))
        return CLI_REFUSED;
    buffer_init(&export.lines, LINES_BYTES_MAX);
    buffer_init(&export.scratch, LINES_BYTES_MAX);
    exit_code = export_run(&export, &topics, resumes, args.json);
    export_names_fini(&export.state.names);
    buffer_fini(&export.lines);
    buffer_fini(&export.scratch);
    client_close(&export.client);
    return exit_code;
}

const struct cli_command cli_export_commands[] = {
    {.name = "export", .run = export_command, .help = "write topics and jobs to a file"},
    {0},
};
