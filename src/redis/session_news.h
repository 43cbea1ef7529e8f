/*
 * session_news: a session's second connection, subscribed to its shard's news (scripts/README.md,
 * "News").
 *
 * Made to the server the session is connected to, and made again by itself when it ends: until then
 * the shard's owner is late by at most its own look. One thread, the reactor's.
 */
#ifndef TARRY_REDIS_SESSION_NEWS_H
#define TARRY_REDIS_SESSION_NEWS_H

#include "redis/connection.h"

struct redis_session;

struct session_news {
    struct redis_session *session;
    struct redis_connection *connection;
    struct deadline *deadline; /* until it is made again */
    int64_t pause_ms;          /* before that */
    bool subscribed;
    char said[128]; /* the last complaint in the log */
};

bool session_news_init(struct session_news *news,
                       struct redis_session *session); /* false: no memory */
void session_news_fini(struct session_news *news);
/* To the session's endpoint. */
void session_news_start(struct session_news *news);
void session_news_stop(struct session_news *news);

#endif
