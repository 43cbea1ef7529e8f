/* import: the lines of an export (dump.h), or any batch items, a line each, into a server. */
#include "cli/commands.h"
#include "cli/dump.h"
#include "cli/import_batch.h"
#include "cli/import_state.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/private_file.h"
#include "cli/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The export that is being read: whether all of it is there. Several may follow each other. */
struct import_whole {
    bool has_head, has_end;
    bool has_lines; /* any at all */
    uint64_t topics, jobs;
    char fault[192]; /* what shows that lines are missing, the first of it; empty: nothing does */
};

struct import {
    struct import_batches batches;
    struct import_state state;
    struct client client;
    struct patience patience;
    const char *path; /* "-": standard input */
    struct lines in;
    uint64_t skip, lines, topics;
    uint64_t jobs_total;         /* as the head says; 0: not known */
    uint64_t bytes, bytes_total; /* total 0: not known */
    struct import_whole whole;
    bool is_over;        /* the input is read to its end */
    bool is_other_input; /* than the one to go on with */
};

/* ---- topics ---- */

/* One that is there already gets these settings too; it is paused where the other was, and resumed
 * by hand. */
static int put_topic(struct import *import, const struct dump_line *line)
{
    struct client *client = &import->client;
    struct buffer *target = client_begin(client);
    url_add_segment(target, "topics");
    url_add_segment(target, line->topic);
    client_add_header(client, "Content-Type: application/json");
    int exit_code = patience_call(&import->patience, client, "PUT", &line->settings);
    if (exit_code != CLI_OK || !line->paused)
        return exit_code;
    target = client_begin(client);
    url_add_segment(target, "topics");
    url_add_segment(target, line->topic);
    url_add_segment(target, "pause");
    return patience_call(&import->patience, client, "POST", NULL);
}

static void import_topic(struct import *import, struct slice text, const struct dump_line *line)
{
    struct import_batches *batches = &import->batches;
    progress_clear();
    int exit_code = put_topic(import, line);
    if (exit_code == CLI_OK) {
        import->topics++;
    } else if (exit_code == CLI_UNREACHABLE || import->client.status >= 500) {
        batches->exit_code = exit_code;
        import->lines--; /* not done */
    } else {
        import_refuse(batches, text, import->lines, "the topic cannot be set", NULL);
    }
}

/* ---- is all of the export there ---- */

__attribute__((format(printf, 2, 3))) static void whole_lacks(struct import_whole *whole,
                                                              const char *format, ...)
{
    va_list args;
    if (whole->fault[0])
        return;
    va_start(args, format);
    (void)vsnprintf(whole->fault, sizeof whole->fault, format, args);
    va_end(args);
}

/* The end line counts what stands before it, from the export's first line on. */
static void whole_check_end(struct import_whole *whole, const struct dump_line *end)
{
    if (!whole->has_head)
        whole_lacks(whole, "it has an end line but not the first line of an export");
    else if (whole->jobs != end->jobs || whole->topics != end->topic_lines)
        whole_lacks(whole,
                    "its end line counts %llu jobs of %llu topics, but there are %llu of %llu",
                    (unsigned long long)end->jobs, (unsigned long long)end->topic_lines,
                    (unsigned long long)whole->jobs, (unsigned long long)whole->topics);
}

/* Every line goes through here, those that are skipped too. */
static void whole_add(struct import_whole *whole, const struct dump_line *line, uint64_t number)
{
    whole->has_lines = true;
    if (line->kind == DUMP_HEAD) {
        if (whole->has_head && !whole->has_end)
            whole_lacks(whole, "another one begins at line %llu, before its end line",
                        (unsigned long long)number);
        whole->has_head = true;
        whole->has_end = false;
        whole->topics = whole->jobs = 0;
        return;
    }
    if (whole->has_end)
        whole_lacks(whole, "its end line stands in the middle, line %llu follows it",
                    (unsigned long long)number);
    whole->topics += line->kind == DUMP_TOPIC;
    whole->jobs += line->kind == DUMP_JOB;
    if (line->kind == DUMP_END) {
        whole_check_end(whole, line);
        whole->has_end = true;
    }
}

/* An exit code, explained. What is there has been imported. */
static int whole_judge(const struct import_whole *whole, const char *path)
{
    if (!whole->has_lines)
        return cli_error("'%s' is empty, there is nothing to import", path);
    if (whole->fault[0])
        return cli_error("'%s' is not a whole export: %s; take another copy of it or export again",
                         path, whole->fault);
    if (whole->has_head && !whole->has_end)
        return cli_error("'%s' ends before the export did: complete it by 'tarry export --resume' "
                         "and import it again",
                         path);
    return CLI_OK;
}

/* ---- lines ---- */

static void import_job(struct import *import, struct slice text, const struct dump_line *line)
{
    if (text.len + 64 > import->batches.bytes_max)
        import_refuse(&import->batches, text, import->lines, "body_too_big",
                      "the line is longer than a batch of this server may be");
    else
        import_batches_add(&import->batches, text, import->lines, line->has_on_conflict);
}

