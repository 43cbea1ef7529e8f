/*
 * beanstalk_peer: a connection to the beanstalkd whose jobs are imported.
 *
 * Several commands may be sent before their answers are read, in order. Errors (no server, no
 * answer for a minute, connection closed) are printed on standard error once; the connection is
 * unusable afterwards. One thread.
 */
#ifndef TARRY_CLI_BEANSTALK_PEER_H
#define TARRY_CLI_BEANSTALK_PEER_H

#include "base/buffer.h"
#include "base/url.h"

#include <curl/curl.h>

enum { BEANSTALK_LINE_MAX = 256, BEANSTALK_SHOWN_BYTES = 300 };

struct beanstalk_peer {
    CURL *curl;
    int fd;
    bool is_broken;                    /* and the error was printed */
    char shown[BEANSTALK_SHOWN_BYTES]; /* "host:port" */
    char in[64 * 1024];
    size_t in_at, in_bytes; /* received and not yet read */
};

/* Connects. Returns false after printing the error. The peer may be closed in either case. */
bool beanstalk_peer_open(struct beanstalk_peer *peer, const struct url_host *host);
void beanstalk_peer_close(struct beanstalk_peer *peer);

/* Sends whole commands with their line ends. Send at most a few ten thousand bytes before
 * reading the answers: the two socket buffers must be able to hold them. */
bool beanstalk_peer_send(struct beanstalk_peer *peer, struct slice commands);

/* Reads the next line, without its line end. */
bool beanstalk_peer_line(struct beanstalk_peer *peer, char line[BEANSTALK_LINE_MAX]);
/* Reads the body that follows a line ending with a number of bytes. Appends it to `out`, or
 * discards it if `out` is NULL. */
bool beanstalk_peer_body(struct beanstalk_peer *peer, uint64_t bytes, struct buffer *out);

#endif
