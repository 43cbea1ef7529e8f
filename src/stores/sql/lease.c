#include "sql/lease.h"

#include "base/text.h"

enum { NUMBER_BYTES = 6, PACKED_BYTES = 4 + 2 + 5 * NUMBER_BYTES + 8 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static uint64_t check_of(const struct mac_key *key, const struct sql_lease *lease)
{
    uint64_t where =
        mac_pair(key, (uint64_t)lease->topic << 32 | lease->level, (uint64_t)lease->due_ms);
    uint64_t which = mac_pair(key, where ^ lease->sequence, lease->delivery);
    uint64_t when = mac_pair(key, where ^ which, (uint64_t)lease->taken_ms);
    return mac_pair(key, when, lease->row);
}

static unsigned char *put_number(unsigned char *at, uint64_t number, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (unsigned char)(number >> (8 * i));
    return at;
}

static const unsigned char *take_number(const unsigned char *at, uint64_t *number, int bytes)
{
    *number = 0;
    for (int i = 0; i < bytes; i++)
        *number = *number << 8 | *at++;
    return at;
}

/* Encodes six bits per letter. */
void sql_lease_emit(char out[SQL_LEASE_TEXT_BYTES], const struct mac_key *key,
                    const struct sql_lease *lease)
{
    unsigned char packed[PACKED_BYTES + 1] = {0};
    unsigned char *at = put_number(packed, lease->topic, 4);
    at = put_number(at, lease->level, 2);
    at = put_number(at, (uint64_t)lease->due_ms, NUMBER_BYTES);
    at = put_number(at, (uint64_t)lease->taken_ms, NUMBER_BYTES);
    at = put_number(at, lease->sequence, NUMBER_BYTES);
    at = put_number(at, lease->delivery, NUMBER_BYTES);
    at = put_number(at, lease->row, NUMBER_BYTES);
    put_number(at, check_of(key, lease), 8);
    for (int i = 0; i < SQL_LEASE_TEXT_BYTES; i++) {
        int bit = i * 6, shift = 10 - bit % 8;
        unsigned pair = (unsigned)packed[bit / 8] << 8 | packed[bit / 8 + 1];
        out[i] = letters[pair >> shift & 63];
    }
}

static bool unpack(struct slice text, unsigned char packed[PACKED_BYTES + 1])
{
    for (size_t i = 0; i < text.len; i++) {
        int value = text_base64url_value(text.at[i]);
        size_t bit = i * 6;
        if (value < 0)
            return false;
        unsigned pair = (unsigned)value << (10 - bit % 8);
        packed[bit / 8] |= (unsigned char)(pair >> 8);
        packed[bit / 8 + 1] |= (unsigned char)pair;
    }
    return packed[PACKED_BYTES] == 0;
}

bool sql_lease_parse(struct slice text, const struct mac_key *key, struct sql_lease *out)
{
    unsigned char packed[PACKED_BYTES + 1] = {0};
    uint64_t topic, level, due, taken, sequence, delivery, row, check;
    if (text.len != SQL_LEASE_TEXT_BYTES || !unpack(text, packed))
        return false;
    const unsigned char *at = take_number(packed, &topic, 4);
    at = take_number(at, &level, 2);
    at = take_number(at, &due, NUMBER_BYTES);
    at = take_number(at, &taken, NUMBER_BYTES);
    at = take_number(at, &sequence, NUMBER_BYTES);
    at = take_number(at, &delivery, NUMBER_BYTES);
    at = take_number(at, &row, NUMBER_BYTES);
    take_number(at, &check, 8);
    struct sql_lease lease = {.topic = (uint32_t)topic,
                              .level = (uint32_t)level,
                              .due_ms = (int64_t)due,
                              .taken_ms = (int64_t)taken,
                              .sequence = sequence,
                              .delivery = delivery,
                              .row = row};
    if (check_of(key, &lease) != check)
        return false;
    *out = lease;
    return true;
}

uint64_t sql_change_delivery(const struct queue_change *change, const struct mac_key *key)
{
    struct sql_lease lease;
    if (!change->lease.len)
        return change->only_dead ? change->delivery : 0;
    return sql_lease_parse(change->lease, key, &lease) ? lease.delivery : QUEUE_DELIVERY_NONE;
}

/* ---- leases whose ends this server watches ---- */

static void watched_drop(struct sql_watched *watched, struct sql_held *held)
{
    sql_ends_remove(&watched->ends, held->index);
    table_remove(&watched->by_delivery.table, &held->entry);
    free(held);
}

bool sql_watched_set(struct sql_watched *watched, const struct sql_lease *lease, int64_t until_ms)
{
    struct slice key = slice_make(&lease->delivery, sizeof lease->delivery);
    struct sql_held *held = sql_helds_find(&watched->by_delivery, key);
    if (!until_ms) {
        if (held)
            watched_drop(watched, held);
        return true;
    }
    if (held) {
        held->until_ms = until_ms;
        sql_ends_changed(&watched->ends, held->index);
        return true;
    }
    held = calloc(1, sizeof *held);
    if (!held)
        return false;
    held->lease = *lease;
    held->until_ms = until_ms;
    held->entry.key = slice_make(&held->lease.delivery, sizeof held->lease.delivery);
    if (!sql_ends_add(&watched->ends, held)) {
        free(held);
        return false;
    }
    sql_helds_add(&watched->by_delivery, held);
    return true;
}

int64_t sql_watched_next(const struct sql_watched *watched)
{
    return watched->ends.count ? watched->ends.at[0]->until_ms : INT64_MAX;
}

bool sql_watched_take(struct sql_watched *watched, int64_t now_ms, struct sql_lease *out)
{
    if (sql_watched_next(watched) > now_ms)
        return false;
    *out = watched->ends.at[0]->lease;
    watched_drop(watched, watched->ends.at[0]);
    return true;
}

void sql_watched_fini(struct sql_watched *watched)
{
    while (watched->ends.count)
        watched_drop(watched, watched->ends.at[0]);
    sql_ends_fini(&watched->ends);
    table_fini(&watched->by_delivery.table);
}
