/*
 * inspect_private: the parts of an inspection. A *talk* is one blocking conversation; a *report*
 * takes the one error that ends it; a *survey* says which master has which slot.
 */
#ifndef TARRY_REDIS_INSPECT_PRIVATE_H
#define TARRY_REDIS_INSPECT_PRIVATE_H

#include "redis/inspect.h"
#include "redis/master.h"
#include "redis/slot.h"

#include <hiredis/hiredis.h>

enum { REDIS_TALK_PLACE_BYTES = REDIS_HOST_BYTES + 16, REDIS_SURVEY_MAX = 1000 };

struct redis_report {
    char *error;
    size_t error_bytes;
};

/* Writes the error; gives `code` back. */
int redis_report(const struct redis_report *report, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- inspect_talk.c ---- */

struct redis_sync_connection {
    redisContext *context;
    char place[REDIS_TALK_PLACE_BYTES]; /* "host:port", or the path: for people */
    const struct redis_report *report;
};

/* Connects and, where there is a user or a password, logs in. */
int redis_sync_connection_open(struct redis_sync_connection *connection,
                               const struct redis_endpoint *endpoint, const char *user,
                               const char *password, const struct redis_report *report);
void redis_sync_connection_close(
    struct redis_sync_connection *connection); /* of a zeroed one: nothing */
/* The answer to a command of NUL-terminated words, NULL behind the last; NULL where the connection
 * ended (reported). An error of Redis' is an answer. */
redisReply *redis_sync_connection_ask(struct redis_sync_connection *connection,
                                      const char *const *words);
#define REDIS_TALK_ASK(connection, ...)                                                            \
    redis_sync_connection_ask((connection), (const char *const[]){__VA_ARGS__, NULL})
/* Reports an answer that is an error (or missing: has been reported); `doing` is for people. */
int redis_sync_connection_refused(const struct redis_sync_connection *connection,
                                  const redisReply *reply, const char *doing);
bool redis_sync_connection_is_error(const redisReply *reply, const char *prefix);
void redis_sync_connection_place(const struct redis_endpoint *endpoint,
                                 char out[REDIS_TALK_PLACE_BYTES]);

/* ---- inspect_find.c ---- */

struct redis_survey {
    struct redis_endpoint *masters;
    uint32_t count;
    uint16_t of_slot[REDIS_SLOTS]; /* number of a master */
};

int redis_survey_find(const struct redis_url *url, struct redis_survey **out,
                      const struct redis_report *report);
void redis_survey_free(struct redis_survey *map);

/* ---- inspect_master.c ---- */

/* Refuses what is no master, too old, or would evict jobs. */
int redis_master_read(struct redis_sync_connection *connection, enum redis_kind kind,
                      struct redis_master *out);

/* ---- inspect_shards.c ---- */

/* How many there are; what is wanted (0: REDIS_SHARDS) where there are none yet. */
int redis_shards_fix(const struct redis_url *url, const struct redis_survey *map, uint32_t wanted,
                     uint32_t *out, const struct redis_report *report);
/* The queue's random name; made where it has none yet, or empty where Redis has no room. */
int redis_shards_name(const struct redis_url *url, const struct redis_survey *map, uint32_t shards,
                      char out[REDIS_NAME_BYTES], const struct redis_report *report);

#endif
