/*
 * channel: TLS on a connection: what came is opened, what goes is sealed.
 *
 * A channel that waits keeps no buffer: ciphertext is read into one buffer of the front and opened
 * from there into the buffer that plain connections are read into; answers are sealed at the end of
 * a turn into a buffer lent by the front. Its session is made with the first bytes that come, so a
 * client that says nothing costs none. One thread: the reactor's.
 */
#ifndef TARRY_HTTP_CHANNEL_H
#define TARRY_HTTP_CHANNEL_H

#include "http/state.h"

enum {
    HTTP_SEALED_READ_BYTES = 96 * 1024, /* one read of ciphertext at most */
    HTTP_RECORD_BYTES = 17 * 1024 /* what a session may hold back of a record, plain or sealed */
};

struct http_channel {
    struct tls_session *session; /* NULL: nothing has come yet */
    struct buffer sealed;        /* to be written */
    bool is_ended;               /* the peer has been told that no more comes */
};

enum http_opened {
    HTTP_OPENED = 1,   /* and more may come */
    HTTP_OPENED_END,   /* the peer says that no more comes */
    HTTP_OPENED_PLAIN, /* it is no TLS but HTTP in plain text */
    HTTP_OPENED_BAD    /* no more can be read; what was sealed says why to the peer */
};

/* NULL: no memory. */
struct http_channel *http_channel_new(void);
void http_channel_free(struct http_channel *channel, struct http_front *front);

/* Is the handshake done? */
bool http_channel_is_open(const struct http_channel *channel);

/* Why its handshake failed, for people. */
const char *http_channel_why(const struct http_channel *channel);

/* The name in the client's certificate; empty where it showed none. NULL as `channel` will do. */
struct slice http_channel_certificate(const struct http_channel *channel);

/* Opens what came into `into`, which has room for `len` and HTTP_RECORD_BYTES; *got is how much it
 * was. What the peer is to be told is sealed. */
enum http_opened http_channel_open(struct http_channel *channel, struct http_front *front,
                                   const char *bytes, size_t len, char *into, size_t *got);

/* Seals all of `out`, and gives its memory back. False: no memory, or there is no handshake yet. */
bool http_channel_seal(struct http_channel *channel, struct http_front *front, struct buffer *out);

/* The peer is to be told that no more comes. True: that has to be written, now. */
bool http_channel_end(struct http_channel *channel, struct http_front *front);

#endif
