/* topic: topics of a server, and conversion of their settings between the command line and JSON. */
#ifndef TARRY_CLI_TOPIC_H
#define TARRY_CLI_TOPIC_H

#include "cli/client.h"

/* Fetches all topics, page by page, as {"topics":[…],"cursor":null}. The caller owns *out.
 * Returns an exit code; errors are printed. */
int topic_pages(struct client *client, json_t **out);

struct settings {                                   /* flags; NULL: not given */
    const char *deliver_to, *deliver, *dead_letter; /* JSON, @FILE or none */
};

/* Reads the flags into `out`. Returns an exit code; errors are printed. */
int settings_read(const struct settings *given, json_t *out);
/* Reads one "deliver.rate=100/s"; an empty value is null. Returns an exit code; errors are
 * printed. */
int settings_add(json_t *settings, const char *text);
/* Removes members that are null, at any depth. */
void settings_drop_nulls(json_t *settings);
/* Prints settings in the form that settings_add reads, one per line, in ASCII. */
void settings_print(const char *name, const json_t *value);

#endif
