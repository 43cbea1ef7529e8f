/*
 * text: numbers, sizes and encodings as people and protocols write them. Pure.
 *
 * Each function takes the whole of its input or none of it: blanks, signs and anything left over
 * are refused. Outputs are written only on success; a buffer then holds what was appended, else its
 * length is as before.
 */
#ifndef TARRY_BASE_TEXT_H
#define TARRY_BASE_TEXT_H

#include "base/buffer.h"

/* Decimal digits, at most `max`. */
bool text_parse_u64(struct slice text, uint64_t max, uint64_t *out);

/* A size in bytes, at most `max`: a bare number, or one with K, M, G (or KiB, MiB, GiB, which mean
 * the same) right after it. "KB" is refused: people do not agree on what it is. */
bool text_parse_bytes(struct slice text, uint64_t max, uint64_t *out);

/* Appends `in` with each "%41" turned into its byte. `plus_is_space` as in form data and query
 * strings. False where an escape is not two hex digits, or when `out` failed. */
bool text_percent_decode(struct slice in, bool plus_is_space, struct buffer *out);

/* May a byte stand in any part of a URL as it is (RFC 3986, 2.3)? */
static inline bool text_is_unreserved(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

/* Appends `in` with each byte that is neither unreserved nor in `plain` as "%41". */
void text_percent_encode(struct slice in, const char *plain, struct buffer *out);

/* What a digit of base64url (RFC 4648, 5) stands for, 0 to 63; -1: it is none. */
static inline int text_base64url_value(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : digit >= '0' && digit <= '9' ? digit - '0' + 52
           : digit == '-'                 ? 62
           : digit == '_'                 ? 63
                                          : -1;
}

/* Appends the bytes of `in`, base64 as in RFC 4648 section 4 with padding: no line breaks, no bits
 * set that nobody reads. False where it is anything else, or when `out` failed. */
bool text_base64_decode(struct slice in, struct buffer *out);

/* Returns how many bytes the character at the front of `text` has if a terminal obeys it in place of showing
 * it: a control character (C0, DEL, C1), a mark or override of direction, a line or paragraph separator.
 * Then *character is its number. 0: it is shown. */
size_t text_unshown_bytes(struct slice text, uint32_t *character);

/*
 * The one of `candidates` (ended by NULL) most like `word`, or NULL where none is near: for "did
 * you mean". Likeness is the number of letters put in, left out, changed or swapped with their
 * neighbour (Damerau 1964); near is at most 2, or a third of the word where that is more, and never
 * as much as the shorter of the two. The first of equals wins.
 */
const char *text_nearest(const char *word, const char *const *candidates);

#endif
