/*
 * redis_server: a real redis-server for a test, on a free port and in a temporary directory.
 *
 * It is ready when redis_server_new returns. It and its directory go with redis_server_free, and
 * also when the test dies in any other way. A failure here aborts the test and shows the
 * server's log. One thread, one that outlives the server: it dies with the thread that started it.
 */
#ifndef TARRY_TESTS_REDIS_SERVER_H
#define TARRY_TESTS_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <sys/types.h>

enum { REDIS_SERVER_WORDS_MAX = 64 };

struct redis_server_options {
    /* More of redis-server's options, "--appendonly", "yes", …, NULL behind the last; or NULL. They
     * come after ours (no snapshots, DEBUG allowed) and win. Must outlive the server. */
    const char *const *words;
    const char *preload; /* LD_PRELOAD for it, or NULL */
    const char *config;  /* its configuration file, or NULL: Sentinel requires one */
};

struct redis_server {
    struct redis_server_options options;
    char directory[64];
    char path[96];        /* of its unix socket */
    uint16_t port;        /* on 127.0.0.1; port + 10000 is free for the cluster's bus */
    pid_t pid;            /* 0: not running */
    redisContext *asking; /* for redis_server_ask */
    pid_t sweeper;
    int sweeper_fd;
};

/* `options` may be NULL. */
struct redis_server *redis_server_new(const struct redis_server_options *options);
void redis_server_free(struct redis_server *server);

/* Ends it with this signal (SIGTERM: in good order; SIGKILL), returns when it is gone. */
void redis_server_stop(struct redis_server *server, int signal);
/* Starts it after a stop: the same port, directory and options. */
void redis_server_start(struct redis_server *server);

/* One command, waited for, by a connection of its own: as redisCommand. Free the reply. NULL: the
 * connection ended over it (the next call makes another). */
redisReply *redis_server_ask(struct redis_server *server, const char *format, ...);
/* The same where the answer does not matter; but an error aborts the test. */
void redis_server_do(struct redis_server *server, const char *format, ...);

#endif
