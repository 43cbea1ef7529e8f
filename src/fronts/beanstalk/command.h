/*
 * command: a line of the protocol, read. Pure.
 *
 * As beanstalkd 1.13 reads it: blanks before a number are passed over, what follows the last word is
 * not, a name is 1 to 200 of [A-Za-z0-9-+/;.$_()] and begins with no dash. Beyond that no dot either:
 * no topic's name does.
 */
#ifndef TARRY_BEANSTALK_COMMAND_H
#define TARRY_BEANSTALK_COMMAND_H

#include "base/slice.h"

#include <stdint.h>

enum { BEANSTALK_LINE_BYTES_MAX = 224 }; /* with its CR and LF */

/* In the order in which `stats` counts them; the first is none. */
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
    uint32_t number; /* of reserve-with-timeout: seconds; of kick: jobs; of pause-tube: seconds */
    struct slice tube;
    bool has_rest; /* put: something follows, which is wrong, but its body is sent all the same */
};

/* How long the line at the front of the input is, with its CR and LF; 0: its end is not among the bytes that a
 * line may have. */
size_t beanstalk_line_bytes(struct slice input);

/* Does a line that is not a command begin HTTP or TLS? `line` may lack its end. */
bool beanstalk_line_is_foreign(struct slice line);
/* Is the version of a request of HTTP in it? Needs only the BEANSTALK_VERSION_BYTES around it. */
enum { BEANSTALK_VERSION_BYTES = 6 };
bool beanstalk_has_http_version(struct slice line);

/* The line without its end. False: its words are not what the verb wants (`verb` is known all the
 * same). An unknown verb is BEANSTALK_UNKNOWN, and true. */
bool beanstalk_command_parse(struct slice line, struct beanstalk_command *out);

bool beanstalk_tube_is_valid(struct slice name);

#endif
