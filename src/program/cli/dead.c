/* redrive, purge: make dead jobs ready again, optionally with another body, and delete dead or
 * other jobs. */
#include "base/descriptors.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/body.h"
#include "cli/bulk.h"
#include "cli/call.h"
#include "cli/show.h"
#include "cli/sweep.h"
#include "job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- redrive with another body ---- */

static int write_all(int fd, struct slice text)
{
    for (size_t done = 0; done < text.len;) {
        ssize_t wrote = write(fd, text.at + done, text.len - done);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

/* Runs the editor through the shell, since EDITOR may contain arguments. */
static int run_editor(char *path)
{
    const char *editor = getenv("VISUAL");
    char command[1024], shell[] = "sh", option[] = "-c";
    char *argv[] = {shell, option, command, shell, path, NULL};
    pid_t pid;
    int status;
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    if (!editor || !*editor)
        editor = "vi";
    if (snprintf(command, sizeof command, "%s \"$1\"", editor) >= (int)sizeof command)
        return cli_error("the name of the editor is too long, set EDITOR to a shorter one");
    descriptors_hide();
    int error = posix_spawnp(&pid, shell, NULL, NULL, argv, environ);
    if (error)
        return cli_error("cannot run the editor '%s', %s", editor, strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return cli_error("the editor '%s' failed, nothing was changed", editor);
    return CLI_OK;
}

static int edit_file(int fd, char *path, struct slice old, struct buffer *out)
{
    int error = write_all(fd, old);
    close(fd);
    if (error)
        return cli_error("cannot write '%s', %s", path, strerror(-error));
    int exit_code = run_editor(path);
    if (exit_code == CLI_OK)
        exit_code = body_read(path, out);
    if (exit_code == CLI_OK && slice_equals(buffer_slice(out), old))
        exit_code = cli_error("the body was not changed, so nothing was done; without '--edit' the "
                              "job is redriven with its body");
    return exit_code;
}

/* Writes the old body to a file that only the user can read, and opens it in the user's editor. */
static int edit_in_editor(struct slice old, const char *type, struct buffer *out)
{
    char path[256];
    const char *directory = getenv("TMPDIR"), *suffix = strstr(type, "json") ? ".json" : ".txt";
    if (!directory || !*directory)
        directory = "/tmp";
    if (snprintf(path, sizeof path, "%s/tarry-XXXXXX%s", directory, suffix) >= (int)sizeof path)
        return cli_error("the name of '%s' is too long, set TMPDIR to another directory",
                         directory);
    int fd = mkostemps(path, (int)strlen(suffix), O_CLOEXEC);
    if (fd < 0)
        return cli_error("cannot create a file in '%s', %s", directory, strerror(errno));
    int exit_code = edit_file(fd, path, old, out);
    unlink(path);
    return exit_code;
}

/* ---- the job ---- */

static int fetch_dead_job(struct call *call)
{
    char state[SHOW_CELL_BYTES];
    int exit_code = client_call(&call->client, "GET", NULL, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    show_text(call_member(call, "state"), state);
    if (strcmp(state, "dead") != 0)
        return cli_error("'%s' is %s, only a dead job can be redriven", call_argument(call, 1),
                         state);
    return CLI_OK;
}

/* Makes the new body: from text, from a file, or by editing the old one. */
static int make_edited_body(struct call *call, struct buffer *out)
{
    const char *base64 = json_string_value(call_member(call, "body_base64"));
    const char *type = json_string_value(call_member(call, "content_type"));
    struct buffer old;
    if (!call_value(call, "edit"))
        return call_body(call, out);
    buffer_init(&old, BODY_BYTES_MAX);
    int exit_code = CLI_OK;
    if (!base64 || !type || !text_base64_decode(slice_of(base64), &old))
        exit_code = cli_error("unexpected answer, check that it is a tarry server of this version");
    else
        exit_code = edit_in_editor(buffer_slice(&old), type, out);
    buffer_fini(&old);
    return exit_code;
}

/* Converts the job to an item of a batch push with the new body, which replaces the dead job. */
static json_t *make_edited_item(const json_t *job, struct slice body)
{
    static const char *const kept[] = {"topic",    "id",          "content_type", "meta",
                                       "callback", "priority",    "lease_for",    "ttl",
                                       "backoff",  "max_attempts"};
    struct buffer base64;
    json_t *item = json_object(), *value;
    const char *name;
    void *next;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if ((value = json_object_get(job, kept[i])))
            json_object_set(item, kept[i], value);
    json_t *meta = json_object_get(item, "meta");
    json_object_foreach_safe(meta, next, name, value)
    {
        if (strncmp(name, JOB_META_OWN, sizeof(JOB_META_OWN) - 1) == 0)
            json_object_del(meta, name);
    }
    buffer_init(&base64, 2 * BODY_BYTES_MAX);
    json_write_base64(&base64, body);
    if (base64.len >= 2)
        json_object_set_new(item, "body_base64", json_stringn(base64.at + 1, base64.len - 2));
    json_object_set_new(item, "on_conflict", json_string("replace"));
    buffer_fini(&base64);
    return item;
}

/* Pushes the item; prints the error if the server rejects it. */
static int push_edited(struct call *call, const json_t *item)
{
    char *text = json_dumps(item, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    char code[SHOW_CELL_BYTES], detail[SHOW_CELL_BYTES];
    cli_url_add_segment(client_begin(&call->client), "jobs");
    client_add_header(&call->client, "Content-Type: application/x-ndjson");
    int exit_code = client_call(&call->client, "POST", &body, 0);
    free(text);
    if (exit_code != CLI_OK)
        return exit_code;
    const json_t *result = json_array_get(call_member(call, "results"), 0);
    show_text(json_object_get(result, "result"), code);
    if (strcmp(code, "replaced") != 0 && strcmp(code, "created") != 0)
        return cli_error("'%s' was refused, %s (%s)", call_argument(call, 1),
                         show_text(json_object_get(result, "detail"), detail), code);
    return CLI_OK;
}

/* Replaces the body of the job in the arguments TOPIC and ID. Fetches the job, which must be
 * dead, and pushes it again under its id, with its content type, meta, callback, priority and
 * policy; its attempts and history restart. A change of the job by another client meanwhile is
 * lost. */
static int redrive_edited(struct call *call, const struct slice *none)
{
    struct buffer body;
    (void)none;
    buffer_init(&body, BODY_BYTES_MAX);
    int exit_code = fetch_dead_job(call);
    if (exit_code == CLI_OK)
        exit_code = make_edited_body(call, &body);
    const char *type = json_string_value(json_object_get(call->client.json, "content_type"));
    if (exit_code == CLI_OK && type && !call_value(call, "force"))
        exit_code = body_check(type, buffer_slice(&body));
    if (exit_code == CLI_OK) {
        json_t *item = make_edited_item(call->client.json, buffer_slice(&body));
        exit_code = push_edited(call, item);
        json_decref(item);
    }
    buffer_fini(&body);
    return exit_code;
}

static void print_edited(const struct call *call)
{
    printf("redriven %s with another body\n", call_argument(call, 1));
}

/* ---- redrive, purge ---- */

/* Flags of both commands. */
#define SWEEP_FLAGS                                                                                \
    {"error", CLI_TEXT, "TEXT", "Only dead jobs whose last error contains TEXT"},                  \
        {"id-prefix", CLI_TEXT, "TEXT", "Only dead jobs whose id begins with TEXT"},               \
        {"died-after", CLI_TIME, "TIME",                                                           \
         "Only dead jobs whose last attempt ended at or after this time"},                         \
        {"died-before", CLI_TIME, "TIME",                                                          \
         "Only dead jobs whose last attempt ended before this time"},                              \
        {"max", CLI_TEXT, "N", "At most this many (default: all)"},                                \
    {                                                                                              \
        "dry-run", CLI_SWITCH, NULL, "Only count them"                                             \
    }

/* Returns whether a given filter uses a property that only dead jobs have. */
static bool is_of_the_dead(const struct call *call)
{
    return call_value(call, "error") || call_value(call, "id-prefix") ||
           call_value(call, "died-after") || call_value(call, "died-before");
}

static int redrive(struct call *call, const struct slice *none)
{
    (void)none;
    return sweep_call(call, (struct sweep_jobs){.state = "dead"});
}

static int purge(struct call *call, const struct slice *none)
{
    (void)none;
    return sweep_call(
        call, (struct sweep_jobs){.state = call_value(call, "state"),
                                  .is_whole = !is_of_the_dead(call) && !call_value(call, "max")});
}

static int check_redrive(struct call *call)
{
    const char *id = call_argument(call, 1);
    int bodies = (call_value(call, "body") != NULL) + (call_value(call, "file") != NULL) +
                 (call_value(call, "edit") != NULL);
    bool is_bulk = bulk_is_meant(&call->args);
    if (id && call_value(call, "dry-run"))
        return cli_usage("'--dry-run' counts the jobs of a filter, leave it or the ID out");
    if (id && is_of_the_dead(call))
        return cli_usage("both an ID and a filter are given, choose one");
    if (bodies && is_bulk)
        return cli_usage("a body is for one job, give one ID");
    if (is_bulk && call_value(call, "max"))
        return cli_usage("both several IDs and '--max' are given, choose one");
    if (bodies > 1)
        return cli_usage("'--body', '--file' and '--edit' exclude each other, choose one");
    if (bodies && !id)
        return cli_usage("a body is for one job, not for all dead jobs of '%s', give an ID",
                         call_argument(call, 0));
    return -1;
}

static int check_purge(struct call *call)
{
    if (!call_value(call, "yes") && !call_value(call, "dry-run"))
        return cli_usage("removes jobs of '%s'%s and cannot be undone, add --yes",
                         call_argument(call, 0), cli_of_profile(&call->args));
    if (!call_value(call, "state") && is_of_the_dead(call))
        call_set(call, "state", "dead");
    if (!call_value(call, "dry-run"))
        cli_announce(&call->args, "purging", call_argument(call, 0));
    return -1;
}

const struct cli_command cli_dead_commands[] = {
    {.name = "redrive",
     .help = "make dead jobs ready again",
     .call =
         {.usage =
              "redrive TOPIC [ID... | -] [--body TEXT | --file FILE | --edit] [--error TEXT] ...",
          .about = "Makes dead jobs ready again and restarts their attempts: all, those named (- "
                   "reads ids\n"
                   "from standard input, one per line), or those that match all given options. One "
                   "job may\n"
                   "get another body.",
          .least = 1,
          .most = CLI_LIST_MAX,
          .flags = {SWEEP_FLAGS,
                    {"body", CLI_TEXT, "TEXT", "Replace the body of ID", .is_unsent = true},
                    {"file", CLI_TEXT, "FILE",
                     "Replace the body of ID by the contents of FILE; - is standard input",
                     .is_unsent = true},
                    {"edit", CLI_SWITCH, NULL, "Edit the body of ID with VISUAL or EDITOR",
                     .is_unsent = true},
                    {"force", CLI_SWITCH, NULL, "Send a body of type JSON that is not valid JSON",
                     .is_unsent = true}},
          .check = check_redrive,
          .requests = {{.bulk = "redrive", .done = "redriven"},
                       {.flags = {"body", "file", "edit"},
                        .path = "topics/{0}/jobs/{1}?body=base64",
                        .make = redrive_edited,
                        .print = print_edited},
                       {.path = "topics/{0}/redrive?id={1}",
                        .make = redrive,
                        .wait_ms = SWEEP_MS,
                        .print = sweep_print,
                        .done = "redriven"}}}},
    {.name = "purge",
     .help = "remove jobs of a topic permanently, except leased ones",
     .call = {.usage = "purge TOPIC [--state STATE] [--error TEXT] ... --yes",
              .about = "Removes the jobs of a topic permanently: all, those in one state, or the "
                       "dead ones that\n"
                       "match all given options. Leased jobs stay.",
              .least = 1,
              .most = 1,
              .flags = {{"state", CLI_TEXT, "STATE",
                         "Only jobs in this state: delayed, ready or dead"},
                        SWEEP_FLAGS,
                        {"yes", CLI_SWITCH, NULL, "Confirm the removal", .is_unsent = true}},
              .check = check_purge,
              .requests = {{.path = "topics/{0}/purge",
                            .make = purge,
                            .wait_ms = SWEEP_MS,
                            .print = sweep_print,
                            .done = "purged"}}}},
    {0},
};
