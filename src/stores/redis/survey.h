/*
 * survey: finds the masters and their slots, once. Blocking; for startup and fsck.
 */
#ifndef TARRY_REDIS_SURVEY_H
#define TARRY_REDIS_SURVEY_H

#include "redis/slot.h"
#include "redis/sync_connection.h"

struct redis_survey {
    struct redis_endpoint *masters; /* without duplicates */
    uint32_t count;
    uint16_t of_slot[REDIS_SLOTS]; /* index of the master */
};

/* Returns 0, or a negative errno after reporting it. */
int redis_survey_find(const struct redis_url *url, struct redis_survey **out,
                      const struct redis_report *report);
void redis_survey_free(struct redis_survey *survey); /* accepts NULL */

#endif
