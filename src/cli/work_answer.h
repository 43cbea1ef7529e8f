/*
 * work_answer: acks, nacks and extends of what `tarry work` holds, many in a call.
 *
 * Each verb has a connection of its own and one call at a time, run by a curl multi handle, so that
 * a slow ack holds up no extend. Leases are extended after each tenth of their time until the ack
 * or nack is answered, and a call that failed is made again: a server may be away for three
 * quarters of a lease, and no job comes twice.
 */
#ifndef TARRY_CLI_WORK_ANSWER_H
#define TARRY_CLI_WORK_ANSWER_H

#include "cli/client.h"
#include "cli/outage.h"
#include "cli/work_slot.h"

enum work_verb { WORK_ACK = 0, WORK_NACK, WORK_EXTEND, WORK_VERBS };

struct work_call {
    struct client client;
    struct buffer body;
    struct work_item {
        size_t slot;
        uint64_t serial;
    } items[WORK_SLOTS_MAX];
    size_t count;    /* of items that it is about; 0: it is not under way */
    int64_t next_ms; /* after a failure: not before */
    unsigned tries;
};

struct work_answers {
    struct work_call calls[WORK_VERBS];
    struct work_slot *slots;
    size_t slot_count;
    CURLM *multi;
    struct outage *outage;
    const char *lease_for;
    int64_t lease_ms;
    bool quiet;
};

/* `answers` holds slots and the fields from `slots` on. False where out of memory, explained. */
bool work_answers_open(struct work_answers *answers, const char *url);
void work_answers_close(struct work_answers *answers);

/* Begins the calls that are due. */
void work_answers_start(struct work_answers *answers);
/* A transfer of the multi handle has ended. False: it is none of these. */
bool work_answers_end(struct work_answers *answers, const CURL *curl, CURLcode code);
/* When there is something to do next, on the clock since boot, if no transfer ends. */
int64_t work_answers_next_ms(const struct work_answers *answers);
/* Gives up the slots whose command has ended and whose lease has, too; all of them where the server
 * is away and `is_impatient`. */
void work_answers_give_up(struct work_answers *answers, bool is_impatient);

#endif
