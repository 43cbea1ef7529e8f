/* state: what the front, its sessions and its stats share. This room only. */
#ifndef TARRY_BEANSTALK_STATE_H
#define TARRY_BEANSTALK_STATE_H

#include "beanstalk/command.h"
#include "beanstalk/front.h"
#include "beanstalk/numbers.h"
#include "beanstalk/tube.h"

#include "base/buffer.h"
#include "base/vector.h"

enum {
    ALIASES_MAX = 4096, /* jobs with ids that are no numbers, which have one here for a while */
    META_BYTES = 128,
    TUBES_WATCHED_MAX = QUEUE_TAKE_TOPICS_MAX
};
#define ALIAS_FIRST (UINT64_C(1) << 52)
/* What a job was put with, kept with it: priority, delay, ttr, and when. */
#define META_NAME JOB_META_OWN "beanstalk"

struct alias {
    uint64_t number; /* 0: none */
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
};

struct beanstalk_front {
    struct beanstalk_options options;
    struct beanstalk_numbers *numbers;
    struct beanstalk_tubes tubes;
    struct list sessions;
    uint32_t connection_count, producers, workers, waiting;
    uint64_t connections_total, timeouts, verbs[BEANSTALK_VERBS];
    int64_t started_ms;
    char instance[17];
    struct alias *aliases; /* a ring, ALIASES_MAX of them */
    uint64_t alias_count;  /* given so far */
    uv_poll_t poll;
    int fd;
    bool is_polling, is_stopping;
    uint32_t open_handles; /* the poll and sessions */
    /* One of these is closed; the last one of a front that stops ends that. */
    void (*closed)(struct beanstalk_front *front);
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* ---- alias.c ---- */

/* The number that a job is called by: its id, or an alias. */
uint64_t beanstalk_number_of(struct beanstalk_front *front, struct slice topic, struct slice id);
/* The id of a number, in `room`; *topic is known of an alias only. */
struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic);

/* ---- session.c ---- */
void beanstalk_session_open(struct beanstalk_front *front, int fd, bool is_unix);
struct beanstalk_session;
void beanstalk_session_end(struct beanstalk_session *session);
struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front);

/* ---- stats.c: YAML ---- */

/* What is shown of a job, as far as the queue tells. */
struct beanstalk_job_view {
    uint64_t number;
    struct slice tube;
    const char *state;
    uint32_t priority, delay_s, ttr_s, reserves;
    int64_t age_s, left_s;
};
void beanstalk_stats_job(struct buffer *out, const struct beanstalk_job_view *job);
/* `topic` NULL: the queue does not know it. `now_ms` is the queue's wall clock. */
void beanstalk_stats_tube(struct buffer *out, const struct beanstalk_tube *tube, struct slice name,
                          const struct queue_topic *topic, int64_t now_ms);
void beanstalk_stats(struct buffer *out, struct beanstalk_front *front,
                     const struct queue_reply *topics);
void beanstalk_list_tubes(struct buffer *out, const struct beanstalk_front *front,
                          const struct queue_reply *topics);
/* Whether it is one of tarry's own, which no client is shown. */
bool beanstalk_topic_is_own(struct slice name);

#endif
