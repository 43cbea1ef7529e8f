/*
 * Room in the log: each record must be within the room that was asked for since the batch began. The
 * log itself only notices a record beyond the memory of the batch, which is often larger.
 */
#include "store/wal.h"
#include "world.h"

#include <assert.h>
#include <errno.h>

int __wrap_wal_has_room(struct wal *wal, size_t bytes, enum wal_need need);
int __real_wal_has_room(struct wal *wal, size_t bytes, enum wal_need need);
struct record_place __wrap_wal_append(struct wal *wal, const struct record *record);
struct record_place __real_wal_append(struct wal *wal, const struct record *record);
bool __wrap_wal_seal(struct wal *wal);
bool __real_wal_seal(struct wal *wal);
bool __wrap_wal_seal_sync(struct wal *wal);
bool __real_wal_seal_sync(struct wal *wal);

uint64_t world_waits_for_room;
/* The log with the open batch, and the bytes of records that may still be appended to it. */
static const struct wal *asked;
static size_t left;

int __wrap_wal_has_room(struct wal *wal, size_t bytes, enum wal_need need)
{
    int result = __real_wal_has_room(wal, bytes, need);

    if (asked != wal)
        left = 0;
    asked = wal;
    world_waits_for_room += result == -EAGAIN;
    if (result == 0 && left < bytes)
        left = bytes;
    return result;
}

struct record_place __wrap_wal_append(struct wal *wal, const struct record *record)
{
    struct record_place place;

    assert(asked == wal && record_bytes_max(record) <= left && "wal_has_room comes first");
    place = __real_wal_append(wal, record);
    left -= place.bytes;
    return place;
}

static bool sealed(bool is_sealed)
{
    if (is_sealed)
        asked = NULL;
    return is_sealed;
}

bool __wrap_wal_seal(struct wal *wal)
{
    return sealed(__real_wal_seal(wal));
}

bool __wrap_wal_seal_sync(struct wal *wal)
{
    return sealed(__real_wal_seal_sync(wal));
}
