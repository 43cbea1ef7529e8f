#include "cli/topic.h"

#include "base/duration.h"
#include "cli/body.h"
#include "cli/call.h"
#include "cli/show.h"
#include "cli/terminal.h"
#include "cli/topic_apply.h"
#include "job/job.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 256 };

/* ---- settings from the command line ---- */

static int parse_object(const char *flag, struct slice text, json_t **out)
{
    json_error_t error;
    *out = json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*out))
        return CLI_OK;
    if (*out)
        return cli_usage("bad value for '--%s', give a JSON object, @FILE or none", flag);
    return cli_usage("bad value for '--%s', %s at byte %d; give a JSON object, @FILE or none", flag,
                     error.text, error.position);
}

/* Reads a flag whose value is a JSON object, @FILE or none, as a member of the settings. */
static int read_object(const char *flag, const char *value, json_t *settings, const char *member)
{
    json_t *object = NULL;
    struct buffer file;
    int exit_code = CLI_OK;
    if (!value)
        return CLI_OK;
    buffer_init(&file, BODY_BYTES_MAX);
    if (strcmp(value, "none") == 0)
        object = json_null();
    else if (value[0] != '@')
        exit_code = parse_object(flag, slice_of(value), &object);
    else if ((exit_code = body_read(value + 1, &file)) == CLI_OK)
        exit_code = parse_object(flag, buffer_slice(&file), &object);
    if (exit_code == CLI_OK)
        json_object_set(settings, member, object);
    json_decref(object);
    buffer_fini(&file);
    return exit_code;
}

/* Returns the object of that name, and creates it if absent. Returns NULL if the member is not
 * an object. */
static json_t *need_object(json_t *in, const char *name)
{
    json_t *object = json_object_get(in, name);
    if (!object) {
        object = json_object();
        json_object_set_new(in, name, object);
    }
    return json_is_object(object) ? object : NULL;
}

int settings_read(const struct settings *given, json_t *out)
{
    int exit_code = read_object("deliver", given->deliver, out, "deliver");
    if (exit_code == CLI_OK)
        exit_code = read_object("dead-letter", given->dead_letter, out, "dead_letter");
    if (exit_code != CLI_OK || !given->deliver_to)
        return exit_code;
    json_t *deliver = need_object(out, "deliver");
    if (!deliver)
        return cli_usage("both '--deliver none' and '--deliver-to' are given, choose one");
    json_object_set_new(deliver, "to", json_string(given->deliver_to));
    return CLI_OK;
}

static json_t *read_value(const char *text)
{
    json_t *value =
        *text ? json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL) : json_null();
    return value ? value : json_string(text);
}

