#include "cli/topic.h"

#include "cli/body.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const names[] = {"lease_for", "ttl",     "dedup_window", "backoff",
                                        "history",   "timeout", "age",          "every"};
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
    /* Quotes are omitted if the text needs none, unless it would then be parsed as another
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

static void print_topic(const json_t *topic)
{
    static const char *const counts[] = {"delayed", "retrying", "ready", "leased", "dead"};
    const json_t *held = json_object_get(topic, "counts");
    char name[SHOW_CELL_BYTES];
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
    putchar('\n');
    settings_print("", json_object_get(topic, "settings"));
}

static struct buffer *begin_topic(struct client *client, const struct cli_args *args)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args->list.at[1]);
    return target;
}

static int finish_topic(const struct client *client, const struct cli_args *args, int exit_code)
{
    if (exit_code == CLI_OK && args->json)
        client_print_json(client);
    else if (exit_code == CLI_OK)
        print_topic(client->json);
    return exit_code;
}

static int topic_show(struct client *client, const struct cli_args *args)
{
    begin_topic(client, args);
    return finish_topic(client, args, client_call(client, "GET", NULL, 0));
}

/* ---- set ---- */

/* Replaces all settings; removed settings are absent. */
static int put_settings(struct client *client, const struct cli_args *args, json_t *settings)
{
    settings_drop_nulls(settings);
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    begin_topic(client, args);
    client_add_header(client, "Content-Type: application/json");
    int exit_code = client_call(client, "PUT", &body, 0);
    free(text);
    return exit_code;
}

/* Changes the given settings; creates the topic if it does not exist. */
static int patch_settings(struct client *client, const struct cli_args *args, json_t *settings)
{
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    int exit_code = CLI_REFUSED;
    long status = 0;
    begin_topic(client, args);
    client_add_header(client, "Content-Type: application/merge-patch+json");
    if (client_prepare(client, "PATCH", &body, 0)) {
        CURLcode code = curl_easy_perform(client->curl);
        curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
        exit_code = code == CURLE_OK && status == 404 ? put_settings(client, args, settings)
                                                      : client_finish(client, code);
    }
    free(text);
    return exit_code;
}

static int topic_set(struct client *client, const struct cli_args *args,
                     const struct settings *given)
{
    json_t *settings = json_object();
    int exit_code = settings_read(given, settings);
    for (size_t i = 2; exit_code == CLI_OK && i < args->list.count; i++)
        exit_code = settings_add(settings, args->list.at[i]);
    if (exit_code == CLI_OK && !given->replaces && json_object_size(settings) == 0)
        exit_code =
            cli_usage("nothing to set, give NAME=VALUE, or --replace to reset all settings");
    if (exit_code == CLI_OK)
        exit_code = finish_topic(client, args,
                                 given->replaces ? put_settings(client, args, settings)
                                                 : patch_settings(client, args, settings));
    json_decref(settings);
    return exit_code;
}

/* ---- delete ---- */

static int topic_delete(struct client *client, const struct cli_args *args)
{
    begin_topic(client, args);
    int exit_code = client_call(client, "DELETE", NULL, 0);
    long long jobs = json_integer_value(json_object_get(client->json, "jobs"));
    if (exit_code == CLI_OK && args->json)
        client_print_json(client);
    else if (exit_code == CLI_OK)
        printf("deleted %s with %lld job%s\n", args->list.at[1], jobs, jobs == 1 ? "" : "s");
    return exit_code;
}

