/* The owner of a shard's files: each file names its store and shard, and each job's key hashes to
 * one shard. */
#include "base/vector.h"
#include "fsck/exam.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

/* Number of files that name an identity. */
struct vote {
    struct store_identity identity;
    uint32_t count;
};
VECTOR_DECLARE(votes, struct vote)

struct voting {
    struct fsck_exam *exam;
    struct votes votes;
    bool has_failed; /* out of memory */
};

static void vote_for(struct voting *voting, const struct store_identity *identity)
{
    for (size_t i = 0; i < voting->votes.count; i++)
        if (store_identity_equals(&voting->votes.at[i].identity, identity)) {
            voting->votes.at[i].count++;
            return;
        }
    voting->has_failed |=
        !votes_add(&voting->votes, (struct vote){.identity = *identity, .count = 1});
}

static void vote_of_log(void *ctx, const char *name)
{
    struct voting *voting = ctx;
    struct wal_file_about about;

    if (wal_file_number(name) && wal_file_look(&voting->exam->disk, name, &about) == 0)
        vote_for(voting, &about.identity);
}

static void vote_of_catalog(void *ctx, const char *name)
{
    struct voting *voting = ctx;
    struct store_identity identity;

    if (catalog_file_generation(name) &&
        catalog_look(&voting->exam->reading.fs, voting->exam->run_dir, name, &identity) == 0)
        vote_for(voting, &identity);
}

static void vote_of_manifest(struct voting *voting)
{
    struct wal_manifest manifest;
    struct wal_disk disk = voting->exam->disk;
    int fd;

    if (wal_manifest_open(&disk, O_RDONLY, &fd, &manifest, NULL) < 0)
        return;
    (void)disk.fs->ops->close(disk.fs->ctx, fd);
    vote_for(voting, &manifest.identity);
}

/* Files that cannot be read do not count; the examination reports them later. */
int fsck_owner_find(struct fsck_exam *exam, const struct store_identity *expected,
                    struct store_identity *out)
{
    struct voting voting = {.exam = exam};
    const struct fs *fs = &exam->reading.fs;
    uint32_t most = 0;

    vote_of_manifest(&voting);
    (void)fs->ops->list(fs->ctx, exam->disk.dir, vote_of_log, &voting);
    (void)fs->ops->list(fs->ctx, exam->run_dir, vote_of_catalog, &voting);
    exam->reading.error = 0;
    *out = *expected;
    for (size_t i = 0; i < voting.votes.count; i++)
        if (store_identity_equals(&voting.votes.at[i].identity, expected))
            most = voting.votes.at[i].count;
    for (size_t i = 0; i < voting.votes.count; i++)
        if (voting.votes.at[i].count > most) {
            most = voting.votes.at[i].count;
            *out = voting.votes.at[i].identity;
        }
    votes_fini(&voting.votes);
    return voting.has_failed ? -ENOMEM : 0;
}

/* The shard of the topic itself may also have it, if all jobs of the topic are in one shard. */
void fsck_owner_check(struct fsck_exam *exam, struct fsck_where where, struct hash128 key,
                      struct slice topic)
{
    const uint32_t shard = datadir_shard_of(key, exam->shards);
    const struct hash128 home = hash_pair(topic, (struct slice){.at = ""}, exam->hash_seed);

    if (shard == exam->disk.identity.shard ||
        datadir_shard_of(home, exam->shards) == exam->disk.identity.shard || exam->misplaced++)
        return;
    fsck_find(exam, where, FSCK_RESTORE,
              "a job of shard %02" PRIu32
              " is stored in this shard, so it cannot be found; there may be more",
              shard);
}

/* ---- rebuilding the log's manifest from the headers of its files ---- */

struct headers {
    struct fsck_exam *exam;
    struct wal_manifest *manifest;
    uint32_t lowest;
};

static void note_header(void *ctx, const char *name)
{
    struct headers *headers = ctx;
    const struct store_identity *identity = &headers->exam->disk.identity;
    struct wal_file_about about;
    const uint32_t number = wal_file_number(name);

    if (!number)
        return;
    if (number < headers->lowest)
        headers->lowest = number;
    if (number > headers->manifest->newest)
        headers->manifest->newest = number;
    if (wal_file_look(&headers->exam->disk, name, &about) == 0 &&
        store_identity_equals(&about.identity, identity))
        headers->manifest->seed = about.seed;
}

/* Rebuilds the manifest. The newest epoch is unknown, so every batch counts that continues
 * another. */
bool fsck_owner_rebuild(struct fsck_exam *exam)
{
    const struct catalog *catalog = &exam->catalog;
    struct wal_manifest *manifest = &exam->manifest;
    struct headers headers = {.exam = exam, .manifest = manifest, .lowest = UINT32_MAX};

    *manifest = (struct wal_manifest){.identity = exam->disk.identity,
                                      .epoch = UINT64_MAX,
                                      .epoch_sequence = UINT64_MAX,
                                      .has_runs = catalog->generation != 0};
    (void)exam->reading.fs.ops->list(&exam->reading, exam->disk.dir, note_header, &headers);
    if (!manifest->seed)
        return false;
    exam->disk.seed = manifest->seed;
    manifest->first = catalog->log_first ? catalog->log_first : headers.lowest;
    manifest->first_sequence = catalog->log_first ? catalog->log_first_sequence : 1;
    return true;
}
