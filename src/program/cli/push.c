/* push: pushes a job. */
#include "cli/body.h"
#include "cli/call.h"
#include "cli/show.h"
#include "cli/wait.h"

#include <string.h>

/* Sends each NAME=VALUE as a header Tarry-Meta-NAME. */
static int add_meta(struct call *call)
{
    const struct cli_list *meta = &call->list;
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
        client_add_header(&call->client, header);
    }
    return CLI_OK;
}

/* Sends the body with its content type and metas. */
static int write_job(struct call *call, struct buffer *out)
{
    char header[256];
    const char *type = call_value(call, "content-type");
    int exit_code = call_body_or_input(call, out);
    if (exit_code != CLI_OK)
        return exit_code;
    if (type && !call_value(call, "force") &&
        (exit_code = body_check(type, buffer_slice(out))) != CLI_OK)
        return exit_code;
    snprintf(header, sizeof header, "Content-Type: %.200s",
             type ? type : body_guess_type(buffer_slice(out)));
    client_add_header(&call->client, header);
    return add_meta(call);
}

/* Adds a delay of 0 if no due time is given. Without any option, the server would look for options
 * in a JSON body. */
static int check_push(struct call *call)
{
    static const char *const waiting[] = {"members", "on-dead", "wait-at-most", "close-within"};
    if (!call_value(call, "delay") && !call_value(call, "at"))
        call_set(call, "delay", "0");
    if (call_value(call, "wait") && !call_argument(call, 1))
        return cli_usage("'--wait' needs an ID, write 'tarry push %s ID --wait %s'",
                         call_argument(call, 0), call_value(call, "wait"));
    if (call_value(call, "waits") && !call_argument(call, 1))
        return cli_usage("'--waits' needs an ID, which the members name: write 'tarry push %s ID "
                         "--waits'",
                         call_argument(call, 0));
    for (size_t i = 0; !call_value(call, "waits") && i < sizeof waiting / sizeof waiting[0]; i++)
        if (call_value(call, waiting[i]))
            return cli_usage("'--%s' is for a job that waits, add --waits", waiting[i]);
    if (!call_value(call, "batch-topic") != !call_value(call, "batch-id"))
        return cli_usage("a batch has a topic and an id, give both '--batch-topic' and "
                         "'--batch-id'");
    if (call_value(call, "parent") && !call_value(call, "batch-id"))
        return cli_usage("'--parent' is for a member of a batch, add '--batch-topic' and "
                         "'--batch-id'");
    return wait_check(call);
}

static void print_pushed(const struct call *call)
{
    char status[SHOW_CELL_BYTES], id[SHOW_CELL_BYTES], due[SHOW_CELL_BYTES];
    if (call_value(call, "wait")) {
        wait_print(call->client.json);
        return;
    }
    printf("%s %s%s\n", show_text(call_member(call, "result"), status),
           show_text(call_member(call, "id"), id), show_due(call->client.json, due));
}

/* A push that waited ends with the exit code of its job. */
static int conclude_push(const struct call *call, int exit_code)
{
    bool has_waited = exit_code == CLI_OK && call_value(call, "wait");
    return has_waited ? wait_exit_code(call->client.json) : exit_code;
}

const struct cli_command cli_push_commands[] = {
    {.name = "push",
     .help = "push a job, to be delivered when it is due",
     .call =
         {.usage = "push TOPIC [ID] [--delay 30m | --at TIME] [--body TEXT | --file FILE]",
          .about = "Pushes a job. With your own ID (an order number) you can cancel, move and "
                   "look it up later,\n"
                   "and another push replaces it; without one the server generates an id and "
                   "prints it.",
          .least = 1,
          .most = 2,
          .flags =
              {{"delay", CLI_DURATION, "30m", "Deliver after this delay (default: immediately)"},
               {"at", CLI_TIME, "TIME", "Deliver at this time"},
               {"body", CLI_TEXT, "TEXT", "Body (default: --file, then standard input)",
                .is_unsent = true},
               {"file", CLI_TEXT, "FILE", "Read the body from FILE", .is_unsent = true},
               {"content-type", CLI_TEXT, "TYPE",
                "Content type of the body (default: JSON, text or bytes, by its contents)",
                .is_unsent = true},
               {"force", CLI_SWITCH, NULL, "Send a body of type JSON that is not valid JSON",
                .is_unsent = true},
               {"meta", CLI_LIST, "NAME=VALUE", "Meta for the consumer; repeatable"},
               {"priority", CLI_TEXT, "N",
                "Priority; 0 comes first (default: the topic's, or 100)"},
               {"ttl", CLI_DURATION, "1d", "Expire if it stays ready for longer"},
               {"lease-for", CLI_DURATION, "60s", "Lease time of its deliveries"},
               {"max-attempts", CLI_TEXT, "N",
                "Attempts before the job is dead: 1 to 10000, or none (unlimited)"},
               {"backoff", CLI_DURATION, "exp:1s..10m",
                "Wait after a failure; or fixed:10s or list:10s,1m,1h"},
               {"on-conflict", CLI_TEXT, "WHAT",
                "If the id exists: replace, keep, reject or after (wait for the end of its lease)"},
               {"once", CLI_TEXT, "TEXT",
                "Do nothing if the topic had a push with this text before"},
               {"once-for", CLI_DURATION, "5m", "Remember that text for this time (default: 5m)"},
               {"keep-finished", CLI_DURATION, "1d",
                "Keep the job for this time after its end (default: the topic's)"},
               {"group", CLI_TEXT, "GROUP",
                "Group of the job, such as a tenant: groups are served fairly"},
               {"wait", CLI_DURATION, "30s",
                "Wait this long for the job to end, and print its result"},
               {"callback", CLI_TEXT, "URL",
                "Deliver the job to this URL, if the topic allows callbacks"},
               {"batch-topic", CLI_TEXT, "TOPIC",
                "With --batch-id: topic of the job that waits for this one"},
               {"batch-id", CLI_TEXT, "ID", "Id of the job that waits for this one"},
               {"parent", CLI_TEXT, "LEASE",
                "Lease of a running member, which adds this one to a closed batch"},
               {"waits", CLI_SWITCH, NULL,
                "Wait until its batch is closed and all members have ended; --delay counts from "
                "then"},
               {"members", CLI_NUMBER, "N",
                "Close the batch when it has N members (default: by 'tarry close')"},
               {"on-dead", CLI_TEXT, "EFFECT",
                "Effect of a dead member: go (it has ended), hold or stop (default: go)"},
               {"wait-at-most", CLI_DURATION, "7d",
                "Become due after this time in any case (default: 7d)"},
               {"close-within", CLI_DURATION, "1h",
                "The job is dead if its batch is not closed by then (default: 1h)"}},
          .pairs = {{"delay", "at"}, {"body", "file"}},
          .check = check_push,
          .requests = {{.least = 2,
                        .method = "PUT",
                        .path = "topics/{0}/jobs/{1}",
                        .body = write_job,
                        .conclude = conclude_push,
                        .print = print_pushed},
                       {.method = "POST",
                        .path = "topics/{0}/jobs",
                        .body = write_job,
                        .print = print_pushed}}}},
    {0},
};
