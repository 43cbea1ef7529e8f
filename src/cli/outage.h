/*
 * outage: while the server is away that a command works for: it is said once, and once when the
 * server is back; the pauses between tries grow, and are longer or shorter by chance, so that many
 * who wait do not all come back at the same moment. One thread.
 */
#ifndef TARRY_CLI_OUTAGE_H
#define TARRY_CLI_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: the server is there. */
struct outage {
    int64_t since_ms; /* the first failure in a row, on the clock since boot; 0: none */
    bool is_of_takes; /* takes alone fail, as far as is known: only a take can end it */
};

/* A call has failed with `problem`, the one after *tries others of its kind. Returns how long to
 * wait before the next, at most `pause_ms_max`. */
int64_t outage_fail(struct outage *outage, bool is_take, unsigned *tries, const char *problem,
                    int64_t pause_ms_max);
/* A call was answered. True where that ended an outage. */
bool outage_end(struct outage *outage, bool is_take, unsigned *tries, const char *url);

#endif
