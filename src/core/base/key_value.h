/*
 * key_value: one line of a file of `key = value` lines. Pure.
 *
 * A '#' begins a comment at the start of a line or after a blank. Blanks around key and value do not
 * count. What keys there are, and whether a value may be empty, is the caller's to say.
 */
#ifndef TARRY_BASE_KEY_VALUE_H
#define TARRY_BASE_KEY_VALUE_H

enum key_value_line {
    KEY_VALUE_PAIR = 1,
    KEY_VALUE_NOTHING, /* blank, or a comment */
    KEY_VALUE_BAD      /* no '='; `key` is the text that stands there */
};

struct key_value {
    char *key, *value; /* within the line, ended by NUL; "" where there is none */
};

/* Cuts the line up in place. */
enum key_value_line key_value_parse(char *line, struct key_value *out);

#endif
