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

#include "base/mac.h"
#include "base/slice.h"
#include "job/job.h"

enum { REDIS_ID_PACKED_BYTES = 17 };

/* Returns the stored form, which points into `room` or is `id` itself. */
struct slice redis_id_store(struct slice id, char room[REDIS_ID_PACKED_BYTES]);

enum { REDIS_ID_ROOM_BYTES = 36 };

/* Converts back from the stored form. *id points into `room` or is `stored` itself. Returns false
 * if the stored form is invalid. */
bool redis_id_show(struct slice stored, char room[REDIS_ID_ROOM_BYTES], struct slice *id);

/*
 * lease: the text form of the token that a consumer holds. Pure.
 *
 * 30 hex digits: the shard, the delivery number, and a check of both under the shard's key, which
 * is stored in Redis. The number rises with every delivery of the shard, so a token identifies one
 * delivery forever, on all servers. A client cannot forge a token from the tokens that it holds.
 */

enum { REDIS_LEASE_BYTES = 30 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], const struct mac_key *key, uint32_t shard,
                       uint64_t delivery);
/* Returns false if the text is not a token of this shard. */
bool redis_lease_parse(struct slice text, const struct mac_key *key, uint32_t *shard,
                       uint64_t *delivery);
/* Reads the shard number of a token without checking the token. Returns false if the text does not
 * have the form of a token. */
bool redis_lease_find_shard(struct slice text, uint32_t *shard);

#endif
