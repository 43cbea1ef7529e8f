#include "cli/schedule_import.h"

#include "base/buffer.h"
#include "cli/body.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 4096, ZONE_BYTES_MAX = 64 };

/* ---- crontab ---- */

/* The settings of a crontab that apply to the lines after them. */
struct crontab {
    const struct import_options *options;
    const struct import_notes *notes;
    json_t *set;
    char zone[ZONE_BYTES_MAX + 1];
    size_t jobs;
};

static void skip_blanks(char **at)
{
    *at += strspn(*at, " \t");
}

/* Reads NAME=VALUE. Returns false if the line is not one. */
static bool crontab_setting(struct crontab *crontab, char *line)
{
    char *equals = strchr(line, '=');
    size_t len = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789abcdefghijklmnopqrstuvwxyz");
    char *value = equals ? equals + 1 : NULL;
    if (!equals || len == 0 || line + len + strspn(line + len, " \t") != equals)
        return false;
    line[len] = 0;
    skip_blanks(&value);
    size_t value_len = strcspn(value, "\"'");
    if (value[0] == '"' || value[0] == '\'')
        value++, value_len = strcspn(value, "\"'");
    value[value_len] = 0;
    if (strcmp(line, "CRON_TZ") == 0 || strcmp(line, "TZ") == 0)
        snprintf(crontab->zone, sizeof crontab->zone, "%s", value);
    else if (strcmp(line, "MAILTO") == 0)
        crontab->notes->note(crontab->notes->ctx, line,
                             "output is not mailed: the worker decides what happens to it");
    else
        crontab->notes->note(crontab->notes->ctx, line,
                             "not a setting of schedules: set it for 'tarry work'");
    return true;
}

/* Splits a command at the first % that is not escaped: the rest is its input, with lines for %. */
static void crontab_command(const char *command, struct buffer *out)
{
    bool has_input = false;
    for (const char *at = command; *at; at++) {
        if (*at == '\\' && at[1] == '%') {
            buffer_append_byte(out, '%');
            at++;
        } else if (*at == '%') {
            buffer_append_text(out, has_input ? "\n" : " <<'TARRY_INPUT'\n");
            has_input = true;
        } else {
            buffer_append_byte(out, *at);
        }
    }
    if (has_input)
        buffer_append_text(out, "\nTARRY_INPUT\n");
}

/* Moves behind the expression: five fields, or one that begins with @. Returns its length, or 0. */
static size_t crontab_expression(const char *line)
{
    const char *at = line;
    int fields = *line == '@' ? 1 : 5;
    for (int i = 0; i < fields; i++) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t");
        if (!len)
            return 0;
        at += len;
    }
    return (size_t)(at - line);
}

static void crontab_job(struct crontab *crontab, char *line, size_t number)
{
    char subject[40], name[40];
    size_t len = crontab_expression(line);
    char *command = line + len;
    struct buffer body;
    snprintf(subject, sizeof subject, "line %zu", number);
    skip_blanks(&command);
    if (!len || !*command) {
        crontab->notes->note(crontab->notes->ctx, subject, "not a line of a crontab: left out");
        return;
    }
    if (strncmp(line, "@reboot", 7) == 0) {
        crontab->notes->note(crontab->notes->ctx, subject, "@reboot has no counterpart: left out");
        return;
    }
    snprintf(name, sizeof name, "crontab-%zu", ++crontab->jobs);
    buffer_init(&body, 2 * LINE_BYTES_MAX);
    crontab_command(command, &body);
    json_t *schedule = json_pack("{s:s, s:s, s:s%}", "name", name, "topic", crontab->options->topic,
                                 "cron", line, len);
    if (crontab->zone[0])
        json_object_set_new(schedule, "zone", json_string(crontab->zone));
    json_object_set_new(schedule, "overlap", json_string("allow"));
    json_object_set_new(schedule, "missed", json_string("none"));
    json_object_set_new(schedule, "body", json_stringn(body.at, body.len));
    if (json_array_append_new(crontab->set, schedule) != 0)
        crontab->notes->note(crontab->notes->ctx, subject, "not UTF-8: left out");
    buffer_fini(&body);
}

