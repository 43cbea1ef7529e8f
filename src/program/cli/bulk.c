#include "cli/bulk.h"

#include "base/json_write.h"
#include "cli/client.h"
#include "cli/progress.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_IDS = 1000, BODY_BYTES_MAX = 16 << 20 };

struct bulk {
    const struct cli_args *args;
    const struct bulk_change *change;
    struct client client;
    struct buffer body;
    size_t count; /* number of ids in the body */
    bool is_stdin;
    uint64_t seen, done, requested;
    int worst;
};

bool bulk_is_meant(const struct cli_args *args)
{
    return args->list.count > 2 || (args->list.count == 2 && strcmp(args->list.at[1], "-") == 0);
}

/* Records an exit code. A missing job is the mildest error. */
static void note_exit(struct bulk *bulk, int exit_code)
{
    if (exit_code != CLI_OK && (bulk->worst == CLI_OK || exit_code != CLI_NOTHING))
        bulk->worst = exit_code;
}

/* ---- one call ---- */

static bool is_done(const char *result)
{
    return strcmp(result, "ok") == 0 || strcmp(result, "cancelled") == 0;
}

/* Returns whether cancellation was only requested from the job's consumer. */
static bool is_requested(const char *result)
{
    return strcmp(result, "requested") == 0;
}

static void refuse_result(struct bulk *bulk, const char *id, const char *result, const json_t *one)
{
    const char *detail = json_string_value(json_object_get(one, "detail"));
    progress_clear();
    cli_error("'%s': %s (%s)", id, detail ? detail : "not done", result);
    note_exit(bulk, strcmp(result, "not_found") == 0 ? CLI_NOTHING : CLI_REFUSED);
}

static void print_result(struct bulk *bulk, const json_t *one)
{
    const char *id = json_string_value(json_object_get(one, "id"));
    const char *result = json_string_value(json_object_get(one, "result"));
    char cell[SHOW_CELL_BYTES];
    if (!id || !result)
        return;
    bulk->seen++;
    bulk->done += is_done(result);
    bulk->requested += is_requested(result);
    if (bulk->args->json)
        (void)show_json(one, stdout);
    if (!is_done(result) && !is_requested(result))
        refuse_result(bulk, id, result, one);
    else if (!bulk->args->json && !bulk->is_stdin)
        printf("%s %s\n",
               is_requested(result) ? "cancel requested from the consumer of" : bulk->change->done,
               show_text(json_object_get(one, "id"), cell));
}

static struct buffer *begin_call(struct bulk *bulk)
{
    const struct bulk_option *option = bulk->change->options;
    struct buffer *target = client_begin(&bulk->client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, bulk->args->list.at[0]);
    cli_url_add_segment(target, bulk->change->verb);
    for (; option && option->name; option++)
        cli_url_add_query(target, option->name, option->value);
    client_add_header(&bulk->client, "Content-Type: application/json");
    return target;
}

/* Sends the collected ids. Returns false if the call failed and the command must stop. */
static bool send_ids(struct bulk *bulk)
{
    size_t i;
    const json_t *one;
    if (!bulk->count)
        return true;
    buffer_append_text(&bulk->body, "]}");
    struct slice body = buffer_slice(&bulk->body);
    begin_call(bulk);
    int exit_code = client_call(&bulk->client, "POST", &body, 0);
    bulk->count = 0;
    if (exit_code != CLI_OK) {
        note_exit(bulk, exit_code);
        return false;
    }
    json_array_foreach(json_object_get(bulk->client.json, "results"), i, one)
        print_result(bulk, one);
    progress_show(bulk->seen, 0, -1);
    return true;
}

static bool add_id(struct bulk *bulk, struct slice id)
{
    if (!bulk->count)
        buffer_clear(&bulk->body);
    buffer_append_text(&bulk->body, bulk->count++ ? "," : "{\"ids\":[");
    json_write_string(&bulk->body, id);
    return bulk->count < BATCH_IDS || send_ids(bulk);
}

/* ---- sources of ids ---- */

/* Adds the ids on standard input, one per line. Returns false like send_ids. */
static bool add_lines(struct bulk *bulk)
{
    char *line = NULL;
    size_t cap = 0;
    bool goes_on = true;
    for (ssize_t len; goes_on && (len = getline(&line, &cap, stdin)) > 0;) {
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        if (len > 0)
            goes_on = add_id(bulk, slice_make(line, (size_t)len));
    }
    free(line);
    return goes_on;
}

static bool add_arguments(struct bulk *bulk)
{
    bool goes_on = true;
    for (size_t i = 1; goes_on && i < bulk->args->list.count; i++)
        goes_on = add_id(bulk, slice_of(bulk->args->list.at[i]));
    return goes_on;
}

int bulk_run(const struct cli_args *args, const struct bulk_change *change)
{
    struct bulk bulk = {.args = args, .change = change};
    if (!client_open(&bulk.client, args->url))
        return CLI_REFUSED;
    buffer_init(&bulk.body, BODY_BYTES_MAX);
    bulk.is_stdin = args->list.count == 2;
    progress_begin(change->done, false);
    if (bulk.is_stdin ? add_lines(&bulk) : add_arguments(&bulk))
        (void)send_ids(&bulk);
    progress_clear();
    if (bulk.is_stdin && !args->json)
        printf("%s %llu\n", change->done, (unsigned long long)bulk.done);
    if (bulk.is_stdin && !args->json && bulk.requested)
        printf("requested of their consumers: %llu\n", (unsigned long long)bulk.requested);
    buffer_fini(&bulk.body);
    client_close(&bulk.client);
    return bulk.worst;
}
