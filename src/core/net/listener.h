/*
 * listener: where connections come in: an address of IP, a unix socket, or a socket that was opened
 * before us (systemd's socket activation, or a server that hands over to its successor).
 *
 * Life
 *   1. listeners_open, once, before there are threads: each address is bound, so that it is known to
 *      be free before anything long begins. A unix socket or an inherited one takes connections from
 *      then on, which wait until somebody accepts them; an address of IP does from 2 on.
 *   2. listener_descriptor for each thread that accepts: a socket of its own on the same address of
 *      IP (the system spreads connections over them), else a copy of the one descriptor.
 *   3. listener_accept, on those threads, until it says -EAGAIN.
 *   4. listeners_close, when no more are to come: socket files go away, so that a successor may
 *      open the same path. Who still accepts from a descriptor gets what has come before.
 *
 * Once open a listener does not change, and any thread may look at it.
 */
#ifndef TARRY_NET_LISTENER_H
#define TARRY_NET_LISTENER_H

#include "net/peer.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    LISTENERS_MAX = 32,
    LISTENER_PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path),
    LISTENER_GROUP_BYTES = 64,
    LISTENER_NAME_BYTES = LISTENER_PATH_BYTES + 16,
    LISTENER_ERROR_BYTES = 512
};

enum listener_kind {
    LISTENER_TCP = 1,
    LISTENER_UNIX,
    LISTENER_INHERITED /* of either kind; once open it is one of those above */
};

/* Must a client prove itself here? */
enum listener_token {
    LISTENER_TOKEN_AUTO = 0, /* where there is a way to do so */
    LISTENER_TOKEN_REQUIRED, /* "require-token" */
    LISTENER_TOKEN_NONE      /* "no-token" */
};

/* What a listener is told. */
struct listener_options {
    enum listener_kind kind;
    struct sockaddr_storage address; /* LISTENER_TCP */
    char path[LISTENER_PATH_BYTES];  /* LISTENER_UNIX; of LISTENER_INHERITED a name, or a number */
    mode_t mode;                     /* of the socket file; 0: only its owner, 0600 */
    char
        group[LISTENER_GROUP_BYTES]; /* of the socket file, a name or a number; "": the process's */
    bool tls;
    bool plain;          /* beyond loopback without TLS is meant */
    bool proxy_protocol; /* each connection begins with a header that says who the client is */
    enum listener_token token;
    uint8_t protocol; /* whose calls are made there, by a number of the opener's */
};

struct listener {
    struct listener_options options;
    enum listener_kind kind; /* LISTENER_TCP or LISTENER_UNIX */
    bool is_inherited;
    bool is_v6_only;                /* "[::]" and "0.0.0.0" are both given, for the same port */
    bool is_local;                  /* only this machine reaches it: loopback, or a unix socket */
    bool requires_token;            /* what its opener made of options.token; false at first */
    struct peer address;            /* LISTENER_TCP */
    char name[LISTENER_NAME_BYTES]; /* "127.0.0.1:8279", "unix:/run/tarry/tarry.sock" */

    int inherited;    /* the descriptor that was handed over; 0: none */
    int fd;           /* the one that was opened; -1: handed out, or closed */
    struct stat file; /* the socket file that was made; st_ino 0: none */
};

struct listeners {
    struct listener at[LISTENERS_MAX];
    uint32_t count;
};

/*
 * Opens all, or none. An inherited one stands for each socket of that name. A socket file that is
 * left over from a process that is gone is replaced. False: `error` (LISTENER_ERROR_BYTES) says
 * which, why and what to do.
 */
bool listeners_open(struct listeners *listeners, const struct listener_options *options,
                    uint32_t count, char *error);
/* May be called again. */
void listeners_close(struct listeners *listeners);

/* How many of the sockets that were handed over to this process none of them serves. */
uint32_t listeners_unserved(const struct listeners *listeners);

/* What is unusual about it, as it is written behind its address: "tls,require-token". */
enum { LISTENER_WORDS_BYTES = 64 };
void listener_words(const struct listener *listener, char out[LISTENER_WORDS_BYTES]);

/* A listening socket for one more thread, the caller's to close; it does not block. -1: `error` says
 * why. One thread at a time. */
int listener_descriptor(struct listener *listener, char *error);

/* Drops packets that begin a connection at the descriptor: the client sends them again after a while,
 * to the server that listens there by then. Connections that have begun can still be accepted. Does
 * nothing for a listener that does not use TCP. Returns 0, or -EPERM on a system where only root may
 * filter packets. */
int listener_refuse_more(const struct listener *listener, int fd);

/* The next connection, which does not block, and who made it. Negative errno: -EAGAIN where there is
 * none, -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM where it must wait. */
int listener_accept(const struct listener *listener, int fd, struct peer *peer);

#endif