/* Returns whether a setting is a duration, by the last part of its name. */
static bool is_duration(const char *name)
{
    static const char *const names[] = {"lease_for", "ttl",           "dedup_window",
                                        "backoff",   "keep_finished", "history",
                                        "timeout",   "age",           "every"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int settings_add(json_t *settings, const char *text)
{
    char path[NAME_BYTES_MAX];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    if (len == 0 || len >= sizeof path)
        return cli_usage("bad setting '%s', write NAME=VALUE", text);
    memcpy(path, text, len);
    path[len] = '\0';
    char *name = path;
    for (char *dot; settings && (dot = strchr(name, '.')); name = dot + 1) {
        *dot = '\0';
        settings = need_object(settings, name);
    }
    if (!settings || json_object_get(settings, name))
        return cli_usage("'%s' is set twice, give it once", text);
    if (is_duration(name) && cli_lacks_unit(equals + 1))
        return cli_usage("no unit in '%s', write it as in 30s (ms, s, m, h, d)", text);
    json_t *value = read_value(equals + 1);
    if (!value)
        return cli_usage("bad setting '%s', the value must be UTF-8", text);
    json_object_set_new(settings, name, value);
    return CLI_OK;
}

void settings_drop_nulls(json_t *settings)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(settings, next, name, value)
    {
        if (json_is_null(value))
            json_object_del(settings, name);
        else
            settings_drop_nulls(value);
    }
}

/* ---- printing settings ---- */

static void print_value(const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t len = text ? strlen(text) : 0;
    /* Unnecessary quotes are omitted, unless the text would then be parsed as another
     * value. */
    json_t *other =
        json_is_string(value) ? json_loads(json_string_value(value), JSON_DECODE_ANY, NULL) : NULL;
    bool is_bare = json_is_string(value) && len > 2 && !other && !memchr(text, '\\', len);
    printf("%s=%.*s\n", name, (int)(is_bare ? len - 2 : len), len ? text + is_bare : "");
    json_decref(other);
    free(text);
}

void settings_print(const char *name, const json_t *value)
{
    const char *member;
    json_t *inner;
    char path[NAME_BYTES_MAX];
    if (!json_is_object(value) || (json_object_size(value) == 0 && *name)) {
        print_value(name, value);
        return;
    }
    json_object_foreach((json_t *)value, member, inner)
    {
        snprintf(path, sizeof path, "%.100s%s%.100s", name, *name ? "." : "", member);
        settings_print(path, inner);
    }
}

/* Fetches a page of topics. An older server returns all topics in one page without a cursor. */
static int add_page(struct client *client, const char *cursor, json_t *all)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_query(target, "cursor", cursor);
    int exit_code = client_call(client, "GET", NULL, 0);
    json_t *topics = json_object_get(client->json, "topics");
    if (exit_code != CLI_OK)
        return exit_code;
    if (!json_is_array(topics))
        return cli_error(
            "unexpected answer from '%s', check that it is a tarry server of this version",
            client->shown);
    return json_array_extend(all, topics) == 0 ? CLI_OK : cli_error("out of memory");
}

int topic_pages(struct client *client, json_t **out)
{
    char cursor[JOB_TOPIC_BYTES_MAX + 1] = "";
    json_t *all = json_array();
    int exit_code = all ? CLI_OK : cli_error("out of memory");
    const char *next = "";
    while (exit_code == CLI_OK && next) {
        exit_code = add_page(client, cursor[0] ? cursor : NULL, all);
        next =
            exit_code == CLI_OK ? json_string_value(json_object_get(client->json, "cursor")) : NULL;
        if (next)
            snprintf(cursor, sizeof cursor, "%s", next);
    }
    if (exit_code == CLI_OK && !(*out = json_pack("{s:O,s:n}", "topics", all, "cursor")))
        exit_code = cli_error("out of memory");
    json_decref(all);
    return exit_code;
}

/* topic show, topic set, topic delete: show or change the settings of a topic as NAME=VALUE, or
 * delete it. */

/* ---- show ---- */

/* Prints the held jobs, a part of the ready ones, as "; held 3: group_limit 2, hold 1". */
static void print_held(const json_t *counts, const json_t *held_by)
{
    const char *reason, *before = ":";
    const json_t *jobs;
    if (!json_object_get(counts, "held"))
        return;
    printf("; held %lld", (long long)json_integer_value(json_object_get(counts, "held")));
    json_object_foreach((json_t *)(uintptr_t)held_by, reason, jobs)
    {
        printf("%s %s %lld", before, reason, (long long)json_integer_value(jobs));
        before = ",";
    }
}

/* Returns whether the circuit breaker of the topic's target keeps jobs back. */
static bool breaker_is_open(const json_t *topic)
{
    const char *state = json_string_value(json_object_get(topic, "breaker"));
    return state && strcmp(state, "closed") != 0;
}

static void print_breaker(const json_t *topic)
{
    const char *state = json_string_value(json_object_get(topic, "breaker"));
    if (breaker_is_open(topic))
        printf("; circuit breaker of the target %s",
               strcmp(state, "half_open") == 0 ? "half open" : state);
}

