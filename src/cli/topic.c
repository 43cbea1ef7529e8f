/* topics, pause, resume: topics as wholes. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/topic_pages.h"

#include <errno.h>
#include <string.h>

/* ---- topics ---- */

static void add_row(struct show_table *table, const json_t *topic)
{
    static const char *const counts[] = {"delayed", "retrying", "ready", "leased", "dead"};
    char cell[SHOW_CELL_BYTES];
    const json_t *held = json_object_get(topic, "counts");
    show_table_add(table, show_text(json_object_get(topic, "topic"), cell));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        show_table_add(table, show_text(json_object_get(held, counts[i]), cell));
    show_table_add(table, show_time_from_now(json_object_get(topic, "oldest_ready_due_at"), cell));
    show_table_add(table, json_is_true(json_object_get(topic, "paused")) ? "paused" : "");
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
        json_array_foreach(topics, i, topic) add_row(&table, topic);
    else
        add_row(&table, answer);
    show_table_print(&table);
    show_table_fini(&table);
}

static int show_topic(struct client *client, const struct cli_args *args)
{
    struct buffer *target = client_begin(client);
    url_add_segment(target, "topics");
    url_add_segment(target, args->list.at[0]);
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
    if (args->json && (json_dumpf(all, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF))
        exit_code = cli_error("cannot write to standard output, %s", strerror(errno));
    else if (!args->json)
        print_topics(all);
    json_decref(all);
    return exit_code;
}

int cli_topics(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "topics [TOPIC]",
        .about = "Shows topics and how many jobs they hold in each state.",
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

/* ---- what is done to one ---- */

static int act(const struct cli_args *args, const char *verb, const char *done)
{
    struct client client;
    if (!client_open(&client, args->url))
        return CLI_REFUSED;
    struct buffer *target = client_begin(&client);
    url_add_segment(target, "topics");
    url_add_segment(target, args->list.at[0]);
    url_add_segment(target, verb);
    int exit_code = client_call(&client, "POST", NULL, 0);
    if (exit_code == CLI_OK && args->json)
        client_print_json(&client);
    else if (exit_code == CLI_OK)
        printf("%s %s\n", done, args->list.at[0]);
    client_close(&client);
    return exit_code;
}

int cli_pause(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "pause TOPIC",
        .about = "Stops delivery from a topic. Its jobs still fall due, and wait.",
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    return exit_code >= 0 ? exit_code : act(&args, "pause", "paused");
}

int cli_resume(int argc, char **argv)
{
    const struct cli_syntax syntax = {
        .usage = "resume TOPIC",
        .about = "Starts delivery from a topic again.",
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    return exit_code >= 0 ? exit_code : act(&args, "resume", "resumed");
}
