/*
 * codec_private: what packing and unpacking agree on: the flags of a record, and how long its parts
 * of fixed length are (scripts/README.md).
 */
#ifndef TARRY_REDIS_CODEC_PRIVATE_H
#define TARRY_REDIS_CODEC_PRIVATE_H

#include "redis/codec.h"

#define NONE ((1ull << 48) - 1)

enum {
    HAS_POLICY = 1,
    HAS_CONTENT_TYPE = 2,
    HAS_META = 4,
    DUE_IS_WALL = 8,
    HAS_PAST = 16,
    FLAGS = HAS_POLICY | HAS_CONTENT_TYPE | HAS_META | DUE_IS_WALL
};

enum { HAS_HISTORY = 128 }; /* beside the state of a try that is shown */

enum { PRIORITY_GIVEN = 4, ID_IS_MADE = 8 };

enum {
    POLICY_BYTES = 6 + 6 + 1 + 6 + 6 + 4,
    SETTINGS_BYTES = POLICY_BYTES + 1 + 1 + 2 + 1 + 6,
    FIXED_BYTES = 64 /* more than any text of fixed length above */
};

#endif
