/*
 * text: numbers, sizes and encodings as people and protocols write them. Pure.
 *
 * Each function accepts its whole input or refuses it: blanks, signs and trailing bytes are
 * refused. Outputs are written on success only. On failure, a buffer has the same length as before.
 */
#ifndef TARRY_BASE_TEXT_H
#define TARRY_BASE_TEXT_H

#include "base/buffer.h"

static inline bool text_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Returns whether a byte is a letter of ASCII, regardless of the locale. */
static inline bool text_is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* Returns whether each byte is a letter or digit of ASCII or one of `beside`; true for an empty
 * text. */
bool text_is_word(struct slice text, const char *beside);

/* Parses decimal digits, at most `max`. */
bool text_parse_u64(struct slice text, uint64_t max, uint64_t *out);

/* Parses a size in bytes, at most `max`: a bare number, or one followed directly by K, M, G (or
 * KiB, MiB, GiB, which mean the same). "KB" is refused because it is ambiguous. */
bool text_parse_bytes(struct slice text, uint64_t max, uint64_t *out);

/* Appends `in` with each escape such as "%41" decoded. `plus_is_space` as in form data and query
 * strings. Returns false if an escape is not two hex digits, or if `out` failed. */
bool text_percent_decode(struct slice in, bool plus_is_space, struct buffer *out);

/* Returns whether a byte may appear unescaped in any part of a URL (RFC 3986, 2.3). */
static inline bool text_is_unreserved(char byte)
{
    return text_is_letter(byte) || text_is_digit(byte) || byte == '-' || byte == '.' ||
           byte == '_' || byte == '~';
}

/* Appends `in`, with each byte that is neither unreserved nor in `plain` escaped as in "%41". */
void text_percent_encode(struct slice in, const char *plain, struct buffer *out);

/* Returns the value of a digit of base64url (RFC 4648, 5), 0 to 63, or -1 if it is invalid. */
static inline int text_base64url_value(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : text_is_digit(digit)         ? digit - '0' + 52
           : digit == '-'                 ? 62
           : digit == '_'                 ? 63
                                          : -1;
}

/* Appends `bytes` in base64 (RFC 4648, padded). */
void text_base64_encode(struct slice bytes, struct buffer *out);

/* Appends the bytes of `in`, base64 as in RFC 4648 section 4 with padding: no line breaks, and
 * unused bits are zero. Returns false if `in` is anything else, or if `out` failed. */
bool text_base64_decode(struct slice in, struct buffer *out);

/* Returns the text, or as much of its beginning as fits into `bytes_max` without a part of a character. */
struct slice text_cut(struct slice text, size_t bytes_max);

/* Returns the length of the first character of `text` if a terminal interprets the character
 * instead of showing it: a control character (C0, DEL, C1), a mark or override of direction, a line
 * or paragraph separator. Then *character is its code point. Returns 0 if it is shown. */
size_t text_unshown_bytes(struct slice text, uint32_t *character);

/*
 * Returns the candidate (`candidates` ends with NULL) most similar to `word`, or NULL if no
 * candidate is close: for "did you mean". The distance is the number of letters inserted, deleted,
 * changed or swapped with their neighbour (Damerau 1964). Close means at most 2, or a third of the
 * word if that is more, and always less than the shorter of the two. The first of equals wins.
 */
const char *text_nearest(const char *word, const char *const *candidates);

#endif
