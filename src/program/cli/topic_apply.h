/*
 * topic_apply: gives topics the settings of a file, so that they can be kept under version control.
 *
 * The file is a JSON object of settings by topic: {"orders":{"max_attempts":5},"mails":{}}. A topic of
 * the file gets exactly these settings; other topics are left alone.
 */
#ifndef TARRY_CLI_TOPIC_APPLY_H
#define TARRY_CLI_TOPIC_APPLY_H

#include "cli/call.h"

/* A `make` hook for "topic apply FILE". The answer is {"topics":[{"topic","change","settings"}]}. */
int topic_apply(struct call *call, const struct slice *body);
/* Prints the changes, and how many there are. */
void topic_apply_print(const struct call *call);

/* Prints the settings of the topics in the answer, in the form of the file. */
void topic_settings_print(const struct call *call);

#endif
