/* push: pushes a job. */
#include "cli/body.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <string.h>

struct push {
    const char *delay, *at, *body, *file, *content_type, *priority;
    const char *ttl, *lease_for, *max_attempts, *backoff, *on_conflict, *callback;
    struct cli_list meta;
};

/* Sends each NAME=VALUE as a header Tarry-Meta-NAME. */
static int add_meta(struct client *client, const struct cli_list *meta)
{
    for (size_t i = 0; i < meta->count; i++) {
        char header[1400];
        const char *equals = strchr(meta->at[i], '=');
        if (!equals || equals == meta->at[i])
            return cli_usage("bad value '%s' for '--meta', write NAME=VALUE", meta->at[i]);
        if (strlen(meta->at[i]) > 1300 || strpbrk(meta->at[i], "\r\n"))
            return cli_usage("bad value '%s' for '--meta', give one line of at most 1024 bytes",
                             meta->at[i]);
        /* curl omits a header that ends with a colon; a semicolon sends it empty. */
        snprintf(header, sizeof header, "Tarry-Meta-%.*s%s%s", (int)(equals - meta->at[i]),
                 meta->at[i], equals[1] ? ": " : ";", equals + 1);
        client_add_header(client, header);
    }
    return CLI_OK;
}

static void make_target(struct buffer *target, const struct push *push, const struct cli_list *args)
{
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, args->at[0]);
    cli_url_add_segment(target, "jobs");
    if (args->count > 1)
        cli_url_add_segment(target, args->at[1]);
    /* Without any option, the server would look for options in a JSON body. */
    cli_url_add_query(target, "delay", push->delay || push->at ? push->delay : "0");
    cli_url_add_query(target, "at", push->at);
    cli_url_add_query(target, "priority", push->priority);
    cli_url_add_query(target, "ttl", push->ttl);
    cli_url_add_query(target, "lease_for", push->lease_for);
    cli_url_add_query(target, "max_attempts", push->max_attempts);
    cli_url_add_query(target, "backoff", push->backoff);
    cli_url_add_query(target, "on_conflict", push->on_conflict);
    cli_url_add_query(target, "callback", push->callback);
}

static void print_pushed(const struct client *client)
{
    char status[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], due[SHOW_CELL_BYTES];
    printf("%s %s, due %s\n", show_text(json_object_get(client->json, "result"), status),
           show_text(json_object_get(client->json, "id"), id),
           show_time_from_now(json_object_get(client->json, "due_at"), due));
}

/* Pushes the job by PUT if it has an id, otherwise by POST, and prints the result. */
static int push_body(struct client *client, const struct push *push, const struct cli_args *args,
                     struct slice body)
{
    char header[256];
    make_target(client_begin(client), push, &args->list);
    snprintf(header, sizeof header, "Content-Type: %.200s",
             push->content_type ? push->content_type : body_guess_type(body));
    client_add_header(client, header);
    int exit_code = add_meta(client, &push->meta);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = client_call(client, args->list.count > 1 ? "PUT" : "POST", &body, 0);
    if (exit_code != CLI_OK)
        return exit_code;
    if (args->json)
        client_print_json(client);
    else
        print_pushed(client);
    return CLI_OK;
}

static int push_command(int argc, char **argv)
{
    static struct push push; /* too large for the stack */
    const struct cli_flag flags[] = {
        {"delay", CLI_DURATION, &push.delay, "30m",
         "Deliver after this delay (default: immediately)"},
        {"at", CLI_TIME, &push.at, "TIME", "Deliver at this time"},
        {"body", CLI_TEXT, &push.body, "TEXT", "Body (default: --file, then standard input)"},
        {"file", CLI_TEXT, &push.file, "FILE", "Read the body from FILE"},
        {"content-type", CLI_TEXT, &push.content_type, "TYPE",
         "Content type of the body (default: JSON, text or bytes, by its contents)"},
        {"meta", CLI_LIST, &push.meta, "NAME=VALUE", "Meta for the consumer; repeatable"},
        {"priority", CLI_TEXT, &push.priority, "N",
         "Priority; 0 comes first (default: the topic's, or 100)"},
        {"ttl", CLI_DURATION, &push.ttl, "1d", "Expire if it stays ready for longer"},
        {"lease-for", CLI_DURATION, &push.lease_for, "60s", "Lease time of its deliveries"},
        {"max-attempts", CLI_TEXT, &push.max_attempts, "N",
         "Attempts before the job is dead: 1 to 10000, or none (unlimited)"},
        {"backoff", CLI_DURATION, &push.backoff, "exp:1s..10m",
         "Wait after a failure; or fixed:10s"},
        {"on-conflict", CLI_TEXT, &push.on_conflict, "WHAT",
         "If the id exists: replace, keep or reject"},
        {"callback", CLI_TEXT, &push.callback, "URL",
         "Deliver it to this URL, if the topic allows it"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "push TOPIC [ID] [--delay 30m | --at TIME] [--body TEXT | --file FILE]",
        .about =
            "Pushes a job. With your own ID (an order number) you can cancel, move and look it up "
            "later,\n"
            "and another push replaces it; without one the server generates an id and prints it.",
        .flags = flags,
        .least = 1,
        .most = 2,
    };
    struct cli_args args;
    struct client client;
    struct buffer body;
    push = (struct push){0};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (push.delay && push.at)
        return cli_usage("both '--delay' and '--at' are given, choose one");
    if (push.body && push.file)
        return cli_usage("both '--body' and '--file' are given, choose one");
    if (!client_open(&client, args.url))
        return CLI_REFUSED;
    buffer_init(&body, BODY_BYTES_MAX);
    if (push.body)
        buffer_append_text(&body, push.body);
    exit_code = push.body ? CLI_OK : body_read(push.file ? push.file : "-", &body);
    if (exit_code == CLI_OK)
        exit_code = push_body(&client, &push, &args, buffer_slice(&body));
    buffer_fini(&body);
    client_close(&client);
    return exit_code;
}

const struct cli_command cli_push_commands[] = {
    {.name = "push", .run = push_command, .help = "push a job, to be delivered when it is due"},
    {0},
};
