/* topic_pages: all topics of a server, which shows them in pages. */
#ifndef TARRY_CLI_TOPIC_PAGES_H
#define TARRY_CLI_TOPIC_PAGES_H

#include "cli/client.h"

/* {"topics":[…],"cursor":null}, whose reference the caller takes over. Returns an exit code,
 * explained; *out is written on success only. */
int topic_pages(struct client *client, json_t **out);

#endif