static int topic_command(int argc, char **argv)
{
    struct settings given = {0};
    bool yes = false;
    const struct cli_flag flags[] = {
        {"deliver-to", CLI_TEXT, &given.deliver_to, "URL", "set: Deliver its jobs to this URL"},
        {"deliver", CLI_TEXT, &given.deliver, "JSON",
         "set: Delivery settings; JSON, @FILE, or none"},
        {"dead-letter", CLI_TEXT, &given.dead_letter, "JSON",
         "set: Settings for dead jobs; JSON, @FILE, or none"},
        {"replace", CLI_SWITCH, &given.replaces, NULL,
         "set: Reset all settings that are not given"},
        {"yes", CLI_SWITCH, &yes, NULL, "delete: Confirm the deletion of the topic and its jobs"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "topic show TOPIC | topic set TOPIC [NAME=VALUE]... [--deliver-to URL] | "
                 "topic delete TOPIC --yes",
        .about =
            "Shows the settings of a topic, changes the given ones, or deletes the topic with all "
            "its\n"
            "jobs, including leased ones.\n"
            "NAME= resets a setting. A name with dots addresses a member of an object; a value "
            "that is\n"
            "JSON is used as such, others as text. Names: lease_for, ttl, max_attempts, backoff,\n"
            "on_conflict, priority, dedup_window, dead_letter_expired, max_jobs, push_rate,\n"
            "history, deliver.…, dead_letter.…\n"
            "\n"
            "  tarry topic set orders max_attempts=5 backoff=exp:1s..10m\n"
            "  tarry topic set orders --deliver-to https://shop.example/close-order\n"
            "  tarry topic set orders deliver.max_in_flight=16 deliver.rate=100/s\n"
            "  tarry topic set orders dead_letter.keep.age=30d\n"
            "  tarry topic set orders --deliver none\n"
            "\n"
            "'tarry deliver test TOPIC' tests the target.",
        .flags = flags,
        .least = 2,
        .most = CLI_LIST_MAX,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    bool is_show = strcmp(args.list.at[0], "show") == 0;
    bool is_delete = strcmp(args.list.at[0], "delete") == 0;
    if (!is_show && !is_delete && strcmp(args.list.at[0], "set") != 0)
        return cli_usage("unknown '%s', usage: tarry %s", args.list.at[0], syntax.usage);
    if (is_delete && !yes)
        return cli_usage(
            "nothing deleted, '%s' and its jobs could not be recovered, give --yes to confirm",
            args.list.at[1]);
    if (is_delete && args.list.count > 2)
        return cli_usage("unexpected argument '%s', delete one topic at a time", args.list.at[2]);
    if (is_show && args.list.count > 2)
        return cli_usage("unexpected argument '%s', did you mean 'tarry topic set'",
                         args.list.at[2]);
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = is_show     ? topic_show(&client, &args)
                : is_delete ? topic_delete(&client, &args)
                            : topic_set(&client, &args, &given);
    client_close(&client);
    return exit_code;
}

/* topics, consumers: list topics and the consumers of a topic. */

/* ---- topics ---- */

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
    show_table_add(table, pause);
}

static void print_topics(const json_t *answer)
{
    static const char *const heads[] = {"TOPIC", ">DELAYED",     ">RETRYING", ">READY", ">LEASED",
                                        ">DEAD", "OLDEST READY", "",          NULL};
    struct show_table table;
    size_t i;
    const json_t *topic, *topics = json_object_get(answer, "topics");
    show_table_init(&table, heads);
    if (topics)
        json_array_foreach(topics, i, topic) add_topic_row(&table, topic);
    else
        add_topic_row(&table, answer);
    show_table_print(&table);
    show_table_fini(&table);
}

static int show_topic(struct client *client, const struct cli_args *args)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args->list.at[0]);
    int exit_code = client_call(client, "GET", NULL, 0);
    if (exit_code == CLI_OK && args->json)
        client_print_json(client);
    else if (exit_code == CLI_OK)
        print_topics(client->json);
    return exit_code;
}

static int show_topics(struct client *client, const struct cli_args *args)
{
    json_t *all;
    int exit_code = topic_pages(client, &all);
    if (exit_code != CLI_OK)
        return exit_code;
    if (args->json && !show_json(all, stdout))
        exit_code = cli_error("cannot write to standard output, %s", strerror(errno));
    else if (!args->json)
        print_topics(all);
    json_decref(all);
    return exit_code;
}

static int topics_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "topics [TOPIC]",
        .about = "Shows topics with their number of jobs in each state.",
        .most = 1,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = args.list.count ? show_topic(&client, &args) : show_topics(&client, &args);
    client_close(&client);
    return exit_code;
}

/* ---- consumers ---- */

static void print_consumers(const json_t *answer)
{
    static const char *const heads[] = {"CONSUMER", ">LEASED", ">TAKEN", "SEEN", NULL};
    json_int_t unnamed = json_integer_value(json_object_get(answer, "unnamed"));
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    size_t i;
    const json_t *one;
    show_table_init(&table, heads);
    json_array_foreach(json_object_get(answer, "consumers"), i, one)
    {
        show_table_add(&table, show_text(json_object_get(one, "consumer"), cell));
        show_table_add(&table, show_text(json_object_get(one, "leased"), cell));
        show_table_add(&table, show_text(json_object_get(one, "taken"), cell));
        show_table_add(&table, show_time_from_now(json_object_get(one, "seen_at"), cell));
    }
    if (i)
        show_table_print(&table);
    else if (!unnamed)
        fputs("tarry: no consumer takes from it\n", stderr);
    show_table_fini(&table);
    if (unnamed)
        fprintf(stderr, "%lld more leases are held by consumers without a name\n",
                (long long)unnamed);
    if (json_is_false(json_object_get(answer, "complete")))
        fputs("there are more leases, which were not counted\n", stderr);
}

static int consumers_command(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "consumers TOPIC",
        .about = "Shows the consumers that hold jobs of the topic, and those that took jobs from "
                 "this server,\nor tried to, in the last 5 minutes, by the names in their takes.",
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    struct client client;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    struct buffer *target = client_begin(&client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args.list.at[0]);
    cli_url_add_segment(target, "consumers");
    exit_code = client_call(&client, "GET", NULL, 0);
    if (exit_code == CLI_OK && args.json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        print_consumers(client.json);
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_topic_commands[] = {
    {.name = "consumers", .run = consumers_command, .help = "show the consumers of a topic"},
    {.name = "topics", .run = topics_command, .help = "show topics with their number of jobs"},
    {.name = "topic",
     .run = topic_command,
     .help = "show or change a topic's settings, or delete it"},
    {0},
};
