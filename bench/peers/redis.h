/*
 * load_redis: a delay queue on one Redis as it is usually built, as a load protocol, for comparing.
 *
 * Ids by due time in a ZSET, bodies in a HASH, leased ids in a second ZSET; three Lua scripts push,
 * take and ack, so that each step is atomic. No notification reaches a consumer when a job is due: it polls
 * again a millisecond after getting nothing.
 */
#ifndef TARRY_LOAD_REDIS_H
#define TARRY_LOAD_REDIS_H

#include "load/protocol.h"

extern const struct load_protocol load_redis;

#endif
