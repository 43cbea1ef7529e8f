/*
 * health: what keeps the database from cleaning up, as the upkeep finds it. Pure.
 */
#ifndef TARRY_SQL_HEALTH_H
#define TARRY_SQL_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

/* The obstacles to cleaning up in the database, as of the last upkeep that read them. Not every upkeep reads them, because
 * the database then walks through all of its sessions. */
struct sql_health {
    unsigned upkeeps; /* of this connection */
    int64_t
        oldest_ms; /* age of the oldest open transaction that the account may see; -1: unknown */
    int64_t dead_rows; /* not cleaned away yet; -1: unknown */
};
enum { SQL_HEALTH_UPKEEPS = 10 }; /* each of so many upkeeps reads it */

/* Returns whether the next upkeep reads the health. Counts it. */
static inline bool sql_health_is_due(struct sql_health *health)
{
    return health->upkeeps++ % SQL_HEALTH_UPKEEPS == 0;
}

#endif
