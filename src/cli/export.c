/* export: topics with their jobs as lines (dump.h), to a file or to standard output. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/export_file.h"
#include "cli/interrupt.h"
#include "cli/patience.h"
#include "cli/progress.h"
#include "cli/topic_pages.h"

#include <string.h>

enum {
    PAGE_JOBS = 1000,
    LINES_BYTES_MAX = 256 << 20,
    AWAY = -1 /* no exit code: the server is, and it is worth waiting */
};

struct export
{
    struct client client;
    struct patience patience;
    struct export_file file;
    struct export_state state;
    struct buffer lines, scratch;
    uint64_t jobs_total; /* about */
};

static int not_ours(const struct export *export)
{
    return cli_error("unexpected answer from '%s', is it a tarry server of this version",
                     export->client.shown);
}

/* ---- which topics ---- */

static uint64_t jobs_of(const json_t *topic)
{
    const char *state;
    json_t *counts = json_object_get(topic, "counts"), *count;
    uint64_t sum = 0;
    json_object_foreach(counts, state, count) sum += (uint64_t)json_integer_value(count);
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

/* All topics there are, or those named; counts what is to come. */
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
        export->jobs_total += jobs_of(topic);
        if (is_new && exit_code == CLI_OK && !export_state_add(&export->state, name))
            exit_code = cli_error("out of memory");
    }
    json_decref(all);
    return exit_code == CLI_OK ? check_found(wanted, found) : exit_code;
}

/* ---- their lines ---- */

static struct buffer *begin_topic(struct export *export, const char *name)
{
    struct buffer *target = client_begin(&export->client);
    url_add_segment(target, "topics");
    url_add_segment(target, name);
    return target;
}

/*
 * The answer as it came: its lines are cut out of it. AWAY only where there is a file: what went to
 * standard output cannot be taken back, and behind a cursor jobs may have moved meanwhile.
 */
static int fetch(struct export *export)
{
    struct client *client = &export->client;
    client->wants_raw = true;
    if (!client_prepare(client, "GET", NULL, 0))
        return CLI_USAGE;
    CURLcode code = curl_easy_perform(client->curl);
    if (export->file.path && patience_is_passing(client, code) &&
        patience_wait(&export->patience, "the server"))
        return AWAY;
    progress_clear();
    return client_finish(client, code);
}

static int export_topic_line(struct export *export, const char *name)
{
    begin_topic(export, name);
    int exit_code = fetch(export);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!dump_write_topic(&export->lines, buffer_slice(&export->client.answer)))
        return not_ours(export);
    export->state.topics++;
    return export_file_write(&export->file, &export->lines);
}

/* The page behind the cursor, which then is that of the next one; empty on the last. */
static int export_page(struct export *export, const char *name)
{
    struct export_state *state = &export->state;
    struct buffer *target = begin_topic(export, name);
    url_add_segment(target, "jobs");
    url_add_query(target, "body", "base64");
    url_add_query_number(target, "limit", PAGE_JOBS);
    url_add_query(target, "cursor", state->cursor[0] ? state->cursor : NULL);
    int exit_code = fetch(export);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!dump_write_page(&export->lines, buffer_slice(&export->client.answer), &export->scratch,
                         &state->jobs, state->cursor))
        return not_ours(export);
    patience_renew(&export->patience);
    progress_show(state->jobs, export->jobs_total, -1);
    return export_file_write(&export->file, &export->lines);
}

/* One that was deleted meanwhile has no jobs any more. */
static int export_topic(struct export *export, const char *name)
{
    struct export_state *state = &export->state;
    int exit_code = CLI_OK;
    if (!state->has_topic_line)
        exit_code = export_topic_line(export, name);
    while (exit_code == CLI_OK) {
        exit_code = interrupt_came() ? cli_error("interrupted") : export_page(export, name);
        if (exit_code == CLI_OK && !state->cursor[0])
            break;
    }
    state->has_topic_line = false;
    state->cursor[0] = '\0';
    return exit_code == CLI_NOTHING ? CLI_OK : exit_code;
}

static int export_topics(struct export *export)
{
    struct export_state *state = &export->state;
    for (; state->at < state->name_count; state->at++) {
        int exit_code = export_topic(export, state->names[state->at]);
        if (exit_code != CLI_OK)
            return exit_code;
    }
    return CLI_OK;
}

/* Until the server answers again; then from where the file says. */
static int go_back(struct export *export)
{
    struct patience rest = export->patience; /* it is a page that renews it */
    url_add_segment(client_begin(&export->client), "topics");
    int exit_code = patience_call(&rest, &export->client, "GET", NULL);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = export_file_close(&export->file);
    free(export->state.names);
    export->state = (struct export_state){0};
    buffer_clear(&export->lines);
    return exit_code == CLI_OK ? export_file_resume(&export->file, &export->state) : exit_code;
}

