/*
 * import_batch: jobs on their way into a server, several batches at a time.
 *
 * A batch is filled line by line, sent, and tried again where the server cannot be reached or has
 * no room just now: a push by id makes one job however often it arrives. One thread.
 */
#ifndef TARRY_CLI_IMPORT_BATCH_H
#define TARRY_CLI_IMPORT_BATCH_H

#include "cli/patience.h"

enum { IMPORT_UNDER_WAY = 4, IMPORT_ITEMS_MAX = 1000 };

struct import_item {
    uint64_t line;    /* its number, from 1 */
    size_t at, bytes; /* in the batch's body, without the line end */
    bool has_choice;  /* the on_conflict in front is ours */
};

struct import_batch {
    struct client client;
    struct buffer body;
    struct import_item items[IMPORT_ITEMS_MAX];
    size_t count;
    bool under_way;
    struct patience patience;
    int64_t again_ms; /* 0: it is with the server */
};

struct import_counts {
    uint64_t created, replaced, existed, refused;
};

struct import_batches {
    CURLM *multi;
    struct import_batch batches[IMPORT_UNDER_WAY];
    struct import_batch *filling; /* NULL: none */
    uint64_t bytes_max;           /* of one batch, as the server says */
    const char *on_conflict;
    struct patience patience; /* how much each batch gets */
    struct import_counts counts;
    FILE *rejects;         /* NULL: none are kept */
    uint64_t rejects_lost; /* could not be written */
    int exit_code;         /* not CLI_OK: nothing more goes out */
};

/* False: explained. */
bool import_batches_open(struct import_batches *batches, const char *url);
void import_batches_close(struct import_batches *batches);

/* A job's line, a JSON object without its line end. May wait for room. */
void import_batches_add(struct import_batches *batches, struct slice text, uint64_t line,
                        bool has_choice);
/* Some time passes, until something happened or `fd` is readable. What was added goes
 * out once nothing else is under way. */
void import_batches_wait(struct import_batches *batches, int fd);
/* Until all that was added is in, refused, or has failed. */
void import_batches_drain(struct import_batches *batches);
/* The last line before which nothing is open; `read`: how many were read. */
uint64_t import_batches_done(const struct import_batches *batches, uint64_t read);

/* A line that does not get in: said on standard error, and kept in the file of rejects. */
void import_refuse(struct import_batches *batches, struct slice text, uint64_t line,
                   const char *code, const char *detail);

#endif
