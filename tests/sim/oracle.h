/*
 * oracle: the possible states of every job, in plain form, and whether the shard's answers fit.
 *
 * Of each job it holds a few guesses. A command in progress adds its possible results; a
 * reply, or a look at the job, rules guesses out. A superseded state that is not known to be
 * durable stays as a guess that a power cut brings back. So any number of commands may be in
 * progress, at most one that names a job, and no other of a topic while one is for all of it.
 *
 * Plain values without pointers: an oracle is copied whenever a crash is tried. It shares no code
 * with the engine. Violations are printed and counted.
 */
#ifndef TARRY_TESTS_SIM_ORACLE_H
#define TARRY_TESTS_SIM_ORACLE_H

#include "queue/queue.h"

enum {
    ORACLE_TOPICS = 6,
    ORACLE_IDS = 48,
    ORACLE_GUESSES = 48,
    ORACLE_OPS = 64,
    ORACLE_CALLS = 16
};

enum guess_state { GUESS_ABSENT = 1, GUESS_WAITING, GUESS_LEASED, GUESS_DEAD, GUESS_REMEMBERED };
enum { GUESS_STATES = 6 };

struct guess {
    enum guess_state state;
    uint32_t until; /* event with which it ended; UINT32_MAX: it may be true now */
    uint8_t op;     /* made by a command in progress, plus 1; 0: by no such command */
    uint8_t status; /* the answer that this command would have returned */
    bool by_time;   /* it follows from another only by time */
    uint8_t grown;  /* what has been derived from it already */
    bool is_wall;   /* due */
    uint16_t priority;
    uint32_t attempt, serial, error;
    uint64_t delivery;
    int64_t due_least, due_most, first_ms; /* first_ms: the least, for the ttl */
    int64_t end_least, end_most;           /* of the lease, or of remembering */
    int64_t made_ms;                       /* when `due_most` was reckoned */
};

enum op_kind {
    OP_PUSH = 1,
    OP_ACK,
    OP_NACK,
    OP_EXTEND,
    OP_RETURN,
    OP_CANCEL,
    OP_RESCHEDULE,
    OP_RUN,
    OP_REDRIVE
};

/* A command, or an item of one, that names one job. */
struct op {
    enum op_kind kind; /* 0: unused */
    uint8_t topic, id;
    uint32_t since;
    int64_t since_ms, since_wall_ms;
    struct queue_when when;
    enum record_conflict on_conflict;
    int32_t priority;
    uint32_t serial; /* push */
    uint64_t delivery;
    int64_t delay_ms, lease_ms;
    bool final;
    uint32_t error;
};

/* The body of a push: all of it follows from its serial number. */
enum { ORACLE_BODY_MAX = 800 };
struct cargo {
    char body[ORACLE_BODY_MAX], meta[64];
    size_t body_bytes, meta_bytes;
    const char *content_type;
    struct policy policy;
    uint32_t past_attempt;
    bool past_dead;
};
void oracle_cargo(uint32_t serial, struct cargo *out);

struct oracle_job {
    uint32_t count;
    uint8_t op;        /* under way, plus 1 */
    uint64_t delivery; /* the highest seen */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    uint64_t lease_delivery; /* of which it is */
    struct guess guesses[ORACLE_GUESSES];
};

/* Settings a topic may have: rows of a table; 0: no settings were put. */
enum { ORACLE_SETTINGS = 4 };
struct topic_settings oracle_settings(uint32_t row);

struct oracle_topic {
    enum queue_topic_verb verb; /* in progress for all of the topic; 0: no command */
    enum job_state state;       /* purge */
    uint8_t row, row_wanted;
    bool paused, may_be_unknown;
    int64_t since_ms;  /* of the verb */
    uint32_t commands; /* under way that name it */
    uint32_t takes;    /* of these */
    uint32_t took;     /* event of the last take's reply */
    uint64_t pushed_least, pushed_most;
};

struct oracle {
    int64_t now_ms, skew_ms;
    uint32_t event;
    uint32_t violations;
    bool lenient;                /* no memory: texts may be missing, and calls refused */
    bool full;                   /* the disk may be full */
    bool fileless;               /* the log's next file may fail to be made */
    bool broken;                 /* the log may have failed */
    uint64_t seen[GUESS_STATES]; /* how often a job was in the state when the power went */
    uint64_t kills_in_flight, redelivered;
    struct op ops[ORACLE_OPS];
    struct oracle_topic topics[ORACLE_TOPICS];
    struct oracle_job jobs[ORACLE_TOPICS][ORACLE_IDS];
};

