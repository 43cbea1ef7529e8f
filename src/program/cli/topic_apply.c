#include "cli/topic_apply.h"

#include "base/duration.h"
#include "cli/body.h"
#include "cli/show.h"
#include "cli/topic.h"

#include <stdlib.h>
#include <string.h>

static const char reserved[] = "tarry."; /* topics of tarry itself */

/* ---- comparing settings ---- */

static bool is_same_duration(const json_t *a, const json_t *b)
{
    int64_t a_ms, b_ms;
    return json_is_string(a) && json_is_string(b) &&
           duration_parse(slice_of(json_string_value(a)), INT64_MAX, &a_ms) &&
           duration_parse(slice_of(json_string_value(b)), INT64_MAX, &b_ms) && a_ms == b_ms;
}

/* Returns whether a value is as good as absent. */
static bool is_unset(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value);
}

static bool is_same(const json_t *a, const json_t *b);

/* Returns whether each member of `a` is the same in `b`. */
static bool is_within(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)a, name, value)
    {
        if (!is_same(value, json_object_get(b, name)))
            return false;
    }
    return true;
}

static bool is_same(const json_t *a, const json_t *b)
{
    if (is_unset(a) || is_unset(b))
        return is_unset(a) && is_unset(b);
    if (json_is_object(a) && json_is_object(b))
        return is_within(a, b) && is_within(b, a);
    return json_equal(a, b) || is_same_duration(a, b);
}

/* ---- one topic ---- */

static void begin_topic(struct client *client, const char *name)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, name);
}

/* Fetches the settings of a topic. *out stays NULL if there is no such topic. */
static int read_topic(struct client *client, const char *name, json_t **out)
{
    *out = NULL;
    begin_topic(client, name);
    client->is_silent = true;
    int exit_code = client_call(client, "GET", NULL, 0);
    client->is_silent = false;
    if (exit_code == CLI_NOTHING)
        return CLI_OK;
    if (exit_code != CLI_OK)
        (void)cli_error("%s", client->problem);
    if (exit_code != CLI_OK)
        return exit_code;
    *out = json_incref(json_object_get(client->json, "settings"));
    return *out ? CLI_OK : client_expect(client, "settings");
}

static int write_topic(struct client *client, const char *name, const json_t *settings)
{
    char *text = json_dumps(settings, JSON_COMPACT);
    struct slice body = slice_of(text ? text : "");
    begin_topic(client, name);
    client_add_header(client, "Content-Type: application/json");
    int exit_code = text ? client_call(client, "PUT", &body, 0) : cli_error("out of memory");
    free(text);
    return exit_code;
}

static int apply_one(struct call *call, const char *name, json_t *wanted, json_t *results)
{
    json_t *before;
    int exit_code = read_topic(&call->client, name, &before);
    if (exit_code != CLI_OK)
        return exit_code;
    const char *change = !before ? "created" : is_same(before, wanted) ? "unchanged" : "changed";
    if (strcmp(change, "unchanged") != 0 && !call_value(call, "dry-run"))
        exit_code = write_topic(&call->client, name, wanted);
    if (exit_code == CLI_OK)
        json_array_append_new(results, json_pack("{s:s,s:s,s:O,s:O*}", "topic", name, "change",
                                                 change, "settings", wanted, "before", before));
    json_decref(before);
    return exit_code;
}

/* ---- the file ---- */

static int check_topics(const char *path, const json_t *topics)
{
    const char *name;
    json_t *settings;
    json_object_foreach((json_t *)topics, name, settings)
    {
        if (!json_is_object(settings))
            return cli_usage("bad settings of '%s' in '%s', give a JSON object", name, path);
    }
    return CLI_OK;
}

static int read_file(const char *path, json_t **out)
{
    struct buffer text;
    json_error_t error;
    buffer_init(&text, BODY_BYTES_MAX);
    int exit_code = body_read(path, &text);
    *out = exit_code == CLI_OK
               ? json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, &error)
               : NULL;
    buffer_fini(&text);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!*out)
        return cli_usage("'%s' is not valid JSON, line %d: %s", path, error.line, error.text);
    if (!json_is_object(*out))
        return cli_usage("'%s' is no JSON object of settings by topic", path);
    return check_topics(path, *out);
}

int topic_apply(struct call *call, const struct slice *body)
{
    json_t *wanted, *results = json_array(), *settings;
    const char *name;
    (void)body;
    int exit_code = read_file(call_argument(call, 1), &wanted);
    if (exit_code == CLI_OK)
        json_object_foreach(wanted, name, settings)
        {
            exit_code = apply_one(call, name, settings, results);
            if (exit_code != CLI_OK) {
                cli_error("'%s' was not applied, %zu of %zu topics were", name,
                          json_array_size(results), json_object_size(wanted));
                break;
            }
        }
    if (exit_code == CLI_OK)
        exit_code = client_set_answer(&call->client, json_pack("{s:O}", "topics", results));
    json_decref(results);
    json_decref(wanted);
    return exit_code;
}

/* ---- printing ---- */

static const char *as_text(const json_t *value, char out[SHOW_CELL_BYTES])
{
    return is_unset(value) ? "unset" : show_text(value, out);
}

static void print_change(const char *name, const json_t *before, const json_t *after,
                         bool *is_first)
{
    char from[SHOW_CELL_BYTES], to[SHOW_CELL_BYTES];
    if (is_same(before, after))
        return;
    printf("%s%s %s -> %s", *is_first ? ": " : ", ", name, as_text(before, from),
           as_text(after, to));
    *is_first = false;
}

static void print_changes(const json_t *before, const json_t *after)
{
    const char *name;
    json_t *value;
    bool is_first = true;
    json_object_foreach((json_t *)before, name, value)
        print_change(name, value, json_object_get(after, name), &is_first);
    json_object_foreach((json_t *)after, name, value)
    {
        if (!json_object_get(before, name))
            print_change(name, NULL, value, &is_first);
    }
}

void topic_apply_print(const struct call *call)
{
    bool is_dry = call_value(call, "dry-run");
    char name[SHOW_CELL_BYTES];
    size_t i, same = 0;
    const json_t *one, *topics = call_member(call, "topics");
    json_array_foreach(topics, i, one)
    {
        const char *change = json_string_value(json_object_get(one, "change"));
        if (strcmp(change, "unchanged") == 0) {
            same++;
            continue;
        }
        printf("%s%s %s", is_dry ? "would be " : "", change,
               show_text(json_object_get(one, "topic"), name));
        print_changes(json_object_get(one, "before"), json_object_get(one, "settings"));
        putchar('\n');
    }
    printf("%zu unchanged\n", same);
}

void topic_settings_print(const struct call *call)
{
    json_t *all = json_object();
    size_t i;
    const json_t *one, *topics = call_member(call, "topics");
    if (!topics)
        json_object_set(all, call_argument(call, 0),
                        json_object_get(call->client.json, "settings"));
    json_array_foreach(topics, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "topic"));
        if (name && strncmp(name, reserved, sizeof reserved - 1) != 0)
            json_object_set(all, name, json_object_get(one, "settings"));
    }
    char *text = json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    puts(text ? text : "");
    free(text);
    json_decref(all);
}
