#include "cli/topic_pages.h"

#include "cli/cli.h"
#include "job/job.h"

/* A server of an earlier version has one page, without a cursor. */
static int add_page(struct client *client, const char *cursor, json_t *all)
{
    struct buffer *target = client_begin(client);
    url_add_segment(target, "topics");
    url_add_query(target, "cursor", cursor);
    int exit_code = client_call(client, "GET", NULL, 0);
    json_t *topics = json_object_get(client->json, "topics");
    if (exit_code != CLI_OK)
        return exit_code;
    if (!json_is_array(topics))
        return cli_error("unexpected answer from '%s', is it a tarry server of this version",
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
