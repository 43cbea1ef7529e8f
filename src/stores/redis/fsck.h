/*
 * fsck: looks a queue in Redis over while servers may be at work on it, and mends what it finds
 * where that is asked for. Blocking; no reactor; any one thread.
 *
 * It settles how many shards there are, then walks each: its core, every key behind its tag, every
 * topic, every lease (scripts/README.md, "A check"). The work is done by scripts in steps of a few
 * milliseconds, with a rest as long after each, so that servers keep their pace. What a step finds
 * is wrong at that instant and, with `repair`, mended by the same call. Jobs are never dropped: one
 * whose record nobody can read is set aside.
 *
 * A connection that ends, a failover and a slot that moves are waited out for some seconds; a run
 * that was cut short did no harm, and the next one begins anew.
 */
#ifndef TARRY_REDIS_FSCK_H
#define TARRY_REDIS_FSCK_H

#include "base/buffer.h"
#include "redis/redis.h"

enum { REDIS_FSCK_FINDINGS_MAX = 1000, REDIS_FSCK_TEXT_BYTES = 1024 };

enum redis_fsck_how {
    REDIS_FSCK_TO_MEND = 1, /* a repair would */
    REDIS_FSCK_MENDED,
    REDIS_FSCK_BY_HAND, /* people have to decide */
    REDIS_FSCK_NOTE     /* nothing is wrong */
};

/* Texts are owned by the report. */
struct redis_fsck_finding {
    int32_t shard; /* -1: not about one */
    enum redis_fsck_how how;
    char *topic, *id; /* "": not about one */
    char *what;       /* is wrong */
    char *repair;     /* what was, or is to be, done */
};

struct redis_fsck_shard {
    char tag[72];             /* its keys begin with it */
    uint64_t keys, jobs;      /* seen */
    uint64_t topics, entries; /* of sets and hashes, looked at */
    uint64_t findings, steps;
    int64_t slowest_us; /* step, as seen from here */
};

/* Zeroed: a valid nothing. */
struct redis_fsck_report {
    bool repairs;
    uint32_t shards;
    struct redis_fsck_shard shard[REDIS_SHARDS_MAX];
    uint64_t finding_count; /* but for notes; the first REDIS_FSCK_FINDINGS_MAX are kept */
    uint64_t mended;        /* of them */
    struct redis_fsck_finding *finding;
    uint32_t finding_kept;
    char error[REDIS_FSCK_TEXT_BYTES]; /* why it could not be examined, or not to the end */
};

struct redis_fsck_options {
    const char *url; /* see url.h */
    bool repair;
    /* NULL: nobody wants to know. After each step: jobs seen, of how many about. */
    void (*progress)(void *ctx, uint64_t jobs, uint64_t total);
    void *ctx;
};

/*
 * 0: examined, `finding_count` says with what result. Negative errno with `error`, and with what
 * was found until then: -EHOSTUNREACH nobody there, -EACCES not let in, -EDOM the URL cannot be
 * read, -ENOENT no queue there, -EINVAL it refuses, -ENOMEM.
 */
int redis_fsck_run(const struct redis_fsck_options *options, struct redis_fsck_report *report);
void redis_fsck_report_fini(struct redis_fsck_report *report);

/* For people, a line a shard and a line a finding; for programs, one JSON object. Also after a
 * failed run. */
void redis_fsck_emit_text(struct buffer *out, const struct redis_fsck_report *report);
void redis_fsck_emit_json(struct buffer *out, const struct redis_fsck_report *report);

#endif
