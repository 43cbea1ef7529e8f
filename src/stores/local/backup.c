#include "local/backup.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/random.h"
#include "local/handle.h"
#include "local/shard_core.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    HOLD_MS = 60 * 1000,
    ANSWER_BYTES_MAX = 16 << 20,
    ID_BYTES = 16,
    EXTENTS_FIRST = 64,
    NOT_AN_ID = 2
};

struct hold {
    uint64_t id; /* 0: free */
    int64_t until_ms;
};

struct backups {
    struct local *local;
    struct reactor *home;
    struct deadline *deadline;
    struct hold holds[LOCAL_BACKUPS_MAX];
    char data_dir[PATH_MAX];
};

/* A visit to a shard: the request and the shard's answer. */
struct visit {
    struct letter letter;
    struct backup_call *call;
    uint32_t shard;
    uint64_t generation, epoch, sequence;
    struct wal_extent *extents;
    uint32_t extent_count;
    bool has_failed; /* out of memory */
};

/* A call: from the calling reactor to the first one, to all shards, and back. */
struct backup_call {
    struct letter letter;
    struct backups *backups;
    struct reactor *asked_on;
    enum local_backup what;
    uint64_t id;
    enum queue_status status;
    struct buffer json;
    uint32_t visits_left;
    local_backed_up *done; /* NULL: internal call, no answer needed */
    void *owner;
    uint64_t tag;
    struct visit visits[];
};

static void visit_go_home(struct letter *letter);

/* ---- calls ---- */

static struct backup_call *backup_call_new(struct backups *backups, enum local_backup what)
{
    const uint32_t shards = backups->local->shard_count;
    struct backup_call *call = calloc(1, sizeof *call + shards * sizeof call->visits[0]);
    if (!call)
        return NULL;
    call->backups = backups;
    call->what = what;
    buffer_init(&call->json, ANSWER_BYTES_MAX);
    for (uint32_t i = 0; i < shards; i++)
        call->visits[i] = (struct visit){.call = call, .shard = i};
    return call;
}

static void backup_call_free(struct backup_call *call)
{
    for (uint32_t i = 0; i < call->backups->local->shard_count; i++)
        free(call->visits[i].extents);
    buffer_fini(&call->json);
    free(call);
}

/* Delivers the answer on the calling reactor. */
static void backup_call_notify(struct letter *letter)
{
    struct backup_call *call = (struct backup_call *)(void *)letter;
    call->done(call->owner, call->tag, call->status, buffer_slice(&call->json));
    backup_call_free(call);
}

/* Finishes a call. On the first reactor. */
static void backup_call_finish(struct backup_call *call, enum queue_status status)
{
    if (!call->done) {
        backup_call_free(call);
        return;
    }
    call->status = status;
    call->letter.run = backup_call_notify;
    reactor_post(call->asked_on, &call->letter);
}

/* ---- the answers of the shards ---- */

static void write_visit(struct buffer *out, const struct visit *visit)
{
    buffer_append_format(out,
                         "%s{\"shard\":%" PRIu32 ",\"generation\":%" PRIu64 ",\"epoch\":%" PRIu64
                         ",\"sequence\":%" PRIu64 ",\"log\":[",
                         visit->shard ? "," : "", visit->shard, visit->generation, visit->epoch,
                         visit->sequence);
    for (uint32_t i = 0; i < visit->extent_count; i++)
        buffer_append_format(
            out, "%s{\"file\":%" PRIu32 ",\"bytes\":%" PRIu32 ",\"file_bytes\":%" PRIu32 "}",
            i ? "," : "", visit->extents[i].file, visit->extents[i].bytes,
            visit->extents[i].file_bytes);
    buffer_append_text(out, "]}");
}

static int64_t hold_ms(const struct backups *backups)
{
    const int64_t given = backups->local->options.backup_hold_ms;
    return given ? given : HOLD_MS;
}

