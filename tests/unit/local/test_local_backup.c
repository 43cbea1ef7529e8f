/* A backup holds a store's files back, over several shards on threads of their own. */
#include "local/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 2, HOLD_MS = 600, TIMEOUT_MS = 30000 };

struct world {
    char dir[64];
    struct local *local;
    struct reactor *reactors[SHARDS];
    struct queue *queues[SHARDS];
    bool answered, stopped;
    enum queue_status status;
    char json[4096];
    uint64_t tag;
};

static int open_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    char error[512] = "";
    uint32_t shards;

    assert_true(scratch_make(world->dir));
    struct local_options options = {.data_dir = world->dir,
                                    .shards = SHARDS,
                                    .sync = WAL_SYNC_NEVER,
                                    .wal_file_bytes = 1 << 20,
                                    .body_bytes_max = 1 << 10,
                                    .topics_max = 100,
                                    .backup_hold_ms = HOLD_MS};
    log_open(NULL, LOG_ERROR, false);
    if (local_open(&options, &world->local, &shards, error, sizeof error))
        fail_msg("%s", error);
    for (uint32_t i = 0; i < SHARDS; i++) {
        world->reactors[i] = reactor_new(i);
        if (local_attach(world->local, i, world->reactors[i], &world->queues[i], error,
                         sizeof error))
            fail_msg("%s", error);
    }
    for (uint32_t i = 1; i < SHARDS; i++)
        assert_int_equal(reactor_start(world->reactors[i]), 0);
    *state = world;
    return 0;
}

static void wait_for(struct world *world, const bool *flag)
{
    int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;

    while (!*flag && clock_boot_us() < until_us) {
        uv_run(reactor_loop(world->reactors[0]), UV_RUN_NOWAIT);
        usleep(20);
    }
    assert_true(*flag);
}

static void pass_ms(struct world *world, int64_t ms)
{
    int64_t until_us = clock_boot_us() + ms * 1000;

    while (clock_boot_us() < until_us) {
        uv_run(reactor_loop(world->reactors[0]), UV_RUN_NOWAIT);
        usleep(200);
    }
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->stopped = true;
}

static int close_world(void **state)
{
    struct world *world = *state;

    local_stop(world->local, on_stopped, world);
    wait_for(world, &world->stopped);
    for (uint32_t i = 1; i < SHARDS; i++) {
        reactor_stop(world->reactors[i]);
        reactor_join(world->reactors[i]);
    }
    local_free(world->local);
    for (uint32_t i = 0; i < SHARDS; i++)
        reactor_free(world->reactors[i]);
    int result = scratch_remove(world->dir);
    free(world);
    return result;
}

static void on_done(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct world *world = owner;

    assert_true(json.len < sizeof world->json);
    memcpy(world->json, json.at ? json.at : "", json.len);
    world->json[json.len] = '\0';
    world->status = status;
    world->tag = tag;
    world->answered = true;
}

static enum queue_status ask(struct world *world, enum local_backup what, const char *id)
{
    world->answered = false;
    local_backup(world->local, world->reactors[0], what, slice_of(id), on_done, world, 7);
    assert_false(world->answered); /* never inside the call */
    wait_for(world, &world->answered);
    assert_int_equal(world->tag, 7);
    return world->status;
}

/* {"id":"0123456789abcdef", ... */
static void begin(struct world *world, char id[17])
{
    assert_int_equal(ask(world, LOCAL_BACKUP_BEGIN, ""), QUEUE_OK);
    assert_int_equal(strncmp(world->json, "{\"id\":\"", 7), 0);
    memcpy(id, world->json + 7, 16);
    id[16] = '\0';
}

CLAIM_BETWEEN(every_shard_lists_its_files_to_copy, open_world, close_world)
{
    struct world *world = *state;
    char id[17];

    begin(world, id);
    assert_non_null(strstr(world->json, "\"shards\":[{\"shard\":0,\"generation\":0,\"epoch\":1,"
                                        "\"sequence\":"));
    assert_non_null(strstr(world->json, ",\"log\":[{\"file\":1,\"bytes\":"));
    assert_non_null(strstr(world->json, "]},{\"shard\":1,"));
    assert_non_null(strstr(world->json, world->dir));
    assert_int_equal(ask(world, LOCAL_BACKUP_END, id), QUEUE_OK);
    assert_int_equal(ask(world, LOCAL_BACKUP_END, id), QUEUE_NOT_FOUND);
}

CLAIM_BETWEEN(an_unrenewed_backup_ends_in_time, open_world, close_world)
{
    struct world *world = *state;
    char id[17];

    begin(world, id);
    pass_ms(world, 2 * HOLD_MS);
    assert_int_equal(ask(world, LOCAL_BACKUP_RENEW, id), QUEUE_NOT_FOUND);
    assert_int_equal(ask(world, LOCAL_BACKUP_END, id), QUEUE_NOT_FOUND);
}

CLAIM_BETWEEN(a_renewed_backup_continues, open_world, close_world)
{
    struct world *world = *state;
    char id[17];

    begin(world, id);
    for (int i = 0; i < 6; i++) {
        pass_ms(world, HOLD_MS / 3);
        assert_int_equal(ask(world, LOCAL_BACKUP_RENEW, id), QUEUE_OK);
    }
    assert_int_equal(ask(world, LOCAL_BACKUP_END, id), QUEUE_OK);
}

CLAIM_BETWEEN(there_are_only_so_many_and_places_come_free, open_world, close_world)
{
    struct world *world = *state;
    char id[17];

    for (int i = 0; i < LOCAL_BACKUPS_MAX; i++)
        begin(world, id);
    assert_int_equal(ask(world, LOCAL_BACKUP_BEGIN, ""), QUEUE_CONFLICT);
    assert_int_equal(ask(world, LOCAL_BACKUP_END, id), QUEUE_OK);
    begin(world, id);
    pass_ms(world, 2 * HOLD_MS);
    for (int i = 0; i < LOCAL_BACKUPS_MAX; i++)
        begin(world, id);
}

CLAIM_BETWEEN(an_invalid_backup_id_is_not_found, open_world, close_world)
{
    static const char *const ids[] = {"",
                                      "0",
                                      "0000000000000000",
                                      "0000000000000002",
                                      "ffffffffffffffff",
                                      "FFFFFFFFFFFFFFFF",
                                      "+123456789abcdef",
                                      "00000000000000001"};
    struct world *world = *state;

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_int_equal(ask(world, LOCAL_BACKUP_RENEW, ids[i]), QUEUE_NOT_FOUND);
}

CLAIMS_MAIN(NULL, NULL)