static void print_topic(const struct call *call)
{
    const json_t *topic = call->client.json;
    static const char *const counts[] = {"delayed", "retrying", "ready", "leased", "dead"};
    const json_t *held = json_object_get(topic, "counts");
    char name[SHOW_CELL_BYTES];
    const json_t *soon = json_object_get(topic, "soon");
    const json_t *until = json_object_get(topic, "paused_until");
    char until_text[SHOW_CELL_BYTES];
    printf("%s%s", show_text(json_object_get(topic, "topic"), name),
           json_is_true(json_object_get(topic, "paused")) ? ", paused" : "");
    if (json_is_string(until))
        printf(" until %s", show_time_from_now(until, until_text));
    putchar(':');
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        printf("%s %s %lld", i ? "," : "", counts[i],
               (long long)json_integer_value(json_object_get(held, counts[i])));
    print_held(held, json_object_get(topic, "held_by"));
    if (json_is_integer(soon))
        printf("; due within a minute %lld", (long long)json_integer_value(soon));
    print_breaker(topic);
    putchar('\n');
    settings_print("", json_object_get(topic, "settings"));
}

/* ---- set ---- */

/* Writes the given settings: all of them for PUT, changes for PATCH. */
static int write_settings(struct call *call, struct buffer *out)
{
    const struct settings given = {.deliver_to = call_value(call, "deliver-to"),
                                   .deliver = call_value(call, "deliver"),
                                   .dead_letter = call_value(call, "dead-letter")};
    bool replaces = call_value(call, "replace");
    json_t *settings = json_object();
    int exit_code = settings_read(&given, settings);
    for (size_t i = 2; exit_code == CLI_OK && i < call->args.list.count; i++)
        exit_code = settings_add(settings, call->args.list.at[i]);
    if (exit_code == CLI_OK && !replaces && json_object_size(settings) == 0)
        exit_code =
            cli_usage("nothing to set, give NAME=VALUE, or --replace to reset all settings");
    if (replaces)
        settings_drop_nulls(settings);
    char *text = exit_code == CLI_OK ? json_dumps(settings, JSON_COMPACT) : NULL;
    buffer_append_text(out, text ? text : "");
    client_add_header(&call->client, replaces ? "Content-Type: application/json"
                                              : "Content-Type: application/merge-patch+json");
    free(text);
    json_decref(settings);
    return exit_code;
}

/* Creates a topic with these settings; removed ones are absent. */
static int create_topic(struct call *call, const struct slice *changes)
{
    json_t *settings = json_loadb(changes->at, changes->len, 0, NULL);
    settings_drop_nulls(settings);
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    call_begin(call);
    client_add_header(&call->client, "Content-Type: application/json");
    int exit_code = client_call(&call->client, "PUT", &body, 0);
    free(text);
    json_decref(settings);
    return exit_code;
}

/* Changes the given settings; creates the topic if it does not exist. */
static int change_topic(struct call *call, const struct slice *changes)
{
    struct client *client = &call->client;
    long status = 0;
    bool is_new;
    CURLcode code;
    /* A patch of a missing topic would be a failure in the audit log. */
    call_begin(call);
    if (!client_look(client, &code, &is_new))
        return CLI_REFUSED;
    if (is_new)
        return create_topic(call, changes);
    call_begin(call);
    client_add_header(client, "Content-Type: application/merge-patch+json");
    if (!client_prepare(client, "PATCH", changes, 0))
        return CLI_REFUSED;
    code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_OK && status == 404 ? create_topic(call, changes)
                                             : client_finish(client, code);
}

static void print_deleted(const struct call *call)
{
    long long jobs = json_integer_value(call_member(call, "jobs"));
    printf("deleted %s with %lld job%s\n", call_argument(call, 1), jobs, jobs == 1 ? "" : "s");
}

