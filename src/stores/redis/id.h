/*
 * id: a job's id as Redis keeps it. Pure.
 *
 * A ULID as it is made here (26 characters of Crockford's base 32 in upper case, at most 128 bits)
 * is kept as the byte 0x01 and its 16 bytes, a UUID (36 characters, hex digits in lower case) as
 * 0x02 and its 16 bytes; every other id as it is. Ids are printable, so nothing clashes, and each
 * has one stored form.
 */
#ifndef TARRY_REDIS_ID_H
#define TARRY_REDIS_ID_H

#include "job/job.h"

enum { REDIS_ID_PACKED_BYTES = 17 };

/* The stored form. Points into `room` or is `id` itself. */
struct slice redis_id_store(struct slice id, char room[REDIS_ID_PACKED_BYTES]);

enum { REDIS_ID_ROOM_BYTES = 36 };

/* Back from the stored form. Points into `room` or is `stored` itself. False: it is no id's. */
bool redis_id_show(struct slice stored, char room[REDIS_ID_ROOM_BYTES], struct slice *id);

#endif
