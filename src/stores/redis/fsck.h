/*
 * fsck: checks a queue in Redis while servers may be using it, and repairs what it finds if the
 * caller requests it. Blocking; without a reactor; on any one thread.
 *
 * It determines the number of shards, then walks each shard: its core, every key with its tag,
 * every topic, every lease (scripts/README.md, "A check"). Scripts do the work in steps of a few
 * milliseconds, with a pause of the same length after each, so that servers keep their speed. A
 * step reports what is wrong at that instant and, with `repair`, repairs it in the same call. Jobs
 * are never dropped: a job whose record is unreadable is set aside.
 *
 * For some seconds the check waits out a lost connection, a failover or a moving slot. An
 * interrupted run does no harm, and the next one starts from the beginning.
 */
#ifndef TARRY_REDIS_FSCK_H
#define TARRY_REDIS_FSCK_H

#include "base/buffer.h"
#include "redis/redis.h"

enum { REDIS_FSCK_FINDINGS_MAX = 1000, REDIS_FSCK_TEXT_BYTES = 1024 };

enum redis_fsck_how {
    REDIS_FSCK_TO_MEND = 1, /* a repair would mend it */
    REDIS_FSCK_MENDED,
    REDIS_FSCK_MANUAL, /* an operator has to decide */
    REDIS_FSCK_NOTE    /* nothing is wrong */
};

/* A finding. The report owns its texts. */
struct redis_fsck_finding {
    int32_t shard; /* -1: not about one shard */
    enum redis_fsck_how how;
    char *topic, *id; /* "": not about one */
    char *what;       /* the problem */
    char *repair;     /* the repair made, or to be made */
};

struct redis_fsck_shard {
    char tag[72];             /* the prefix of its keys */
    uint64_t keys, jobs;      /* number seen */
    uint64_t topics, entries; /* entries: of sets and hashes, checked */
    uint64_t findings, steps;
    int64_t slowest_us; /* the slowest step, as measured by the client */
};

/* The result of a check. A zeroed report is valid and empty. */
struct redis_fsck_report {
    bool repairs;
    uint32_t shards;
    struct redis_fsck_shard shard[REDIS_SHARDS_MAX];
    uint64_t finding_count; /* without notes; the first REDIS_FSCK_FINDINGS_MAX are kept */
    uint64_t mended;        /* those that were repaired */
    struct redis_fsck_finding *finding;
    uint32_t finding_kept;
    char error[REDIS_FSCK_TEXT_BYTES]; /* why the check could not run, or did not finish */
};

struct redis_fsck_options {
    const char *url; /* see url.h */
    bool repair;
    /* Called after each step with the jobs seen and the approximate total. May be NULL. */
    void (*progress)(void *ctx, uint64_t jobs, uint64_t total);
    void *ctx;
};

/*
 * Runs a check. Returns 0 if it finished; `finding_count` is then the result. Otherwise returns a
 * negative errno with `error` and the findings so far: -EHOSTUNREACH unreachable, -EACCES access
 * denied, -EDOM invalid URL, -ENOENT no queue there, -EINVAL rejected by Redis, -ENOMEM.
 */
int redis_fsck_run(const struct redis_fsck_options *options, struct redis_fsck_report *report);
void redis_fsck_report_fini(struct redis_fsck_report *report);

/* Appends the report: as text, one line per shard and per finding; or as one JSON object. Also
 * valid after a failed run. */
void redis_fsck_emit_text(struct buffer *out, const struct redis_fsck_report *report);
void redis_fsck_emit_json(struct buffer *out, const struct redis_fsck_report *report);

#endif
