/* json_levels: distinguishes JSON that is nested too deeply from malformed JSON. Pure. */
#ifndef TARRY_BASE_JSON_LEVELS_H
#define TARRY_BASE_JSON_LEVELS_H

#include "base/json_read.h"

enum { JSON_LEVELS_MAX = 2 * JSON_DEPTH_MAX };

enum json_finding { JSON_SOUND = 1, JSON_TOO_DEEP, JSON_MALFORMED, JSON_UNFINISHED };

/* Checks like json_check, with at most `levels` (up to JSON_LEVELS_MAX) nested containers. Deeper
 * containers are not checked; only their end is located. The result is then JSON_TOO_DEEP, and
 * *value spans the whole text, whose members or items may be walked. */
enum json_finding json_check_levels(struct slice text, int levels, struct json_value *value,
                                    size_t *error_at);
/* Checks like json_check_levels the value with which the text begins, whatever follows it. *end is the offset behind
 * the value, or of the first fault. */
enum json_finding json_check_first(struct slice text, int levels, size_t *end);

enum json_scan_place { JSON_SCAN_VALUE = 1, JSON_SCAN_KEY, JSON_SCAN_STRING, JSON_SCAN_SKIPPED };

/* A check in pieces. It begins with zeroed memory, and after its end another one may begin. The text may move between two
 * pieces. */
struct json_scan {
    enum json_scan_place place; /* the place of the pause; 0: the beginning */
    bool is_too_deep;
    bool objects[JSON_LEVELS_MAX];
    int depth;
    int64_t open;
    size_t at;
};

/* Checks like json_check_first, but returns JSON_UNFINISHED after about `bytes`, at least 1. The next call, with the same
 * text and levels, continues. A plain string, a number or white space is one piece, whatever its length. */
enum json_finding json_scan_some(struct json_scan *state, struct slice text, int levels,
                                 size_t bytes, size_t *end);

#endif