static int check_topic(struct call *call)
{
    const char *verb = call->request->verb, *rest = call_argument(call, 2);
    bool is_delete = strcmp(verb, "delete") == 0;
    if (is_delete && !call_value(call, "yes"))
        return cli_usage("deletes '%s'%s with all its jobs and cannot be undone, add --yes",
                         call_argument(call, 1), cli_of_profile(&call->args));
    if (is_delete && rest)
        return cli_usage("unexpected argument '%s', delete one topic at a time", rest);
    if (strcmp(verb, "apply") == 0 && rest)
        return cli_usage("unexpected argument '%s', apply one file at a time", rest);
    if (strcmp(verb, "apply") != 0 && call_value(call, "dry-run"))
        return cli_usage("'--dry-run' is for 'tarry topic apply', leave it out");
    if (strcmp(verb, "show") == 0 && rest)
        return cli_usage("unexpected argument '%s', did you mean 'tarry topic set'", rest);
    if (is_delete)
        cli_announce(&call->args, "deleting", call_argument(call, 1));
    return -1;
}

/* topics, consumers: list topics and the consumers of a topic. */

/* ---- topics ---- */

/* Returns the state of the topic's circuit breaker in words. */
static const char *breaker_words(const json_t *topic)
{
    const char *state = json_string_value(json_object_get(topic, "breaker"));
    return state && strcmp(state, "half_open") == 0 ? "half open" : state;
}

static void add_topic_row(struct show_table *table, const json_t *topic)
{
    static const char *const counts[] = {"delayed", "retrying", "ready", "leased", "dead"};
    char cell[SHOW_CELL_BYTES];
    const json_t *held = json_object_get(topic, "counts");
    show_table_add(table, show_text(json_object_get(topic, "topic"), cell));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        show_table_add(table, show_text(json_object_get(held, counts[i]), cell));
    show_table_add(table, show_time_from_now(json_object_get(topic, "oldest_ready_due_at"), cell));
    const json_t *until = json_object_get(topic, "paused_until");
    char pause[SHOW_CELL_BYTES + 16] = "";
    if (json_is_string(until))
        snprintf(pause, sizeof pause, "paused until %s", show_time_from_now(until, cell));
    else if (json_is_true(json_object_get(topic, "paused")))
        snprintf(pause, sizeof pause, "paused");
    else if (breaker_is_open(topic))
        snprintf(pause, sizeof pause, "circuit breaker %s", breaker_words(topic));
    show_table_add(table, pause);
}

/* The columns by which topics can be sorted, beside the name; largest or oldest first. */
static const char *const sorts[] = {"delayed", "retrying", "ready", "leased", "dead", "oldest"};
enum { SORTS = sizeof sorts / sizeof sorts[0], OLDEST = SORTS - 1 };

static bool is_sort(const char *name)
{
    for (size_t i = 0; i < SORTS; i++)
        if (strcmp(name, sorts[i]) == 0)
            return true;
    return false;
}

/* A topic of the list, with its key in the order. */
struct sorted_topic {
    json_t *topic;
    const char *oldest; /* "": no job is ready */
    json_int_t count;
};

/* Orders times of the API, which compare as text. A topic without one comes last. */
static int compare_oldest(const char *a, const char *b)
{
    return !*a || !*b ? (*b != '\0') - (*a != '\0') : strcmp(a, b);
}

static int compare_topics(const void *left, const void *right)
{
    const struct sorted_topic *a = left, *b = right;
    int order = a->count != b->count ? (a->count < b->count ? 1 : -1)
                                     : compare_oldest(a->oldest, b->oldest);
    return order ? order
                 : strcmp(json_string_value(json_object_get(a->topic, "topic")),
                          json_string_value(json_object_get(b->topic, "topic")));
}

static struct sorted_topic sorted_topic(json_t *topic, const char *sort)
{
    bool by_age = strcmp(sort, sorts[OLDEST]) == 0;
    const char *oldest = json_string_value(json_object_get(topic, "oldest_ready_due_at"));
    return (struct sorted_topic){
        .topic = topic,
        .oldest = by_age && oldest ? oldest : "",
        .count = by_age
                     ? 0
                     : json_integer_value(json_object_get(json_object_get(topic, "counts"), sort)),
    };
}

