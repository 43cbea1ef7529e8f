#include "support/wal_owner.h"

#include "store/wal_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_BYTES_MAX = 65536, IN_CATALOG = RECORD_IN_RUN | 1 };

int64_t wal_owner_ms = 1000;

static int64_t now_ms(struct clock *clock)
{
    (void)clock;
    return wal_owner_ms;
}

void wal_owner_init(struct wal_owner *owner, const struct wal_options *options, uint64_t seed)
{
    memset(owner, 0, sizeof *owner);
    owner->options = *options;
    owner->options.inner_ms = now_ms;
    owner->options.wall_ms = now_ms;
    owner->options.seed = seed | 1;
    owner->random.state = seed;
    owner->changes = calloc(OWNER_CHANGES_MAX, sizeof *owner->changes);
    owner->places = calloc(OWNER_JOBS_MAX, sizeof *owner->places);
    owner->checkpoint.ids = calloc(OWNER_JOBS_MAX, sizeof *owner->checkpoint.ids);
    assert(owner->changes && owner->places && owner->checkpoint.ids);
}

void wal_owner_fini(struct wal_owner *owner)
{
    wal_close(owner->wal);
    free(owner->changes);
    free(owner->places);
    free(owner->checkpoint.ids);
}

void wal_owner_close(struct wal_owner *owner)
{
    wal_close(owner->wal);
    owner->wal = NULL;
}

/* ---- records ---- */

size_t wal_owner_body(uint32_t id, size_t body_bytes, char *into)
{
    struct random random = {.state = id};

    for (size_t i = 0; i < body_bytes; i++)
        into[i] = (char)random_next(&random);
    return body_bytes;
}

/* The text is in static buffers. */
static struct record job_record(uint32_t id, size_t body_bytes)
{
    static char name[32], body[BODY_BYTES_MAX];

    snprintf(name, sizeof name, "%u", id);
    return (struct record){
        .kind = RECORD_JOB,
        .origin = RECORD_PUSHED,
        .job = {.topic = slice_of("t"),
                .id = slice_of(name),
                .body = slice_make(body, wal_owner_body(id, body_bytes, body)),
                .state = JOB_DELAYED,
                .priority = JOB_PRIORITY,
                .due_ms = id,
                .first_due_ms = id,
                .sequence = id},
    };
}

static struct record done_record(uint32_t id)
{
    return (struct record){.kind = RECORD_DONE,
                           .done = {.key = {0, id}, .reason = RECORD_ACKED, .sequence = id}};
}

static struct record topic_record(uint32_t value)
{
    return (struct record){
        .kind = RECORD_TOPIC,
        .topic = {.topic = slice_of("t"), .exists = true, .totals = {.pushed = value}}};
}

static uint32_t job_id(const struct job *job)
{
    char text[32] = "", body[BODY_BYTES_MAX];
    uint32_t id;

    assert(job->id.len < sizeof text);
    memcpy(text, job->id.at, job->id.len);
    id = (uint32_t)strtoul(text, NULL, 10);
    assert(id && id < OWNER_JOBS_MAX && job->body.len <= sizeof body);
    wal_owner_body(id, job->body.len, body);
    assert(slice_equals(job->body, slice_make(body, job->body.len)));
    assert(job->due_ms == id && job->sequence == id);
    return id;
}

/* ---- the catalog: numbers, the last a sum of those before ---- */

enum { CATALOG_HEAD = 3, CATALOG_NUMBERS_MAX = CATALOG_HEAD + OWNER_JOBS_MAX + 1 };

