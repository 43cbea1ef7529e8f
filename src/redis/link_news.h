/*
 * link_news: a link's second connection, subscribed to its shard's news (scripts/README.md,
 * "News").
 *
 * Made to the server the link is connected to, and made again by itself when it ends: until then
 * the shard's owner is late by at most its own look. One thread, the reactor's.
 */
#ifndef TARRY_REDIS_LINK_NEWS_H
#define TARRY_REDIS_LINK_NEWS_H

#include "redis/connection.h"

struct redis_link;

struct link_news {
    struct redis_link *link;
    struct redis_connection *connection;
    struct deadline *deadline; /* until it is made again */
    int64_t pause_ms;          /* before that */
    bool subscribed;
    char said[128]; /* the last complaint in the log */
};

bool link_news_init(struct link_news *news, struct redis_link *link); /* false: no memory */
void link_news_fini(struct link_news *news);
/* To the link's endpoint. */
void link_news_start(struct link_news *news);
void link_news_stop(struct link_news *news);

#endif
