/* topic: topics of a server, and their settings between the command line and JSON. */
#ifndef TARRY_CLI_TOPIC_H
#define TARRY_CLI_TOPIC_H

#include "cli/client.h"

/* All topics there are, page after page: {"topics":[…],"cursor":null}, the caller's own. An exit
 * code, explained. */
int topic_pages(struct client *client, json_t **out);

struct settings {                                   /* as flags; NULL: not given */
    const char *deliver_to, *deliver, *dead_letter; /* JSON, @FILE or none */
    bool replaces;
};

/* What flags say, into `out`. An exit code, explained. */
int settings_read(const struct settings *given, json_t *out);
/* One "deliver.rate=100/s": nothing behind the sign is null. An exit code, explained. */
int settings_add(json_t *settings, const char *text);
/* Members that are null, at any depth. */
void settings_drop_nulls(json_t *settings);
/* As settings_add would read it, a line each; in ASCII. */
void settings_print(const char *name, const json_t *value);

#endif