static struct slice trimmed(const char *at, size_t len)
{
    while (len && (at[len - 1] == '\n' || at[len - 1] == '\r' || at[len - 1] == ' '))
        len--;
    while (len && *at == ' ')
        at++, len--;
    return slice_make(at, len);
}

static void import_head(struct import *import, const struct dump_line *line)
{
    import->jobs_total = line->jobs;
    if (line->version != 1)
        import->batches.exit_code =
            cli_error("'%s' is of a later version than this program", import->path);
}

static void import_line(struct import *import, struct slice text)
{
    struct dump_line line;
    dump_read(text, &line);
    whole_add(&import->whole, &line, import->lines);
    if (line.kind == DUMP_HEAD)
        import_head(import, &line);
    if (import->lines <= import->skip)
        return;
    if (line.kind == DUMP_MALFORMED)
        import_refuse(&import->batches, text, import->lines, "bad_json",
                      "the line is not a JSON object");
    else if (line.kind == DUMP_TOPIC)
        import_topic(import, text, &line);
    else if (line.kind == DUMP_JOB)
        import_job(import, text, &line);
}

/* What is skipped takes no time: speed counts from behind it. */
static void show_progress(const struct import *import)
{
    const struct import_counts *counts = &import->batches.counts;
    if (import->lines >= import->skip)
        progress_show(counts->created + counts->replaced + counts->existed,
                      import->skip ? 0 : import->jobs_total,
                      import->bytes_total ? (double)import->bytes / (double)import->bytes_total
                                          : -1);
}

/* What is said to be in is in, or among the rejects. */
static void keep_state(struct import *import, bool now)
{
    struct import_batches *batches = &import->batches;
    if (!import->state.path)
        return;
    if (batches->rejects && fflush(batches->rejects) != 0) {
        batches->rejects_lost++;
        return;
    }
    int exit_code =
        import_state_keep(&import->state, import_batches_done(batches, import->lines), now);
    if (batches->exit_code == CLI_OK)
        batches->exit_code = exit_code;
}

static void read_line(struct import *import, struct slice line, size_t bytes)
{
    import->lines++;
    import->bytes += bytes;
    if (!import_state_add(&import->state, line, import->lines)) {
        import->is_other_input = true;
        import->batches.exit_code = CLI_REFUSED;
        return;
    }
    line = trimmed(line.at, line.len);
    if (line.len)
        import_line(import, line);
}

static void read_lines(struct import *import)
{
    struct import_batches *batches = &import->batches;
    enum lines_next next = LINES_ONE;
    struct slice line;
    size_t bytes;
    while (batches->exit_code == CLI_OK && !interrupt_came() &&
           (next = lines_next(&import->in, &line, &bytes)) <= LINES_NONE_YET) {
        show_progress(import);
        keep_state(import, false);
        if (next == LINES_NONE_YET)
            import_batches_wait(batches, import->in.fd);
        else
            read_line(import, line, bytes);
    }
    if (next == LINES_FAILED)
        batches->exit_code =
            cli_error("cannot read '%s', %s", import->path, strerror(import->in.error));
    import->is_over = next == LINES_OVER;
    import->is_other_input |= import->is_over && import->lines < import->skip;
    if (import->is_over && import->is_other_input)
        batches->exit_code = cli_error("'%s' ends before line %llu, where it is to be gone on with",
                                       import->path, (unsigned long long)import->skip);
}

/* ---- the whole ---- */

