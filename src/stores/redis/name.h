/* name: a queue's random name, generated once and stored in Redis: 32 hex digits. */
#ifndef TARRY_REDIS_NAME_H
#define TARRY_REDIS_NAME_H

#include "base/slice.h"
#include "redis/redis.h"

void redis_name_draw(char out[REDIS_NAME_BYTES]);
/* Reads the name that Redis has stored; empty if the text is not a name. */
void redis_name_read(struct slice text, char out[REDIS_NAME_BYTES]);

#endif
