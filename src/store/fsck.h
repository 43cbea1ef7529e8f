/*
 * fsck: looks a data directory over that no server uses, and changes no byte of it.
 *
 * Reads the manifests, every log file, batch and record with their checksums, replays the records
 * into a small model (about 40 bytes of memory a job) and checks that they make sense: what changes
 * a job finds one, what ends is there, each topic's totals add up. A torn tail is what a crash
 * leaves and no fault; the next start goes on before it.
 */
#ifndef TARRY_STORE_FSCK_H
#define TARRY_STORE_FSCK_H

#include "base/buffer.h"
#include "store/datadir.h"

enum { FSCK_FINDINGS_MAX = 100, FSCK_TEXT_BYTES = 512 };

struct fsck_finding {
    uint32_t shard;
    uint32_t file; /* number of the log file; 0: not about one */
    uint32_t at;   /* byte in it */
    char text[FSCK_TEXT_BYTES];
};

struct fsck_shard {
    uint32_t first_file, files;   /* files 0: never opened */
    uint32_t manifest_copies_bad; /* of two; one may be after a power cut */
    uint64_t batches, records, bytes, torn_bytes;
    uint64_t topics, delayed, leased, dead; /* delayed: due or not; leases end on their own time */
};

/* Zeroed: a valid nothing. */
struct fsck_report {
    uint32_t shards;
    struct fsck_shard shard[DATADIR_SHARDS_MAX];
    uint64_t finding_count; /* all of them; the first FSCK_FINDINGS_MAX are kept */
    struct fsck_finding finding[FSCK_FINDINGS_MAX];
    char error[FSCK_TEXT_BYTES]; /* why it could not be examined */
};

/* 0: examined, finding_count says with what result. Negative errno: it could not be (in use, not a
 * data directory, out of memory); then `error` says why. */
int fsck_run(const char *data_dir, struct fsck_report *report);

/* For people, a line a shard and a line a finding; for programs, one JSON object. Also after a
 * failed run. */
void fsck_emit_text(struct buffer *out, const struct fsck_report *report);
void fsck_emit_json(struct buffer *out, const struct fsck_report *report);

#endif