void oracle_init(struct oracle *oracle);
void oracle_copy(struct oracle *to, const struct oracle *from);
void oracle_tick(struct oracle *oracle, int64_t now_ms, int64_t wall_ms);
const char *oracle_topic_name(uint32_t topic);
void oracle_id_name(uint32_t id, char out[16]);

/* ---- one job ---- */
/* Notes a command that is given to the shard, and returns its number. The job has no other in progress. */
uint32_t oracle_begin(struct oracle *oracle, const struct op *op);
void oracle_end(struct oracle *oracle, uint32_t op, const struct queue_result *result);
/* A refusal of the whole call. */
void oracle_refused(struct oracle *oracle, uint32_t op, enum queue_status status);
/* Notes that all commands before the event are durable. */
void oracle_durable(struct oracle *oracle, uint32_t event);
/* Handed out by a take that was asked at `since`. */
void oracle_taken(struct oracle *oracle, const struct queue_job *job, uint32_t since,
                  int64_t since_ms, int64_t lease_ms);
/* Notes a take of the topic without a known result. */
void oracle_take_lost(struct oracle *oracle, uint32_t topic, int64_t since_ms, int64_t lease_ms);
/* A get that was asked at `since`; NULL: not found. */
void oracle_got(struct oracle *oracle, uint32_t topic, uint32_t id, const struct queue_job *job,
                uint32_t since);

/* ---- topics ---- */
void oracle_topic_begin(struct oracle *oracle, uint32_t topic, enum queue_topic_verb verb,
                        enum job_state state, uint8_t row);
void oracle_topic_end(struct oracle *oracle, uint32_t topic, enum queue_status status);
/* Adds the possible results of the topic's command for its jobs, if any. */
void oracle_topic_grow(struct oracle *oracle, uint32_t topic);

/* ---- looking at everything, nothing being under way ---- */
struct look {
    bool found[ORACLE_TOPICS][ORACLE_IDS];
    uint64_t waiting[ORACLE_TOPICS], leased[ORACLE_TOPICS], dead[ORACLE_TOPICS];
    bool recovered; /* straight after an opening: what is seen is durable */
    bool idle;      /* all that is due has happened */
};
void oracle_see(struct oracle *oracle, struct look *look, const struct queue_job *job);
/* Checks the totals after every job was seen; `topics` as the shard counts them. */
void oracle_seen_all(struct oracle *oracle, const struct look *look,
                     const struct queue_topic *topics, size_t count);

/* ---- the power goes ---- */
void oracle_crash(struct oracle *oracle);

/* ---- its files' own ---- */
enum { GROWN_BY_END = 1, GROWN_BY_TTL = 2, GROWN_BY_OP = 4 };
void oracle_violation(struct oracle *oracle, const char *rule, uint32_t topic, uint32_t id,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
struct guess *oracle_add(struct oracle *oracle, struct oracle_job *job, const struct guess *guess);
/* Adds all guesses that follow by time, and by the command in progress. */
void oracle_grow(struct oracle *oracle, struct oracle_job *job, uint32_t topic);
/* The effect of the command on the guess; at most 3. False in `changes`: nothing. */
struct outcome {
    enum queue_status status;
    bool changes;
    struct guess guess;
};
size_t oracle_outcomes(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                       struct outcome out[3]);
struct guess oracle_finished(const struct oracle *oracle, uint8_t row, int64_t since_ms);
/* The attempt failed: one guess, by this settings row. */
struct guess oracle_failed(const struct oracle *oracle, const struct guess *guess, uint8_t row,
                           int64_t from_ms, int64_t delay_ms, bool final, uint32_t error);
bool oracle_find(struct slice topic, struct slice id, uint32_t *topic_out, uint32_t *id_out);

enum { ERROR_LEASE_ENDED = 1, ERROR_EXPIRED, ERROR_OURS };
void oracle_error_text(uint32_t error, char out[32]);

#endif
