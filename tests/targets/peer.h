/*
 * peer: the base of a rig of our own making: a server on a thread of its own, which accepts
 * connections, gathers their bytes and has the rig answer them.
 *
 * There is one in a process. It keeps its port over stop and start.
 */
#ifndef TARRY_TESTS_TARGETS_PEER_H
#define TARRY_TESTS_TARGETS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PEER_BYTES_MAX = 64 * 1024 };

/* A connection, on the peer's thread. */
struct peer_talk {
    int fd;
    void *state; /* the rig's; zeroes at first */
    size_t len;
    char bytes[PEER_BYTES_MAX];
};

/* Answers the beginning of the bytes, and returns how many of them that was; 0: it is incomplete;
 * below 0: hang up. */
typedef ssize_t peer_answer(struct peer_talk *talk);

/* Starts the peer; it listens when this returns. */
void peer_start(peer_answer *answer, size_t state_bytes);
/* Stops the peer; it and its connections are gone when this returns. */
void peer_stop(void);
/* Connections are taken, bytes are read, nothing is answered. */
void peer_stall(bool on);
/* Messages that it took since the process began. */
size_t peer_count(void);
/* "scheme://127.0.0.1:PORTpath"; valid until the next call. */
const char *peer_url(const char *scheme, const char *path);

/* Counts one message more, for the rig's answer. */
void peer_took(void);
bool peer_write(const struct peer_talk *talk, const void *bytes, size_t len);

/* The members of a struct target_rig (rig.h) that are those of the peer. */
#define PEER_RIG .stop = peer_stop, .stall = peer_stall, .count = peer_count, .setting = ""

#endif
