/*
 * schedule_import: turns the recurring jobs of another program into a set for `tarry schedule
 * apply`. It prints the set on standard output, and what has no counterpart on standard error. It
 * changes nothing.
 */
#ifndef TARRY_CLI_SCHEDULE_IMPORT_H
#define TARRY_CLI_SCHEDULE_IMPORT_H

#include "base/slice.h"
#include "base/timestamp.h"

#include <jansson.h>

/* Runs `import KIND [FILE]`. Returns an exit code. */
int schedule_import(int argc, char **argv);

/* Notes what has no counterpart; `subject` is a line or a name. */
struct import_notes {
    void (*note)(void *ctx, const char *subject, const char *what);
    void *ctx;
};

struct import_options {
    const char *topic; /* of the jobs */
    const char *zone;  /* of schedules without one; NULL: UTC */
};

/* Return the list of schedules, or NULL if the input is of another kind. */
json_t *import_crontab(struct slice text, const struct import_options *options,
                       const struct import_notes *notes);
json_t *import_kubernetes(struct slice text, const struct import_options *options,
                          const struct import_notes *notes);
json_t *import_quartz(struct slice text, const struct import_options *options,
                      const struct import_notes *notes);
json_t *import_celery(struct slice text, const struct import_options *options,
                      const struct import_notes *notes);
json_t *import_bullmq(struct slice text, const struct import_options *options,
                      const struct import_notes *notes);
json_t *import_river(struct slice text, const struct import_options *options,
                     const struct import_notes *notes);
json_t *import_sidekiq_cron(struct slice text, const struct import_options *options,
                            const struct import_notes *notes);

#endif
