/*
 * command: parser for a command line of the protocol. Pure.
 *
 * Follows beanstalkd 1.13: blanks before a number are skipped, anything after the last word is an
 * error. A name is 1 to 200 of [A-Za-z0-9-+/;.$_()] and does not begin with a dash. In addition, a
 * name must not begin with a dot, since no topic name does.
 */
#ifndef TARRY_BEANSTALK_COMMAND_H
#define TARRY_BEANSTALK_COMMAND_H

#include "base/slice.h"

#include <stdint.h>

enum { BEANSTALK_LINE_BYTES_MAX = 224 }; /* including CR and LF */

/* Verbs in the order in which `stats` counts them. The first is not a verb. */
enum beanstalk_verb {
    BEANSTALK_UNKNOWN = 0,
    BEANSTALK_PUT,
    BEANSTALK_PEEK,
    BEANSTALK_PEEK_READY,
    BEANSTALK_PEEK_DELAYED,
    BEANSTALK_PEEK_BURIED,
    BEANSTALK_RESERVE,
    BEANSTALK_RESERVE_WITH_TIMEOUT,
    BEANSTALK_RESERVE_JOB,
    BEANSTALK_DELETE,
    BEANSTALK_RELEASE,
    BEANSTALK_USE,
    BEANSTALK_WATCH,
    BEANSTALK_IGNORE,
    BEANSTALK_BURY,
    BEANSTALK_KICK,
    BEANSTALK_KICK_JOB,
    BEANSTALK_TOUCH,
    BEANSTALK_STATS,
    BEANSTALK_STATS_JOB,
    BEANSTALK_STATS_TUBE,
    BEANSTALK_LIST_TUBES,
    BEANSTALK_LIST_TUBE_USED,
    BEANSTALK_LIST_TUBES_WATCHED,
    BEANSTALK_PAUSE_TUBE,
    BEANSTALK_QUIT,
    BEANSTALK_VERBS
};

struct beanstalk_command {
    enum beanstalk_verb verb;
    uint64_t id;
    uint32_t priority, delay_s, ttr_s, bytes;
    uint32_t number; /* reserve-with-timeout: seconds; kick: jobs; pause-tube: seconds */
    struct slice tube;
    /* put only: the line has extra text, which is an error, but the client still sends the body */
    bool has_rest;
};

/* Returns the length of the line at the front of the input, including CR and LF. Returns 0 if the
 * line does not end within the maximum length of a line. */
size_t beanstalk_line_bytes(struct slice input);

/* Returns true if a line that is not a command begins HTTP or TLS. `line` may be incomplete. */
bool beanstalk_line_is_foreign(struct slice line);
/* Returns true if the line contains the version of an HTTP request. BEANSTALK_VERSION_BYTES of
 * context are enough. */
enum { BEANSTALK_VERSION_BYTES = 6 };
bool beanstalk_has_http_version(struct slice line);

/* Parses a line without its CR and LF. Returns false if the arguments do not fit the verb; `verb`
 * is set even then. For an unknown verb returns true and BEANSTALK_UNKNOWN. */
bool beanstalk_command_parse(struct slice line, struct beanstalk_command *out);

bool beanstalk_tube_is_valid(struct slice name);

#endif