json_t *import_crontab(struct slice text, const struct import_options *options,
                       const struct import_notes *notes)
{
    struct crontab crontab = {.options = options, .notes = notes, .set = json_array()};
    size_t number = 0;
    if (options->zone)
        snprintf(crontab.zone, sizeof crontab.zone, "%s", options->zone);
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        char line[LINE_BYTES_MAX + 1], *at = line;
        number++;
        if (slice_copy(slice_make(text.at, len), line, sizeof line)) {
            skip_blanks(&at);
            at[strcspn(at, "\r")] = 0;
            if (*at && *at != '#' && !crontab_setting(&crontab, at))
                crontab_job(&crontab, at, number);
        } else {
            notes->note(notes->ctx, "a line", "too long: left out");
        }
        text.at += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
    return crontab.set;
}

/* ---- kubernetes ---- */

static void kubernetes_policy(const json_t *spec, json_t *schedule)
{
    const char *policy = json_string_value(json_object_get(spec, "concurrencyPolicy"));
    const json_t *deadline = json_object_get(spec, "startingDeadlineSeconds");
    char catch_up[40];
    if (policy && strcmp(policy, "Forbid") == 0)
        json_object_set_new(schedule, "overlap", json_string("skip"));
    if (policy && strcmp(policy, "Replace") == 0)
        json_object_set_new(schedule, "overlap", json_string("replace"));
    if (json_is_integer(deadline)) {
        snprintf(catch_up, sizeof catch_up, "%llds", (long long)json_integer_value(deadline));
        json_object_set_new(schedule, "catch_up", json_string(catch_up));
    }
    if (json_is_true(json_object_get(spec, "suspend")))
        json_object_set_new(schedule, "paused", json_true());
}

/* Reads the expression, which may begin with the zone, as in "CRON_TZ=Europe/Berlin 0 9 * * *". */
static void kubernetes_plan(const json_t *spec, json_t *schedule,
                            const struct import_options *options, const char *name,
                            const struct import_notes *notes)
{
    const char *cron = json_string_value(json_object_get(spec, "schedule"));
    const char *zone = json_string_value(json_object_get(spec, "timeZone"));
    char inner[ZONE_BYTES_MAX + 1] = "";
    const char *equals = cron ? strchr(cron, '=') : NULL;
    if (equals && (strncmp(cron, "CRON_TZ=", 8) == 0 || strncmp(cron, "TZ=", 3) == 0)) {
        size_t len = strcspn(equals + 1, " \t");
        snprintf(inner, sizeof inner, "%.*s", (int)(len < ZONE_BYTES_MAX ? len : ZONE_BYTES_MAX),
                 equals + 1);
        cron = equals + 1 + len;
        cron += strspn(cron, " \t");
        zone = inner;
    }
    json_object_set_new(schedule, "cron", json_string(cron ? cron : ""));
    if (!zone && !options->zone)
        notes->note(notes->ctx, name,
                    "no timeZone: UTC is used in place of the zone of kube-controller-manager");
    /* Its controller fires in both of two hours, and not in one that is left out. */
    json_object_set_new(schedule, "gap", json_string("skip"));
    json_object_set_new(schedule, "fold", json_string("both"));
    if (zone || options->zone)
        json_object_set_new(schedule, "zone", json_string(zone ? zone : options->zone));
}

static json_t *kubernetes_job(const json_t *item, const struct import_options *options,
                              const struct import_notes *notes)
{
    const json_t *metadata = json_object_get(item, "metadata"),
                 *spec = json_object_get(item, "spec");
    const char *name = json_string_value(json_object_get(metadata, "name"));
    const char *space = json_string_value(json_object_get(metadata, "namespace"));
    char full[256];
    if (!name || !json_is_string(json_object_get(spec, "schedule")))
        return NULL;
    snprintf(full, sizeof full, "%s%s%s", space ? space : "", space ? "." : "", name);
    json_t *schedule = json_pack("{s:s, s:s}", "name", full, "topic", options->topic);
    kubernetes_plan(spec, schedule, options, full, notes);
    kubernetes_policy(spec, schedule);
    json_t *template = json_object_get(spec, "jobTemplate");
    if (template)
        json_object_set(schedule, "body", template);
    return schedule;
}

