#include "cli/settings.h"

#include "cli/body.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 256 };

/* ---- reading ---- */

static int parse_object(const char *flag, struct slice text, json_t **out)
{
    json_error_t error;
    *out = json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*out))
        return CLI_OK;
    if (*out)
        return cli_usage("bad value for '--%s', it must be a JSON object, @FILE or none", flag);
    return cli_usage("bad value for '--%s', %s at byte %d; give a JSON object, @FILE or none", flag,
                     error.text, error.position);
}

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

/* The object of that name, made where it is not there. NULL: it is something else. */
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

/* Settings that are durations, by the last word of their name. */
static bool is_duration(const char *name)
{
    static const char *const names[] = {"lease_for", "ttl", "dedup_window", "backoff",
                                        "timeout",   "age", "every"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int settings_add(json_t *settings, const char *text)
{
    char path[NAME_BYTES_MAX];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    if (len == 0 || len >= sizeof(path))
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

/* ---- writing ---- */

static void print_value(const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t len = text ? strlen(text) : 0;
    /* A text that needs no quotes goes without, unless it would be read as something else. */
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
        snprintf(path, sizeof(path), "%.100s%s%.100s", name, *name ? "." : "", member);
        settings_print(path, inner);
    }
}
