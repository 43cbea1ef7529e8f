/* name: a queue's random name, drawn once and kept in Redis: 32 hex digits. */
#ifndef TARRY_REDIS_NAME_H
#define TARRY_REDIS_NAME_H

#include "base/slice.h"
#include "redis/redis.h"

void redis_name_draw(char out[REDIS_NAME_BYTES]);
/* What Redis has kept as such; empty where it is none. */
void redis_name_read(struct slice text, char out[REDIS_NAME_BYTES]);

#endif
