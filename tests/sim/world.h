/*
 * world: a shard on a machine and a disk, the commands in progress, and their oracle.
 *
 * Things happen in it one at a time, in an order drawn from the seed: an iteration of the loop, one piece
 * of one helper's work, time passing, a command. Its behaviour only depends on the seed and the
 * scenario.
 */
#ifndef TARRY_TESTS_SIM_WORLD_H
#define TARRY_TESTS_SIM_WORLD_H

#include "local/shard.h"
#include "machine.h"
#include "oracle.h"
#include "support/sim_fs.h"

#include <setjmp.h>

enum { WORLD_SMALL_STEP = 12 }; /* changes for which a log file of 16 KiB has room */

struct scenario {
    const char *name;
    uint32_t commands;
    uint32_t file_bytes;
    struct shard_limits limits;
    uint32_t weights[16]; /* enum world_command */
    int64_t delay_most_ms;
    uint32_t far_percent;  /* delays of years */
    uint32_t time_percent; /* steps in which time passes */
    int64_t step_most_ms;
    int64_t disk_bytes_max; /* 0: no limit */
    bool closes;            /* stops and opens again half-way */
    bool no_quiet;          /* never waits for quiet */
};

enum world_command {
    DO_PUSH,
    DO_TAKE,
    DO_ACK,
    DO_NACK,
    DO_EXTEND,
    DO_RETURN,
    DO_CANCEL,
    DO_RESCHEDULE,
    DO_RUN,
    DO_GET,
    DO_REDRIVE_ONE,
    DO_LIST,
    DO_TOPIC,
    DO_COMMANDS
};

struct call {
    bool is_used;
    enum command_kind kind;
    uint32_t since;
    int64_t since_ms;
    uint32_t ops[8], op_count; /* push, answer, change */
    uint32_t topic, id;        /* get, take, topic */
    int64_t lease_ms;
};

/* Events that a run must have met, or it proved nothing. */
struct world_figures {
    uint64_t commands, replies, checkpoints, failed_checkpoints, merges, amid_merges, reopened;
    uint64_t no_space, quiets;
};

struct world {
    struct machine machine;
    struct sim_fs *disk;
    struct shard *shard;
    struct shard_options options;
    struct local_options local;
    struct random random;
    const struct scenario *scenario;
    struct oracle *oracle;
    struct call calls[ORACLE_CALLS];
    struct look *look; /* a look in progress; NULL: no look */
    bool has_failed;   /* reported by the shard */
    bool has_stopped;
    uint64_t asked, answered;
    uint32_t serial;
    uint64_t unchecked; /* rounds until the next shard_check */
    struct world_figures figures;
    char error[512]; /* of opening */
};

/* The disk and the oracle are the caller's. */
void world_init(struct world *world, const struct scenario *scenario, struct sim_fs *disk,
                struct oracle *oracle, uint64_t seed, int64_t inner_ms, int64_t wall_ms);
/* Opens the world; returns 0 or negative errno with world->error. */
int world_open(struct world *world);
/* Stops in order: all is answered and durable. False: it does not come to an end. */
bool world_stop(struct world *world);
/* The machine is gone; what was under way with it. The disk stays as it is: crash it. */
void world_drop(struct world *world);

/* Makes one thing happen. */
void world_step(struct world *world);
/* The same, but for commands: those are the caller's. */
void world_happen(struct world *world);
/* Makes everything happen that can without time passing. False: it does not come to an end. */
bool world_settle(struct world *world);
/* Settles until no call is in progress; lets time pass if needed. */
bool world_quiet(struct world *world);
/* Time passes in small steps, things happening meanwhile. */
void world_wait(struct world *world, int64_t ms);
/* Looks at every job and count. Straight after opening, or quiet. */
void world_look(struct world *world, bool recovered);
/* Gives a random command; false: no command was possible. */
bool world_command(struct world *world);

/* Runs one command until it is answered, for directed tests. */
void world_submit(struct world *world, const struct command *command, queue_done *done,
                  void *owner);
/* Whether anything of the product is on the stack. */
extern bool world_in_product;
/* room.c: requests for room in the log that had to wait. */
extern uint64_t world_waits_for_room;

#endif
