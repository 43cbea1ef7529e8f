#include "base/key_value.h"

#include <string.h>

static char *trim_blanks(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Returns whether the line has a comment. */
static bool cut_comment(char *line)
{
    for (char *at = line; (at = strchr(at, '#')); at++)
        if (at == line || at[-1] == ' ' || at[-1] == '\t') {
            *at = '\0';
            return true;
        }
    return false;
}

enum key_value_line key_value_parse(char *line, struct key_value *out)
{
    bool has_comment = cut_comment(line);
    char *key = trim_blanks(line);
    char *equals = strchr(key, '=');
    *out = (struct key_value){.key = key, .value = key + strlen(key), .has_comment = has_comment};
    if (!*key)
        return KEY_VALUE_NOTHING;
    if (!equals)
        return KEY_VALUE_BAD;
    *equals = '\0';
    out->key = trim_blanks(key);
    out->value = trim_blanks(equals + 1);
    return KEY_VALUE_PAIR;
}
