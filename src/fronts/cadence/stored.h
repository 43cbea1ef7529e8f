/*
 * stored: a schedule as it is stored: the body of a job of the topic `tarry.schedules`, whose id is
 * the name of the schedule and whose due time is when it is handled next.
 *
 *   {"v":1,"plan":{"cron":…},"job":{"topic":…},"state":{…}}
 *
 * Members of `plan` are those of schedule/spec.h, those of `job` are options of a push.
 */
#ifndef TARRY_CADENCE_STORED_H
#define TARRY_CADENCE_STORED_H

#include "api/push.h"
#include "schedule/decide.h"

#define SCHEDULES_TOPIC "tarry.schedules"

enum {
    STORED_BYTES_MAX = 16 * 1024,
    STORED_LEASE_MS = 10000,
    STORED_ID_BYTES_MAX = SPEC_NAME_BYTES_MAX + 32
};

struct stored {
    struct spec spec;
    struct state state;
    struct queue_push push;  /* a fire, without id and time */
    struct buffer plan, job; /* their JSON objects */
    struct buffer arena, meta;
};

/* Creates an empty one. Returns NULL if out of memory. */
struct stored *stored_new(void);
void stored_free(struct stored *stored);

/* Reads what a user specified: an object with the members of the plan and of the jobs. The state
 * stays as it is. Returns false with *fault, which names the member and the remedy. */
bool stored_accept(struct stored *stored, struct slice name, struct json_value object,
                   const struct http_hooks *hooks, struct http_fault *fault);

/* Reads only the plan, for a preview. An object may have a name, which `H` and the jitter are derived
 * from; else *name stays as it is. */
bool stored_preview(struct stored *stored, struct json_value object, struct slice *name,
                    struct http_fault *fault);

/* Reads a body. Returns false if it is not one, or of a later version. */
bool stored_read(struct stored *stored, struct slice name, struct slice body,
                 const struct http_hooks *hooks);

/* Appends the body with a state. */
void stored_write(struct buffer *out, const struct stored *stored, const struct state *state);

/* Appends the object that a user specified. */
void stored_write_spec(struct buffer *out, const struct stored *stored);

/* Returns whether plan and jobs are the same. */
bool stored_equals(const struct stored *a, const struct stored *b);

/* Writes the id of a fire. */
struct slice stored_fire_id(struct slice name, int64_t at_ms, char out[STORED_ID_BYTES_MAX]);

/* A push of a fire, with the memory behind it. */
struct stored_fire {
    struct queue_push push;
    bool is_shared; /* the fires of the schedule share one id */
    char id[STORED_ID_BYTES_MAX], once[STORED_ID_BYTES_MAX];
    struct buffer meta;
};
/* Fills a fire; it must not move. Free its memory with stored_fire_fini. */
void stored_fire_init(struct stored_fire *fire, const struct stored *stored, struct slice name,
                      const struct decision_fire *decided);
void stored_fire_fini(struct stored_fire *fire);

/* Returns the options of the job of a schedule. */
struct queue_push stored_push(struct slice name, struct slice body, int64_t wake_ms);

#endif