static void catalog_paths(const struct wal_owner *owner, char path[PATH_MAX], char fresh[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/CATALOG", owner->options.dir);
    snprintf(fresh, PATH_MAX, "%s/CATALOG.tmp", owner->options.dir);
}

static uint64_t sum_of(const uint64_t *numbers, size_t count)
{
    uint64_t sum = count;

    for (size_t i = 0; i < count; i++)
        sum = (sum ^ numbers[i]) * 0x9e3779b97f4a7c15u;
    return sum;
}

static int write_catalog(struct wal_owner *owner)
{
    static uint64_t numbers[CATALOG_NUMBERS_MAX];
    const struct owner_checkpoint *checkpoint = &owner->checkpoint;
    const struct fs *fs = owner->options.fs;
    char path[PATH_MAX], fresh[PATH_MAX];
    size_t count = CATALOG_HEAD;
    int result, fd;

    numbers[0] = checkpoint->before;
    numbers[1] = checkpoint->first_sequence;
    numbers[2] = checkpoint->count;
    for (uint32_t i = 0; i < checkpoint->count; i++)
        numbers[count++] = checkpoint->ids[i];
    numbers[count] = sum_of(numbers, count);
    count++;
    catalog_paths(owner, path, fresh);
    fd = fs->ops->open(fs->ctx, fresh, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return fd;
    result = fs_pwrite_whole(fs, fd, numbers, count * sizeof *numbers, 0);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    fs->ops->close(fs->ctx, fd);
    if (result == 0)
        result = fs->ops->rename(fs->ctx, fresh, path);
    if (result == 0) {
        result = fs->ops->fsync_dir(fs->ctx, owner->options.dir);
        owner->is_dead = result < 0;
    }
    return result;
}

/* Reads the catalog: the position of the log goes to the options, its jobs to `places`. Returns 0 also without a catalog. */
static int read_catalog(struct wal_owner *owner)
{
    static uint64_t numbers[CATALOG_NUMBERS_MAX];
    const struct fs *fs = owner->options.fs;
    char path[PATH_MAX], fresh[PATH_MAX];
    int fd, result = fs->ops->fsync_dir(fs->ctx, owner->options.dir);
    ssize_t got;

    owner->options.first = 0;
    owner->options.first_sequence = 0;
    catalog_paths(owner, path, fresh);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd == -ENOENT)
        return 0;
    if (fd < 0 || result < 0)
        return fd < 0 ? fd : result;
    got = fs->ops->pread(fs->ctx, fd, numbers, sizeof numbers, 0);
    fs->ops->close(fs->ctx, fd);
    if (got < 0)
        return (int)got;
    assert(got == (ssize_t)((CATALOG_HEAD + numbers[2] + 1) * sizeof *numbers));
    assert(numbers[CATALOG_HEAD + numbers[2]] == sum_of(numbers, CATALOG_HEAD + numbers[2]));
    owner->options.first = (uint32_t)numbers[0];
    owner->options.first_sequence = numbers[1];
    for (uint64_t i = 0; i < numbers[2]; i++)
        owner->places[numbers[CATALOG_HEAD + i]] =
            (struct record_place){.file = IN_CATALOG, .bytes = 1};
    owner->live = (uint32_t)numbers[2];
    return 0;
}

/* ---- opening, and the judge ---- */

static bool replay(void *ctx, const struct record *record, struct record_place place)
{
    struct wal_owner *owner = ctx;
    uint32_t id;

    if (record->kind == RECORD_TOPIC) {
        owner->topic_value = (uint32_t)record->topic.totals.pushed;
        return true;
    }
    id = record->kind == RECORD_JOB ? job_id(&record->job) : (uint32_t)record->done.key.low;
    assert(id && id < OWNER_JOBS_MAX);
    if (owner->places[id].bytes)
        owner->live--;
    owner->places[id] = record->kind == RECORD_JOB ? place : (struct record_place){0};
    owner->live += record->kind == RECORD_JOB;
    return true;
}

static void judge(struct wal_owner *owner, uint64_t least)
{
    uint64_t last = wal_open_sequence(owner->wal) - 1;
    bool *live = calloc(OWNER_JOBS_MAX, sizeof *live);
    uint32_t topic_value = 0, kept = 0;

    assert(live);
    assert(last >= least && "a committed batch is gone");
    for (uint32_t i = 0; i < owner->change_count && owner->changes[i].sequence <= last;
         i++, kept++) {
        const struct owner_change *change = &owner->changes[i];

        if (change->kind == OWNER_TOPIC)
            topic_value = change->id;
        else
            live[change->id] = change->kind == OWNER_PUSH;
    }
    assert((kept ? owner->changes[kept - 1].sequence : 0) <= last);
    assert(owner->topic_value == topic_value && "the topic's record is not the last one");
    for (uint32_t id = 1; id < OWNER_JOBS_MAX; id++) {
        assert(!(live[id] && owner->places[id].bytes == 0) && "a job is gone");
        assert(!(!live[id] && owner->places[id].bytes) && "a job came back");
    }
    owner->change_count = kept; /* what was lost never happened */
    owner->acked = owner->synced_acked = last;
    free(live);
}

int wal_owner_open(struct wal_owner *owner, uint64_t least)
{
    int result;

    memset(owner->places, 0, OWNER_JOBS_MAX * sizeof *owner->places);
    owner->topic_value = 0;
    owner->live = 0;
    owner->syncs = 0;
    owner->checkpoint.before = 0;
    owner->is_dead = false;
    result = read_catalog(owner);
    if (result < 0)
        return result;
    result = wal_open(&owner->options, replay, owner, &owner->wal, &owner->found, owner->error,
                      sizeof owner->error);
    if (result == 0)
        judge(owner, least);
    return result;
}

/* ---- changes ---- */

static bool has_room(struct wal_owner *owner, const struct record *record, enum wal_need need)
{
    for (int tries = 0; tries < 3; tries++) {
        int result = wal_has_room(owner->wal, record_bytes_max(record), need);

        if (result == 0)
            return true;
        if (result != -EAGAIN)
            break;
        if (wal_owner_commit(owner) < 0)
            break;
        wal_owner_upkeep(owner);
    }
    owner->refused++;
    return false;
}

static void note(struct wal_owner *owner, uint32_t kind, uint32_t id)
{
    assert(owner->change_count < OWNER_CHANGES_MAX);
    owner->changes[owner->change_count++] =
        (struct owner_change){.sequence = wal_open_sequence(owner->wal), .kind = kind, .id = id};
}

void wal_owner_push(struct wal_owner *owner, size_t body_bytes)
{
    struct record record = job_record(owner->jobs + 1, body_bytes);

    if (!has_room(owner, &record, WAL_FOR_PUSH))
        return;
    owner->jobs++;
    assert(owner->jobs < OWNER_JOBS_MAX);
    note(owner, OWNER_PUSH, owner->jobs);
    owner->places[owner->jobs] = wal_append(owner->wal, &record);
    owner->live++;
}

bool wal_owner_finish(struct wal_owner *owner, uint32_t id)
{
    struct record record = done_record(id);

    if (owner->places[id].bytes == 0 || !has_room(owner, &record, WAL_FOR_ANSWER))
        return false;
    note(owner, OWNER_DONE, id);
    wal_append(owner->wal, &record);
    owner->places[id] = (struct record_place){0};
    owner->live--;
    return true;
}

void wal_owner_set_topic(struct wal_owner *owner, uint32_t value)
{
    struct record record = topic_record(value);

    if (!has_room(owner, &record, WAL_FOR_ANSWER))
        return;
    note(owner, OWNER_TOPIC, value);
    wal_append(owner->wal, &record);
    owner->topic_value = value;
}

/* Commits the sealed batch. */
static int commit(struct wal_owner *owner)
{
    struct wal_stats stats;
    int result = wal_commit(owner->wal);

    owner->acked = wal_committed(owner->wal);
    wal_stats(owner->wal, &stats);
    assert(stats.broken == (result < 0));
    if (result == 0 && stats.syncs > owner->syncs)
        owner->synced_acked = owner->acked;
    assert(owner->options.sync != WAL_SYNC_ALWAYS || owner->synced_acked == owner->acked);
    owner->syncs = stats.syncs;
    return result;
}

int wal_owner_commit(struct wal_owner *owner)
{
    return wal_seal(owner->wal) ? commit(owner) : 0;
}

int wal_owner_upkeep(struct wal_owner *owner)
{
    int result = 0;

    if (wal_wants_upkeep(owner->wal)) {
        result = wal_upkeep(owner->wal);
        wal_upkept(owner->wal);
    }
    return result;
}

static void begin_checkpoint(struct wal_owner *owner, uint32_t files_min)
{
    struct owner_checkpoint *checkpoint = &owner->checkpoint;
    struct record record = topic_record(owner->topic_value);
    uint32_t before = wal_checkpoint_before(owner->wal, files_min, 3);

    if (before == 0 || wal_has_room(owner->wal, record_bytes_max(&record), WAL_FOR_ANSWER) != 0)
        return;
    if (owner->topic_value)
        wal_append(owner->wal, &record);
    checkpoint->before = before;
    checkpoint->first_sequence = wal_first_sequence(owner->wal, before);
    checkpoint->sequence = wal_open_sequence(owner->wal) - wal_open_is_empty(owner->wal);
    checkpoint->count = 0;
    for (uint32_t id = 1; id <= owner->jobs; id++)
        if (owner->places[id].bytes &&
            (owner->places[id].file < before || record_place_is_run(owner->places[id])))
            checkpoint->ids[checkpoint->count++] = id;
}

int wal_owner_checkpoint(struct wal_owner *owner, uint32_t files_min)
{
    struct owner_checkpoint *checkpoint = &owner->checkpoint;
    int result;

    if (checkpoint->before == 0)
        begin_checkpoint(owner, files_min);
    if (checkpoint->before == 0)
        return 0;
    if (wal_synced(owner->wal) < checkpoint->sequence) {
        if (random_below(&owner->random, 2)) /* something may happen in between */
            return 0;
        return wal_seal_sync(owner->wal) ? commit(owner) : 0;
    }
    result = write_catalog(owner);
    if (result == 0) {
        for (uint32_t i = 0; i < checkpoint->count; i++)
            if (owner->places[checkpoint->ids[i]].bytes)
                owner->places[checkpoint->ids[i]] =
                    (struct record_place){.file = IN_CATALOG, .bytes = 1};
        wal_checkpointed(owner->wal, checkpoint->before);
        owner->checkpoints++;
    }
    checkpoint->before = 0; /* the failed step is repeated */
    return result;
}

int wal_owner_step(struct wal_owner *owner)
{
    uint64_t pushes = random_below(&owner->random, 8), ends = random_below(&owner->random, 9);
    int result;

    wal_owner_ms += (int64_t)random_below(&owner->random, 20);
    for (; pushes; pushes--)
        wal_owner_push(owner, random_below(&owner->random, 16)
                                  ? random_below(&owner->random, 200)
                                  : random_below(&owner->random, 3000));
    /* The first few jobs live long. */
    for (; ends && owner->jobs > 5; ends--)
        wal_owner_finish(owner, 5 + (uint32_t)random_below(&owner->random, owner->jobs - 4));
    if (random_below(&owner->random, 8) == 0)
        wal_owner_set_topic(owner, owner->topic_value + 1);
    result = random_below(&owner->random, 4) ? wal_owner_commit(owner) : 0;
    if (result == 0 && random_below(&owner->random, 2))
        wal_owner_upkeep(owner);
    return result == 0 ? wal_owner_checkpoint(owner, 1) : result;
}
