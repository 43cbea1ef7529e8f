/* topic show, topic set, topic delete: the settings of a topic, as NAME=VALUE, and its end. */
#include "cli/body.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/settings.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- show ---- */

static void print(const json_t *topic)
{
    static const char *const counts[] = {"delayed", "retrying", "ready", "leased", "dead"};
    const json_t *held = json_object_get(topic, "counts");
    char name[SHOW_CELL_BYTES];
    printf("%s%s:", show_text(json_object_get(topic, "topic"), name),
           json_is_true(json_object_get(topic, "paused")) ? ", paused" : "");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        printf("%s %s %lld", i ? "," : "", counts[i],
               (long long)json_integer_value(json_object_get(held, counts[i])));
    putchar('\n');
    settings_print("", json_object_get(topic, "settings"));
}

static struct buffer *begin(struct client *client, const struct cli_args *args)
{
    struct buffer *target = client_begin(client);
    url_add_segment(target, "topics");
    url_add_segment(target, args->list.at[1]);
    return target;
}

static int finish(const struct client *client, const struct cli_args *args, int exit_code)
{
    if (exit_code == CLI_OK && args->json)
        client_print_json(client);
    else if (exit_code == CLI_OK)
        print(client->json);
    return exit_code;
}

static int show(struct client *client, const struct cli_args *args)
{
    begin(client, args);
    return finish(client, args, client_call(client, "GET", NULL, 0));
}

/* ---- set ---- */

/* As a whole: what is to go is not there. */
static int put(struct client *client, const struct cli_args *args, json_t *settings)
{
    settings_drop_nulls(settings);
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    begin(client, args);
    client_add_header(client, "Content-Type: application/json");
    int exit_code = client_call(client, "PUT", &body, 0);
    free(text);
    return exit_code;
}

/* In part; a topic that is not there yet is made. */
static int patch(struct client *client, const struct cli_args *args, json_t *settings)
{
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    int exit_code = CLI_REFUSED;
    long status = 0;
    begin(client, args);
    client_add_header(client, "Content-Type: application/merge-patch+json");
    if (client_prepare(client, "PATCH", &body, 0)) {
        CURLcode code = curl_easy_perform(client->curl);
        curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
        exit_code = code == CURLE_OK && status == 404 ? put(client, args, settings)
                                                      : client_finish(client, code);
    }
    free(text);
    return exit_code;
}

static int set(struct client *client, const struct cli_args *args, const struct settings *given)
{
    json_t *settings = json_object();
    int exit_code = settings_read(given, settings);
    for (size_t i = 2; exit_code == CLI_OK && i < args->list.count; i++)
        exit_code = settings_add(settings, args->list.at[i]);
    if (exit_code == CLI_OK && !given->replaces && json_object_size(settings) == 0)
        exit_code = cli_usage("nothing to set, give NAME=VALUE, or --replace to drop all settings");
    if (exit_code == CLI_OK)
        exit_code =
            finish(client, args,
                   given->replaces ? put(client, args, settings) : patch(client, args, settings));
    json_decref(settings);
    return exit_code;
}

/* ---- delete ---- */

static int delete_topic(struct client *client, const struct cli_args *args)
{
    begin(client, args);
    int exit_code = client_call(client, "DELETE", NULL, 0);
    long long jobs = json_integer_value(json_object_get(client->json, "jobs"));
    if (exit_code == CLI_OK && args->json)
        client_print_json(client);
    else if (exit_code == CLI_OK)
        printf("deleted %s with %lld job%s\n", args->list.at[1], jobs, jobs == 1 ? "" : "s");
    return exit_code;
}

int cli_topic(int argc, char **argv)
{
    struct settings given = {0};
    bool yes = false;
    const struct cli_flag flags[] = {
        {"deliver-to", CLI_TEXT, &given.deliver_to, "URL", "set: deliver its jobs there"},
        {"deliver", CLI_TEXT, &given.deliver, "JSON", "set: or @FILE, or none: how it delivers"},
        {"dead-letter", CLI_TEXT, &given.dead_letter, "JSON",
         "set: or @FILE, or none: what becomes of dead jobs"},
        {"replace", CLI_SWITCH, &given.replaces, NULL, "set: all settings that are not given go"},
        {"yes", CLI_SWITCH, &yes, NULL, "delete: yes, drop it and its jobs for good"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "topic show TOPIC | topic set TOPIC [NAME=VALUE]... [--deliver-to URL] | "
                 "topic delete TOPIC --yes",
        .about =
            "Shows the settings of a topic, or changes those that are given and leaves the rest;\n"
            "or drops the topic with all its jobs, also those that are leased.\n"
            "NAME= takes one away. A name with dots goes into an object; a value that is JSON is\n"
            "taken as such, else as text. Names: lease_for, ttl, max_attempts, backoff,\n"
            "on_conflict, priority, dedup_window, dead_letter_expired, deliver.…, dead_letter.…\n\n"
            "  tarry topic set orders max_attempts=5 backoff=exp:1s..10m\n"
            "  tarry topic set orders --deliver-to https://shop.example/close-order\n"
            "  tarry topic set orders deliver.max_in_flight=16 deliver.rate=100/s\n"
            "  tarry topic set orders dead_letter.keep.age=30d\n"
            "  tarry topic set orders --deliver none\n\n"
            "'tarry deliver test TOPIC' tries the target.",
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
        return cli_usage("nothing deleted, '%s' and its jobs would be gone for good, give --yes",
                         args.list.at[1]);
    if (is_delete && args.list.count > 2)
        return cli_usage("unexpected argument '%s', delete one topic after the other",
                         args.list.at[2]);
    if (is_show && args.list.count > 2)
        return cli_usage("unexpected argument '%s', did you mean 'tarry topic set'",
                         args.list.at[2]);
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    exit_code = is_show     ? show(&client, &args)
                : is_delete ? delete_topic(&client, &args)
                            : set(&client, &args, &given);
    client_close(&client);
    return exit_code;
}