static void write_answer(struct backup_call *call)
{
    struct buffer *out = &call->json;
    buffer_append_format(out, "{\"id\":\"%016" PRIx64 "\"", call->id);
    if (call->what == LOCAL_BACKUP_END) {
        buffer_append_byte(out, '}');
        return;
    }
    buffer_append_text(out, ",\"data\":");
    json_write_string(out, slice_of(call->backups->data_dir));
    buffer_append_format(out, ",\"pid\":%ld,\"hold_ms\":%" PRId64 ",\"shards\":[", (long)getpid(),
                         hold_ms(call->backups));
    for (uint32_t i = 0; i < call->backups->local->shard_count; i++)
        write_visit(out, &call->visits[i]);
    buffer_append_text(out, "]}");
}

/* ---- at the shards ---- */

/* Collects the shard's valid files and their lengths as of this moment. */
static void visit_look(struct shard *shard, struct visit *visit)
{
    uint32_t room = EXTENTS_FIRST;
    visit->generation = shard->depot ? depot_catalog(shard->depot)->generation : 0;
    visit->epoch = wal_epoch(shard->wal);
    visit->sequence = wal_committed_sequence(shard->wal);
    for (;;) {
        visit->extents = calloc(room, sizeof *visit->extents);
        if (!visit->extents)
            break;
        visit->extent_count = wal_extents(shard->wal, visit->extents, room);
        if (visit->extent_count <= room)
            return;
        room = visit->extent_count;
        free(visit->extents);
    }
    visit->extent_count = 0;
    visit->has_failed = true;
}

/* Starts or stops keeping the shard's files. */
static void hold_back(struct shard *shard, bool on)
{
    wal_hold_back(shard->wal, on);
    if (shard->depot)
        depot_hold_back(shard->depot, on);
}

/* Visits a shard. On the shard's thread. */
static void visit_shard(struct letter *letter)
{
    struct visit *visit = (struct visit *)(void *)letter;
    const struct backup_call *call = visit->call;
    struct shard *shard = call->backups->local->shards[visit->shard];
    if (call->what != LOCAL_BACKUP_RENEW)
        hold_back(shard, call->what == LOCAL_BACKUP_BEGIN);
    if (call->what != LOCAL_BACKUP_END)
        visit_look(shard, visit);
    visit->letter.run = visit_go_home;
    reactor_post(call->backups->home, &visit->letter);
}

/* Sends the call from the first reactor to each shard. */
static void backup_call_visit_all(struct backup_call *call)
{
    struct local *local = call->backups->local;
    call->visits_left = local->shard_count;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        call->visits[i].letter.run = visit_shard;
        reactor_post(local->handles[i]->reactor, &call->visits[i].letter);
    }
}

/* ---- on the first reactor ---- */

static struct hold *hold_find(struct backups *backups, uint64_t id)
{
    for (size_t i = 0; i < LOCAL_BACKUPS_MAX; i++)
        if (backups->holds[i].id == id)
            return &backups->holds[i];
    return NULL;
}

/* Sets the deadline to that of the backup that expires first. */
static void holds_set_deadline(struct backups *backups)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < LOCAL_BACKUPS_MAX; i++)
        if (backups->holds[i].id && backups->holds[i].until_ms < first_ms)
            first_ms = backups->holds[i].until_ms;
    deadline_set(backups->deadline, first_ms);
}

/* Handles the return from a shard; the last one ends the call. */
static void visit_go_home(struct letter *letter)
{
    struct visit *visit = (struct visit *)(void *)letter;
    struct backup_call *call = visit->call;
    bool has_failed = false;
    if (--call->visits_left)
        return;
    for (uint32_t i = 0; i < call->backups->local->shard_count; i++)
        has_failed |= call->visits[i].has_failed;
    write_answer(call);
    backup_call_finish(call, has_failed || call->json.failed ? QUEUE_NO_MEMORY : QUEUE_OK);
}