/* What a batch may hold here; reaches the server before anything is read. */
static int learn_limits(struct import *import)
{
    url_add_segment(client_begin(&import->client), "info");
    int exit_code = client_call(&import->client, "GET", NULL, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    json_int_t bytes = json_integer_value(
        json_object_get(json_object_get(import->client.json, "limits"), "batch_bytes"));
    if (bytes <= 0)
        return cli_error("unexpected answer from '%s', is it a tarry server", import->client.shown);
    import->batches.bytes_max = (uint64_t)bytes;
    return CLI_OK;
}

static int open_files(struct import *import, const char *rejects)
{
    struct stat stat;
    bool is_input = strcmp(import->path, "-") == 0;
    lines_init(&import->in, is_input ? STDIN_FILENO : open(import->path, O_RDONLY | O_CLOEXEC));
    if (import->in.fd < 0)
        return cli_error("cannot read '%s', %s", import->path, strerror(errno));
    if (fstat(import->in.fd, &stat) == 0 && S_ISREG(stat.st_mode))
        import->bytes_total = (uint64_t)stat.st_size;
    if (rejects && !(import->batches.rejects = private_file_open(rejects, "a", 0)))
        return cli_error("cannot write '%s', %s", rejects, strerror(errno));
    return CLI_OK;
}

static int end_rejects(struct import *import, const char *rejects)
{
    bool is_kept = !import->batches.rejects_lost;
    if (import->batches.rejects && fclose(import->batches.rejects) != 0)
        is_kept = false;
    import->batches.rejects = NULL;
    return is_kept ? CLI_OK : cli_error("cannot write all refused lines to '%s'", rejects);
}

static void say_where_to_go_on(const struct import *import)
{
    uint64_t done = import_batches_done(&import->batches, import->lines);
    if (import->state.kept_line)
        cli_error("stopped before the end of '%s', go on with it by --state '%s'", import->path,
                  import->state.path);
    else
        cli_error("stopped before the end of '%s', go on with it by --skip %llu", import->path,
                  (unsigned long long)done);
}

static void say_counts(const struct import_counts *counts, bool has_json)
{
    unsigned long long created = counts->created, replaced = counts->replaced,
                       existed = counts->existed, refused = counts->refused,
                       sum = created + replaced + existed;
    fprintf(stderr,
            "imported %llu job%s: %llu created, %llu replaced, %llu existed; %llu refused\n", sum,
            sum == 1 ? "" : "s", created, replaced, existed, refused);
    if (has_json)
        printf("{\"created\":%llu,\"replaced\":%llu,\"existed\":%llu,\"refused\":%llu}\n", created,
               replaced, existed, refused);
}

static int conclude(struct import *import, bool has_json)
{
    const struct import_counts *counts = &import->batches.counts;
    progress_clear();
    if (import->is_other_input)
        return import->batches.exit_code;
    keep_state(import, true);
    bool is_cut = import->batches.exit_code != CLI_OK || !import->is_over;
    say_counts(counts, has_json);
    if (is_cut) {
        say_where_to_go_on(import);
        return import->batches.exit_code != CLI_OK ? import->batches.exit_code : CLI_REFUSED;
    }
    import_state_remove(&import->state);
    int exit_code = whole_judge(&import->whole, import->path);
    return exit_code == CLI_OK && counts->refused ? CLI_REFUSED : exit_code;
}

static int run(struct import *import, const char *rejects, bool has_json)
{
    int exit_code = open_files(import, rejects);
    if (exit_code == CLI_OK)
        exit_code = learn_limits(import);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!import_batches_open(&import->batches, import->client.base))
        return CLI_REFUSED;
    interrupt_catch();
    read_lines(import);
    import_batches_drain(&import->batches);
    exit_code = conclude(import, has_json);
    int lost = end_rejects(import, rejects);
    import_batches_close(&import->batches);
    return exit_code != CLI_OK ? exit_code : lost;
}

int cli_import(int argc, char **argv)
{
    static struct import import; /* large */
    const char *on_conflict = "keep", *rejects = NULL, *state = NULL, *patience = PATIENCE_TEXT;
    uint64_t skip = 0;
    bool wants_progress = false;
    const struct cli_flag flags[] = {
        {"on-conflict", CLI_TEXT, &on_conflict, "WHAT",
         "where the id exists: keep (else) or replace"},
        {"rejects", CLI_TEXT, &rejects, "FILE", "adds the lines that were refused to FILE"},
        {"state", CLI_TEXT, &state, "FILE", "keeps in FILE how far it came, and goes on there"},
        {"skip", CLI_COUNT, &skip, "N", "the first N lines are in already"},
        {"patience", CLI_DURATION, &patience, "TIME",
         "how long to wait for a server that is away; else " PATIENCE_TEXT},
        {"progress", CLI_SWITCH, &wants_progress, NULL,
         "a line a second where there is no terminal"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "import [FILE] [--on-conflict keep|replace] [--state FILE] [--rejects FILE]",
        .about =
            "Reads what 'tarry export' wrote, from FILE or standard input: sets topics and\n"
            "pushes jobs, with their attempts. Importing the same again changes nothing as long\n"
            "as no job was finished meanwhile: keep the topics paused until all is in.",
        .flags = flags,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (strcmp(on_conflict, "keep") != 0 && strcmp(on_conflict, "replace") != 0)
        return cli_usage("bad value '%s' for '--on-conflict', give keep or replace", on_conflict);
    if (state && skip)
        return cli_usage("both '--state' and '--skip' are given, the state says where to go on");
    import = (struct import){.path = args.list.count ? args.list.at[0] : "-", .skip = skip};
    import.batches.on_conflict = on_conflict;
    if (!patience_parse(patience, &import.patience))
        return CLI_USAGE;
    import.batches.patience = import.patience;
    exit_code = import_state_open(&import.state, state, args.url);
    if (exit_code != CLI_OK)
        return exit_code;
    if (state)
        import.skip = import.state.line;
    progress_begin("imported", wants_progress);
    if (!client_open(&import.client, args.url))
        return CLI_REFUSED;
    exit_code = run(&import, rejects, args.json);
    lines_fini(&import.in);
    if (import.in.fd > STDIN_FILENO)
        close(import.in.fd);
    client_close(&import.client);
    return exit_code;
}
