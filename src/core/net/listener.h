/*
 * listener: accepts connections at an IP address, a unix socket, or an inherited socket (from
 * systemd's socket activation, or from a server that hands over to its successor).
 *
 * Life cycle:
 *   1. listeners_open, once, before threads start: binds each address, so that an address in use is
 *      detected before anything slow begins. A unix or an inherited socket accepts connections
 *      from then on; they wait in the backlog. An IP address accepts them from step 2 on.
 *   2. listener_descriptor, for each thread that accepts: a separate socket on the same IP address
 *      (the system distributes connections over them), else a copy of the one descriptor.
 *   3. listener_accept, on those threads, until it returns -EAGAIN.
 *   4. listeners_close, when no more connections are to come: removes socket files, so that a
 *      successor may open the same path. Threads that still accept from a descriptor get the
 *      connections that have already arrived.
 *
 * An open listener does not change, and any thread may read it.
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
    LISTENER_ERROR_BYTES = 512,
    LISTENER_UNSENT_BYTES_MAX = 256 * 1024 /* of an accepted TCP socket, in the system */
};

enum listener_kind {
    LISTENER_TCP = 1,
    LISTENER_UNIX,
    LISTENER_INHERITED /* of either kind; replaced by its real kind once open */
};

/* The authentication that a listener requires of clients. */
enum listener_token {
    LISTENER_TOKEN_AUTO = 0, /* if a way to authenticate is configured */
    LISTENER_TOKEN_REQUIRED, /* "require-token" */
    LISTENER_TOKEN_NONE      /* "no-token" */
};

/* The options of a listener. */
struct listener_options {
    enum listener_kind kind;
    struct sockaddr_storage address; /* LISTENER_TCP */
    char path[LISTENER_PATH_BYTES];  /* LISTENER_UNIX; for LISTENER_INHERITED a name or a number */
    mode_t mode;                     /* of the socket file; 0: owner only, 0600 */
    char
        group[LISTENER_GROUP_BYTES]; /* of the socket file, a name or a number; "": the process's */
    bool tls;
    bool plain;          /* allow an address beyond loopback without TLS */
    bool proxy_protocol; /* each connection begins with a header that identifies the client */
    enum listener_token token;
    uint8_t protocol; /* protocol of the calls, a number defined by the opener */
};

struct listener {
    struct listener_options options;
    enum listener_kind kind; /* LISTENER_TCP or LISTENER_UNIX */
    bool is_inherited;
    bool is_v6_only;     /* "[::]" and "0.0.0.0" are both configured for the same port */
    bool is_local;       /* reachable from this machine only: loopback or a unix socket */
    bool requires_token; /* set by the opener from options.token; false at first */
    struct peer address; /* LISTENER_TCP */
    char name[LISTENER_NAME_BYTES]; /* "127.0.0.1:8279", "unix:/run/tarry/tarry.sock" */

    int inherited;    /* the inherited descriptor; 0: not inherited */
    int fd;           /* the open descriptor; -1: handed out or closed */
    struct stat file; /* the socket file that was created; st_ino 0: not created */
};

struct listeners {
    struct listener at[LISTENERS_MAX];
    uint32_t count;
};

/*
 * Opens all listeners; on failure, none stays open. An inherited listener represents each socket of
 * that name. Replaces a socket file that is left over from a process that has ended. On false,
 * `error` (LISTENER_ERROR_BYTES) describes the listener, the reason and what to do.
 */
bool listeners_open(struct listeners *listeners, const struct listener_options *options,
                    uint32_t count, char *error);
/* Closes the listeners. May be called again. */
void listeners_close(struct listeners *listeners);

/* Returns the number of inherited sockets that no listener serves. */
uint32_t listeners_unserved(const struct listeners *listeners);

/* Writes the options that follow the address: "tls,require-token". Omits the usual ones. */
enum { LISTENER_WORDS_BYTES = 64 };
void listener_words(const struct listener *listener, char out[LISTENER_WORDS_BYTES]);

/* Returns a non-blocking listening socket for another thread, which the caller closes, or -1 with
 * the reason in `error`. One thread at a time. */
int listener_descriptor(struct listener *listener, char *error);

/* Drops packets that begin a connection at the descriptor: the client sends them again after a
 * while, to the server that then listens there. Established connections can still be accepted. Does
 * nothing for a listener that does not use TCP. Returns 0, or -EPERM on a system where only root
 * may filter packets. */
int listener_refuse_more(const struct listener *listener, int fd);

/* Accepts the next connection, which does not block, and identifies its peer. Negative errno:
 * -EAGAIN if no connection waits; -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM if it must wait. */
int listener_accept(const struct listener *listener, int fd, struct peer *peer);

#endif