/* Returns the topics in an order, or NULL without memory. */
static json_t *sort_topics(json_t *topics, const char *sort)
{
    size_t count = json_array_size(topics);
    struct sorted_topic *all = calloc(count + 1, sizeof *all);
    json_t *out = all ? json_array() : NULL;
    for (size_t i = 0; out && i < count; i++)
        all[i] = sorted_topic(json_array_get(topics, i), sort);
    if (out)
        qsort(all, count, sizeof *all, compare_topics);
    for (size_t i = 0; out && i < count; i++)
        json_array_append(out, all[i].topic);
    free(all);
    return out;
}

/* Returns the topics whose name fits the pattern. */
static json_t *fitting_topics(json_t *topics, const char *pattern)
{
    json_t *out = json_array(), *topic;
    size_t i;
    json_array_foreach(topics, i, topic)
    {
        const char *name = json_string_value(json_object_get(topic, "topic"));
        if (name && fnmatch(pattern, name, 0) == 0)
            json_array_append(out, topic);
    }
    return out;
}

static void print_topics(const struct call *call)
{
    static const char *const heads[] = {"TOPIC", ">DELAYED",     ">RETRYING", ">READY", ">LEASED",
                                        ">DEAD", "OLDEST READY", "",          NULL};
    struct show_table table;
    size_t i;
    const json_t *topic, *topics = call_member(call, "topics");
    show_table_init(&table, heads);
    if (topics)
        json_array_foreach(topics, i, topic) add_topic_row(&table, topic);
    else
        add_topic_row(&table, call->client.json);
    show_table_print(&table);
    show_table_fini(&table);
}

/* Fetches all pages, as one answer. */
static int fetch_topics(struct call *call)
{
    struct client *client = &call->client;
    const char *pattern = call_argument(call, 0), *sort = call_value(call, "sort");
    json_t *all;
    int exit_code = topic_pages(client, &all);
    if (exit_code != CLI_OK)
        return exit_code;
    if (pattern)
        json_object_set_new(all, "topics", fitting_topics(json_object_get(all, "topics"), pattern));
    if (sort && strcmp(sort, "name") != 0)
        json_object_set_new(all, "topics", sort_topics(json_object_get(all, "topics"), sort));
    return client_set_answer(client, all);
}

static bool has_no_topic(const struct call *call)
{
    return call_argument(call, 0) && json_array_size(call_member(call, "topics")) == 0;
}

/* Prints the table again and again, each time on an empty screen if the output is a terminal. */
static int watch_topics(struct call *call, int64_t pause_ms)
{
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    int exit_code;
    while ((exit_code = fetch_topics(call)) == CLI_OK) {
        if (terminal_can_erase(STDOUT_FILENO))
            fputs("\033[H\033[J", stdout);
        if (call->args.json)
            client_print_json(&call->client);
        else
            print_topics(call);
        if (fflush(stdout) != 0)
            return CLI_REFUSED;
        nanosleep(&pause, NULL);
    }
    return exit_code;
}

static int fetch_topic(struct call *call, const char *name)
{
    struct buffer *target = client_begin(&call->client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, name);
    return client_call(&call->client, "GET", NULL, 0);
}

static int make_topics(struct call *call, const struct slice *body)
{
    const char *name = call_argument(call, 0);
    int64_t pause_ms;
    (void)body;
    if (call_value(call, "watch") &&
        duration_parse(slice_of(call_value(call, "watch")), INT64_MAX, &pause_ms))
        return watch_topics(call, pause_ms);
    bool is_one = name && !strpbrk(name, "*?[");
    int exit_code = is_one ? fetch_topic(call, name) : fetch_topics(call);
    if (is_one && exit_code == CLI_NOTHING && strcmp(name, "list") == 0 && !call->args.json)
        cli_error("'tarry topics' lists all topics");
    if (is_one)
        return exit_code;
    if (exit_code == CLI_OK && has_no_topic(call)) {
        cli_error("no topic fits '%s', 'tarry topics' lists all", name);
        return CLI_NOTHING;
    }
    return exit_code;
}