static int export_all(struct export *export)
{
    struct export_state *state = &export->state;
    progress_show(state->jobs, export->jobs_total, -1);
    int exit_code = export_topics(export);
    while (exit_code == AWAY) {
        exit_code = go_back(export);
        if (exit_code == CLI_OK)
            exit_code = export_topics(export);
    }
    if (exit_code != CLI_OK)
        return exit_code;
    dump_write_end(&export->lines, state->topics, state->jobs);
    return export_file_write(&export->file, &export->lines);
}

/* ---- the whole ---- */

static int begin(struct export *export, const struct cli_list *wanted)
{
    int exit_code = learn_topics(export, wanted, true);
    if (exit_code == CLI_OK)
        exit_code = export_file_create(&export->file);
    if (exit_code != CLI_OK)
        return exit_code;
    dump_write_head(&export->lines, clock_wall_ms(), (const dump_name *)export->state.names,
                    export->state.name_count, export->jobs_total);
    return export_file_write(&export->file, &export->lines);
}

static int go_on(struct export *export, const struct cli_list *wanted)
{
    int exit_code = export_file_resume(&export->file, &export->state);
    if (exit_code != CLI_OK || export->state.is_complete)
        return exit_code;
    return learn_topics(export, wanted, false);
}

static void say_done(const struct export_state *state, bool has_json)
{
    unsigned long long jobs = state->jobs;
    fprintf(stderr, "exported %llu job%s of %zu topic%s\n", jobs, jobs == 1 ? "" : "s",
            state->topics, state->topics == 1 ? "" : "s");
    if (has_json)
        printf("{\"jobs\":%llu,\"topics\":%zu}\n", jobs, state->topics);
}

static int run(struct export *export, const struct cli_list *wanted, bool resumes, bool has_json)
{
    const struct export_state *state = &export->state;
    int exit_code = resumes ? go_on(export, wanted) : begin(export, wanted);
    bool has_begun = exit_code == CLI_OK;
    interrupt_catch();
    if (exit_code == CLI_OK && !state->is_complete)
        exit_code = export_all(export);
    progress_clear();
    int closed = export_file_close(&export->file);
    if (exit_code == CLI_OK)
        exit_code = closed;
    if (exit_code == CLI_OK)
        say_done(state, has_json);
    else if (has_begun && export->file.path)
        cli_error("'%s' is not complete, go on with it by --resume", export->file.path);
    return exit_code;
}

int cli_export(int argc, char **argv)
{
    static struct cli_list topics; /* large */
    static struct export export;
    const char *path = NULL, *patience = PATIENCE_TEXT;
    bool resumes = false, wants_progress = false;
    const struct cli_flag flags[] = {
        {"topic", CLI_LIST, &topics, "TOPIC", "this one only; repeatable"},
        {"output", CLI_TEXT, &path, "FILE", "a new file; else standard output"},
        {"resume", CLI_SWITCH, &resumes, NULL, "go on with FILE where an export was cut short"},
        {"patience", CLI_DURATION, &patience, "TIME",
         "with --output: how long to wait for a server that is away; else " PATIENCE_TEXT},
        {"progress", CLI_SWITCH, &wants_progress, NULL,
         "a line a second where there is no terminal"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "export [--topic TOPIC]... [--output FILE [--resume]]",
        .about = "Writes topics with their settings and jobs, a JSON object a line, for 'tarry\n"
                 "import'. Jobs are listed in the order they are due; what moves meanwhile may be\n"
                 "missed, or be there twice: stop pushing and pause the topics first. Leased jobs\n"
                 "are written as due at the end of their lease.",
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
        return cli_usage("'--json' needs '--output FILE', standard output is taken");
    if (resumes && topics.count)
        return cli_usage("both '--resume' and '--topic' are given, the file says which topics");
    if (!patience_parse(patience, &export.patience))
        return CLI_USAGE;
    export.file.path = path;
    progress_begin("exported", wants_progress);
    if (!client_open(&export.client, args.url))
        return CLI_REFUSED;
    buffer_init(&export.lines, LINES_BYTES_MAX);
    buffer_init(&export.scratch, LINES_BYTES_MAX);
    exit_code = run(&export, &topics, resumes, args.json);
    free(export.state.names);
    buffer_fini(&export.lines);
    buffer_fini(&export.scratch);
    client_close(&export.client);
    return exit_code;
}
