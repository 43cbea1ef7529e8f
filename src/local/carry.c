/*
 * Carrying live records out of the oldest log file, so that a few long-lived jobs do not keep all
 * later files: the librarian reads the file slice by slice; the shard appends again, as they stand
 * now, those that still count. The topics' records are few and known: they are written again
 * whenever a new file was begun.
 */
#include "base/log.h"
#include "local/private.h"

#include <errno.h>
#include <stdlib.h>

/* In one turn. */
enum { CARRY_AT_ONCE = 512 /* records looked at */, TOPICS_AT_ONCE = 256 };

struct carry {
    struct work work;
    struct shard *shard;
    uint32_t file, at;
    int result; /* of the last scan: 1 more, 0 end, negative errno */
    bool scanning;
    struct buffer scratch;
    struct found {
        struct record record;
        struct record_place place;
    } * found;
    size_t found_count, found_cap, carried;
};

static void on_record(void *ctx, const struct record *record, struct record_place place)
{
    struct carry *carry = ctx;
    if (record->kind != RECORD_JOB && record->kind != RECORD_DONE)
        return;
    if (carry->found_count == carry->found_cap) {
        size_t cap = carry->found_cap ? carry->found_cap * 2 : 1024;
        struct found *found = realloc(carry->found, cap * sizeof *found);
        if (!found) {
            carry->result = -ENOMEM;
            return;
        }
        carry->found = found;
        carry->found_cap = cap;
    }
    carry->found[carry->found_count++] = (struct found){.record = *record, .place = place};
}

static void on_librarian(struct work *work)
{
    struct carry *carry = (struct carry *)(void *)work;
    buffer_clear(&carry->scratch);
    carry->found_count = carry->carried = 0;
    carry->result = 0;
    /* One batch: the slices of its records are good until the next scan. */
    int result =
        wal_scan(carry->shard->wal, carry->file, &carry->at, 1, &carry->scratch, on_record, carry);
    if (carry->result == 0)
        carry->result = result;
}

static void on_back(struct work *work)
{
    ((struct carry *)(void *)work)->scanning = false;
}

static void carry_free(struct carry *carry)
{
    buffer_fini(&carry->scratch);
    free(carry->found);
    free(carry);
}

static void start(struct shard *shard, uint32_t file)
{
    struct carry *carry = calloc(1, sizeof *carry);
    if (!carry)
        return; /* the next turn tries again */
    carry->shard = shard;
    carry->file = file;
    carry->result = 1;
    buffer_init(&carry->scratch, SIZE_MAX / 2);
    shard->carry = carry;
}

/* Appends what of the batch still counts, a bounded number of it. False: there is no room. */
static bool carry_some(struct shard *shard, struct carry *carry)
{
    for (int left = CARRY_AT_ONCE; left && carry->carried < carry->found_count; left--) {
        const struct found *found = &carry->found[carry->carried];
        if (wal_has_room(shard->wal, engine_room_carry(&found->record), WAL_FOR_ANSWER))
            return false;
        engine_carry(shard->engine, &found->record, found->place);
        carry->carried++;
    }
    return true;
}

static void finish(struct shard *shard, struct carry *carry)
{
    if (carry->result < 0 && carry->result != -ENOMEM) {
        shard->carry_failed = carry->file; /* once is enough: it stays where it is */
        log_event(LOG_ERROR, "log file cannot be carried forward",
                  LOG_NUMBER("shard", shard->options.index), LOG_NUMBER("file", carry->file),
                  LOG_NUMBER("errno", -carry->result));
    }
    carry_free(carry);
    shard->carry = NULL;
}

static bool carry_file(struct shard *shard)
{
    struct carry *carry = shard->carry;
    if (!carry) {
        uint32_t file = shard->stopping ? 0 : wal_oldest_to_carry(shard->wal);
        if (!file || file == shard->carry_failed)
            return false;
        start(shard, file);
        carry = shard->carry;
        if (!carry)
            return false;
    }
    if (carry->scanning)
        return false;
    if (shard->stopping) { /* what is left stays where it is */
        finish(shard, carry);
        return false;
    }
    bool has_room = carry_some(shard, carry);
    if (carry->carried < carry->found_count)
        return has_room;
    if (carry->result != 1) {
        finish(shard, carry);
        return false;
    }
    carry->scanning = true;
    carry->work.perform = on_librarian;
    carry->work.done = on_back;
    worker_give(shard->librarian, &carry->work);
    return false;
}

void carry_begin_topics(struct shard *shard)
{
    shard->carrying_topics = true;
    shard->topics_at = 0;
}

static bool carry_topics(struct shard *shard)
{
    if (!shard->carrying_topics && wal_began_file(shard->wal))
        carry_begin_topics(shard);
    if (!shard->carrying_topics)
        return false;
    for (int left = TOPICS_AT_ONCE; left; left--) {
        int failed = wal_has_room(shard->wal, ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER);
        if (failed) {
            if (failed != -EAGAIN && shard->stopping) /* they are where they were */
                shard->carrying_topics = false;
            return false;
        }
        if (engine_carry_topics(shard->engine, &shard->topics_at, 1)) {
            shard->carrying_topics = false;
            wal_topics_carried(shard->wal);
            return false;
        }
    }
    return true;
}

bool carry_step(struct shard *shard)
{
    bool more = carry_file(shard);
    return carry_topics(shard) || more;
}

bool carry_is_busy(const struct shard *shard)
{
    return shard->carry != NULL || shard->carrying_topics;
}

void carry_fini(struct shard *shard)
{
    if (shard->carry)
        carry_free(shard->carry);
    shard->carry = NULL;
}