static int check_topics(struct call *call)
{
    const char *sort = call_value(call, "sort"), *watch = call_value(call, "watch");
    int64_t pause_ms;
    if (sort && strcmp(sort, "name") != 0 && !is_sort(sort))
        return cli_usage("bad value '%s' for '--sort', give name, delayed, retrying, ready, "
                         "leased, dead or oldest",
                         sort);
    if (watch && (!duration_parse(slice_of(watch), INT64_MAX, &pause_ms) || pause_ms < 100))
        return cli_usage("bad value '%s' for '--watch', give at least 100ms", watch);
    return -1;
}

/* ---- consumers ---- */

static void print_pushers(const json_t *pushers)
{
    char name[SHOW_CELL_BYTES], when[SHOW_CELL_BYTES];
    size_t i;
    const json_t *one;
    json_array_foreach(pushers, i, one)
    {
        fprintf(stderr, "%s%s, %s", i ? "; " : "pushed by ",
                show_text(json_object_get(one, "caller"), name),
                show_time_from_now(json_object_get(one, "seen_at"), when));
    }
    if (i)
        fputc('\n', stderr);
}

static void print_consumers(const struct call *call)
{
    static const char *const heads[] = {"CONSUMER", ">LEASED", ">TAKEN", "SEEN", NULL};
    json_int_t unnamed = json_integer_value(call_member(call, "unnamed"));
    json_int_t waiting = json_integer_value(call_member(call, "waiting"));
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *one;
    show_table_init(&table, heads);
    json_array_foreach(call_member(call, "consumers"), i, one)
    {
        show_table_add(&table, show_text(json_object_get(one, "consumer"), cell));
        show_table_add(&table, show_text(json_object_get(one, "leased"), cell));
        show_table_add(&table, show_text(json_object_get(one, "taken"), cell));
        show_table_add(&table, show_time_from_now(json_object_get(one, "seen_at"), cell));
    }
    if (i)
        show_table_print(&table);
    else if (!unnamed && !waiting)
        fputs("tarry: no consumer takes from it\n", stderr);
    show_table_fini(&table);
    if (unnamed)
        fprintf(stderr, "%lld lease%s held by consumers without a name\n", (long long)unnamed,
                unnamed == 1 ? " is" : "s are");
    if (waiting)
        fprintf(stderr, "%lld take%s for jobs, %lld without a consumer's name\n",
                (long long)waiting, waiting == 1 ? " waits" : "s wait",
                (long long)json_integer_value(call_member(call, "waiting_unnamed")));
    print_pushers(call_member(call, "pushers"));
    if (json_is_false(call_member(call, "complete")))
        fputs("there are more leases, which were not counted\n", stderr);
}

/* ---- the commands ---- */

