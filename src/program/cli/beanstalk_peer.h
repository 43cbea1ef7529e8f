/*
 * beanstalk_peer: a connection to a beanstalkd whose jobs are imported: commands out, answers in.
 *
 * Many commands may be sent before their answers are read, in their order. What goes wrong (nobody
 * there, no answer for a minute, the connection cut) is explained on standard error, once; the
 * connection is of no use then. One thread.
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
    bool is_broken;                    /* and that was said */
    char shown[BEANSTALK_SHOWN_BYTES]; /* "host:port" */
    char in[64 * 1024];
    size_t in_at, in_bytes; /* what is there and not read yet */
};

/* False, explained. It may be closed either way. */
bool beanstalk_peer_open(struct beanstalk_peer *peer, const struct url_host *host);
void beanstalk_peer_close(struct beanstalk_peer *peer);

/* Whole commands with their line ends: no more than a few ten thousand bytes before their answers are
 * read, which the two sockets hold between them. */
bool beanstalk_peer_send(struct beanstalk_peer *peer, struct slice commands);

/* The next line, without its end. */
bool beanstalk_peer_line(struct beanstalk_peer *peer, char line[BEANSTALK_LINE_MAX]);
/* What follows a line that ends with a number of bytes. Onto `out`, or passed over where it is NULL. */
bool beanstalk_peer_body(struct beanstalk_peer *peer, uint64_t bytes, struct buffer *out);

#endif
