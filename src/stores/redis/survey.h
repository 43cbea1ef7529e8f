/*
 * survey: which servers are masters, and of which slots, as one look finds it. Blocking; for the start
 * and for fsck.
 */
#ifndef TARRY_REDIS_SURVEY_H
#define TARRY_REDIS_SURVEY_H

#include "redis/slot.h"
#include "redis/sync_connection.h"

struct redis_survey {
    struct redis_endpoint *masters; /* each once */
    uint32_t count;
    uint16_t of_slot[REDIS_SLOTS]; /* number of a master */
};

/* 0, or negative errno, reported. */
int redis_survey_find(const struct redis_url *url, struct redis_survey **out,
                      const struct redis_report *report);
void redis_survey_free(struct redis_survey *survey); /* NULL: nothing */

#endif