const struct cli_command cli_topic_commands[] = {
    {.name = "consumers",
     .help = "show the consumers of a topic",
     .call = {.usage = "consumers TOPIC",
              .about = "Shows the consumers that hold jobs of the topic, and those that took jobs "
                       "from this server,\nor tried to, in the last 24 hours, by the names in "
                       "their takes.",
              .least = 1,
              .most = 1,
              .requests =
                  {{.method = "GET", .path = "topics/{0}/consumers", .print = print_consumers}}}},
    {.name = "topics",
     .help = "show topics with their number of jobs",
     .call = {.usage = "topics [PATTERN] [--sort COLUMN] [--watch 2s] [--settings]",
              .about =
                  "Shows topics with their number of jobs in each state. A pattern is a name "
                  "that may\n"
                  "contain * (any text), ? (any character) and [abc] (one of these characters).\n"
                  "\n"
                  "  tarry topics 'orders-*' --sort ready\n"
                  "  tarry topics --sort oldest --watch 2s\n"
                  "  tarry topics --settings > topics.json",
              .most = 1,
              .flags = {{"sort", CLI_TEXT, "COLUMN",
                         "Sort by name (default), delayed, retrying, ready, leased, dead or oldest",
                         .is_unsent = true},
                        {"watch", CLI_DURATION, "2s", "Print the topics again at this interval",
                         .is_unsent = true},
                        {"settings", CLI_SWITCH, NULL,
                         "Print the settings as JSON, for 'tarry topic apply'", .is_unsent = true}},
              .pairs = {{"settings", "watch"}, {"settings", "sort"}},
              .check = check_topics,
              .requests = {{.flags = {"settings"},
                            .path = "topics",
                            .make = make_topics,
                            .print = topic_settings_print},
                           {.path = "topics", .make = make_topics, .print = print_topics}}}},
    {.name = "topic",
     .help = "show or change a topic's settings, or delete it",
     .call =
         {.usage = "topic show TOPIC | topic set TOPIC [NAME=VALUE]... [--deliver-to URL] | "
                   "topic delete TOPIC --yes | topic apply FILE [--dry-run]",
          .about =
              "Shows the settings of a topic, changes the given ones, or deletes the topic with "
              "all "
              "its\n"
              "jobs, including leased ones. 'apply' gives each topic in FILE exactly the settings "
              "that\n"
              "FILE lists, and leaves other topics unchanged. 'tarry topics --settings' prints "
              "such a\n"
              "file: {\"orders\":{\"max_attempts\":5}}.\n"
              "NAME= resets a setting. A name with dots addresses a member of an object; a value "
              "that is\n"
              "JSON is used as such, others as text. Names: lease_for, ttl, max_attempts, "
              "backoff,\n"
              "on_conflict, priority, dedup_window, dead_letter_expired, max_jobs, push_rate,\n"
              "history, keep_finished, keep_finished_max, keep_finished_bytes, keep_body, limit, "
              "rate,\n"
              "burst, group_limit, group_rate, group_burst, group_max_jobs, group_order, "
              "one_shard,\n"
              "deliver.…, dead_letter.…\n"
              "\n"
              "  tarry topic set orders max_attempts=5 backoff=exp:1s..10m\n"
              "  tarry topic set orders --deliver-to https://shop.example/close-order\n"
              "  tarry topic set orders deliver.max_in_flight=16 deliver.rate=100/s\n"
              "  tarry topic set calls rate=10/s group_limit=1\n"
              "  tarry topic set orders dead_letter.keep.age=30d\n"
              "  tarry topic set orders --deliver none\n"
              "\n"
              "'tarry deliver test TOPIC' tests the target.",
          .least = 2,
          .most = CLI_LIST_MAX,
          .flags = {{"deliver-to", CLI_TEXT, "URL", "set: Deliver its jobs to this URL",
                     .is_unsent = true},
                    {"deliver", CLI_TEXT, "JSON", "set: Delivery settings; JSON, @FILE, or none",
                     .is_unsent = true},
                    {"dead-letter", CLI_TEXT, "JSON",
                     "set: Settings for dead jobs; JSON, @FILE, or none", .is_unsent = true},
                    {"replace", CLI_SWITCH, NULL, "set: Reset all settings that are not given",
                     .is_unsent = true},
                    {"yes", CLI_SWITCH, NULL,
                     "delete: Confirm the deletion of the topic and its jobs", .is_unsent = true},
                    {"dry-run", CLI_SWITCH, NULL, "apply: Print the changes and make none",
                     .is_unsent = true}},
          .check = check_topic,
          .requests =
              {{.verb = "show", .method = "GET", .path = "topics/{1}", .print = print_topic},
               {.verb = "set",
                .flags = {"replace"},
                .method = "PUT",
                .path = "topics/{1}",
                .body = write_settings,
                .print = print_topic},
               {.verb = "set",
                .path = "topics/{1}",
                .body = write_settings,
                .make = change_topic,
                .print = print_topic},
               {.verb = "apply", .path = "topics", .make = topic_apply, .print = topic_apply_print},
               {.verb = "delete",
                .method = "DELETE",
                .path = "topics/{1}",
                .print = print_deleted}}}},
    {0},
};
