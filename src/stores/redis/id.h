/*
 * id: converts job ids to and from their stored form in Redis. Pure.
 *
 * A ULID as tarry generates it (26 characters of Crockford's base 32 in upper case, at most 128
 * bits) is stored as the byte 0x01 and its 16 bytes; a UUID (36 characters, hex digits in lower
 * case) as 0x02 and its 16 bytes; every other id as it is. Ids are printable, so stored forms
 * cannot collide, and each id has exactly one. A `once` is remembered under a blank and its text.
 */
#ifndef TARRY_REDIS_ID_H
#define TARRY_REDIS_ID_H

#include "job/job.h"

enum { REDIS_ID_PACKED_BYTES = 17 };

/* Returns the stored form, which points into `room` or is `id` itself. */
struct slice redis_id_store(struct slice id, char room[REDIS_ID_PACKED_BYTES]);

enum { REDIS_ID_ROOM_BYTES = 36 };

/* Converts back from the stored form. *id points into `room` or is `stored` itself. Returns false
 * if the stored form is invalid. */
bool redis_id_show(struct slice stored, char room[REDIS_ID_ROOM_BYTES], struct slice *id);

#endif