json_t *import_kubernetes(struct slice text, const struct import_options *options,
                          const struct import_notes *notes)
{
    json_t *list = json_loadb(text.at ? text.at : "", text.len, 0, NULL), *set = json_array();
    json_t *items = json_object_get(list, "items");
    size_t count = items ? json_array_size(items) : 1;
    for (size_t i = 0; list && i < count; i++) {
        json_t *schedule = kubernetes_job(items ? json_array_get(items, i) : list, options, notes);
        if (schedule)
            json_array_append_new(set, schedule);
        else
            notes->note(notes->ctx, "an item", "not a CronJob: left out");
    }
    if (!list) {
        json_decref(set);
        set = NULL;
    }
    json_decref(list);
    return set;
}

/* ---- the command ---- */

static const struct kind {
    const char *name, *topic, *input;
    json_t *(*read)(struct slice text, const struct import_options *options,
                    const struct import_notes *notes);
    bool is_local; /* its times are in the zone of this machine */
} kinds[] = {
    {"crontab", "crontab", "a crontab, as printed by 'crontab -l'", import_crontab, true},
    {"kubernetes", "kubernetes", "the output of 'kubectl get cronjobs -A -o json'",
     import_kubernetes, false},
    {"quartz", "quartz", "the output of the query in docs/moving/quartz.md", import_quartz, false},
    {"celery", "celery", "the output of the script in docs/schedules.md", import_celery, false},
    {"bullmq", "bullmq", "the result of getJobSchedulers() as JSON", import_bullmq, false},
    {"river", "river", "the output of the function in docs/schedules.md", import_river, false},
    {"sidekiq-cron", "sidekiq", "Sidekiq::Cron::Job.all as JSON", import_sidekiq_cron, false},
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* Reads the name of this machine's zone. Returns NULL if it is UTC or not known. */
static const char *local_zone(char out[256])
{
    static const char mark[] = "zoneinfo/";
    ssize_t len = readlink("/etc/localtime", out, 255);
    if (len <= 0)
        return NULL;
    out[len] = 0;
    char *name = strstr(out, mark);
    name = name ? name + sizeof mark - 1 : NULL;
    bool is_utc = !name || strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0;
    return is_utc ? NULL : name;
}

static void print_note(void *ctx, const char *subject, const char *what)
{
    (void)ctx;
    fprintf(stderr, "%s: %s\n", subject, what);
}

int schedule_import(int argc, char **argv)
{
    struct import_options options = {0};
    const struct import_notes notes = {.note = print_note};
    struct cli_args args;
    struct buffer text;
    char place[256];
    const struct cli_flag flags[] = {
        {"topic", CLI_TEXT, &options.topic, "TOPIC", "Topic of the jobs (default: the kind)"},
        {"zone", CLI_TEXT, &options.zone, "ZONE",
         "Zone of schedules without one (default: crontab: of this machine; else UTC)"},
        {0}};
    const struct cli_syntax syntax = {
        .usage = "schedule import KIND [FILE]",
        .about =
            "Prints a set for 'tarry schedule apply', and what has no counterpart on standard "
            "error.\nReads FILE or standard input. Changes nothing.\nKIND: crontab, kubernetes, "
            "quartz, celery, bullmq, river, sidekiq-cron (see docs/schedules.md).",
        .flags = flags,
        .least = 1,
        .most = 2,
        .is_local = true};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    const struct kind *kind = find_kind(args.list.at[0]);
    if (!kind)
        return cli_usage("unknown kind '%s', give crontab, kubernetes, quartz, celery, bullmq, "
                         "river or sidekiq-cron",
                         args.list.at[0]);
    if (!options.topic)
        options.topic = kind->topic;
    if (!options.zone && kind->is_local)
        options.zone = local_zone(place);
    buffer_init(&text, BODY_BYTES_MAX);
    exit_code = body_read(args.list.count > 1 ? args.list.at[1] : "-", &text);
    json_t *set = exit_code == CLI_OK ? kind->read(buffer_slice(&text), &options, &notes) : NULL;
    if (exit_code == CLI_OK && !set)
        exit_code = cli_error("cannot read the input as JSON, give %s", kind->input);
    if (set) {
        json_t *whole = json_pack("{s:o}", "schedules", set);
        json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        putchar('\n');
        json_decref(whole);
    }
    buffer_fini(&text);
    return exit_code;
}
