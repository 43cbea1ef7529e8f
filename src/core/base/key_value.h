/*
 * key_value: parses one line of a file of `key = value` lines. Pure.
 *
 * A '#' begins a comment at the start of a line or after a blank. Blanks around key and value are
 * ignored. The caller decides which keys exist and whether a value may be empty.
 */
#ifndef TARRY_BASE_KEY_VALUE_H
#define TARRY_BASE_KEY_VALUE_H

#include <stdbool.h>

enum key_value_line {
    KEY_VALUE_PAIR = 1,
    KEY_VALUE_NOTHING, /* blank or a comment */
    KEY_VALUE_BAD      /* no '='; `key` is the whole text, which may contain a secret */
};

struct key_value {
    char *key, *value; /* within the line, ending with NUL; "" if missing */
    bool has_comment;  /* a comment follows on the line: a secret with a '#' may have been cut */
};

/* Splits the line in place. */
enum key_value_line key_value_parse(char *line, struct key_value *out);

#endif