static void hold_begin(struct backup_call *call, struct hold *hold)
{
    hold->id = random_u64() | 1;
    hold->until_ms = clock_inner_ms() + hold_ms(call->backups);
    call->id = hold->id;
    log_event(LOG_INFO, "backup begun", LOG_NUMBER("hold_ms", hold_ms(call->backups)));
}

/* Handles a call on the first reactor, which owns the list. */
static void backup_call_arrive(struct letter *letter)
{
    struct backup_call *call = (struct backup_call *)(void *)letter;
    struct backups *backups = call->backups;
    struct hold *hold = hold_find(backups, call->what == LOCAL_BACKUP_BEGIN ? 0 : call->id);
    if (!hold) {
        backup_call_finish(call,
                           call->what == LOCAL_BACKUP_BEGIN ? QUEUE_CONFLICT : QUEUE_NOT_FOUND);
        return;
    }
    if (call->what == LOCAL_BACKUP_BEGIN) {
        hold_begin(call, hold);
    } else if (call->what == LOCAL_BACKUP_RENEW) {
        hold->until_ms = clock_inner_ms() + hold_ms(backups);
    } else {
        log_event(LOG_INFO, "backup ended");
        *hold = (struct hold){0};
    }
    holds_set_deadline(backups);
    backup_call_visit_all(call);
}

/* Ends backups that were not renewed in time. */
static void holds_expire(void *ctx)
{
    struct backups *backups = ctx;
    const int64_t now_ms = clock_inner_ms();
    for (size_t i = 0; i < LOCAL_BACKUPS_MAX; i++) {
        struct hold *hold = &backups->holds[i];
        if (!hold->id || hold->until_ms > now_ms)
            continue;
        struct backup_call *call = backup_call_new(backups, LOCAL_BACKUP_END);
        if (!call) { /* no memory: retry after a while */
            hold->until_ms = now_ms + 1000;
            continue;
        }
        log_event(LOG_WARN, "backup abandoned",
                  LOG_TEXT("reason", "its client did not renew it in time"),
                  LOG_NUMBER("hold_ms", hold_ms(backups)));
        *hold = (struct hold){0};
        backup_call_visit_all(call);
    }
    holds_set_deadline(backups);
}

/* ---- creation ---- */

/* Parses an id. Ids are odd; an invalid one becomes NOT_AN_ID, which is even. */
static uint64_t parse_id(struct slice text)
{
    char digits[ID_BYTES + 1];
    if (text.len != ID_BYTES)
        return NOT_AN_ID;
    memcpy(digits, text.at, ID_BYTES);
    digits[ID_BYTES] = '\0';
    if (strspn(digits, "0123456789abcdef") != ID_BYTES)
        return NOT_AN_ID;
    uint64_t id = strtoull(digits, NULL, 16);
    return id & 1 ? id : NOT_AN_ID; /* a free slot has 0 */
}

void local_backup(struct local *local, struct reactor *reactor, enum local_backup what,
                  struct slice id, local_backed_up *done, void *owner, uint64_t tag)
{
    struct backups *backups = local->backups;
    struct backup_call *call = backup_call_new(backups, what);
    if (!call) {
        done(owner, tag, QUEUE_NO_MEMORY, (struct slice){0});
        return;
    }
    call->asked_on = reactor;
    call->done = done;
    call->owner = owner;
    call->tag = tag;
    call->letter.run = backup_call_arrive;
    call->id = what == LOCAL_BACKUP_BEGIN ? 0 : parse_id(id);
    reactor_post(backups->home, &call->letter);
}

struct backups *backups_new(struct local *local, struct reactor *home)
{
    struct backups *backups = calloc(1, sizeof *backups);
    if (!backups)
        return NULL;
    backups->local = local;
    backups->home = home;
    backups->deadline = deadline_new(home, holds_expire, backups);
    if (!backups->deadline || !realpath(local->options.data_dir, backups->data_dir)) {
        backups_free(backups);
        return NULL;
    }
    return backups;
}

void backups_free(struct backups *backups)
{
    if (!backups)
        return;
    deadline_free(backups->deadline);
    free(backups);
}
