#include "base/json_read.h"
#include "deliver/private.h"

#include <stdio.h>

static bool fail(char *error, const char *what)
{
    snprintf(error, DELIVER_ERROR_BYTES, "%s", what);
    return false;
}

bool extension_parse(struct slice text, struct extension *out, char error[DELIVER_ERROR_BYTES])
{
    struct json_value object, value;
    struct json_cursor cursor = {0};
    struct slice key;
    *out = (struct extension){0};
    if (text.len == 0)
        return true;
    if (!json_check(text, &object, NULL) || object.kind != JSON_OBJECT)
        return fail(error, "not a JSON object, give one with 'deliver' or 'dead_letter'");
    while (json_next_member(object, &cursor, &key, &value)) {
        struct slice *member = json_string_is(key, "deliver")       ? &out->deliver
                               : json_string_is(key, "dead_letter") ? &out->dead_letter
                                                                    : NULL;
        if (!member) {
            snprintf(error, DELIVER_ERROR_BYTES,
                     "unknown member '%.*s', give 'deliver' or 'dead_letter'",
                     (int)(key.len < 66 ? key.len - 2 : 64), key.at + 1);
            return false;
        }
        if (member->len > 0)
            return fail(error, "a member is given twice");
        if (value.kind != JSON_NULL)
            *member = value.raw;
    }
    return true;
}
