/*
 * config_options: the table of all options of the server, and what is found there. Pure.
 */
#ifndef TARRY_SERVER_CONFIG_OPTIONS_H
#define TARRY_SERVER_CONFIG_OPTIONS_H

#include "server/config.h"

/* The table, for pages that are made from it. */
const struct option *config_options(size_t *count);

/* The variable of one: TARRY_MAX_BODY of max-body. */
void config_variable(const struct option *option, char out[CONFIG_VARIABLE_BYTES]);

/* Every option: flag, default, what it does. */
void config_print_help(FILE *out);

/* NULL: there is none of that name. */
const struct option *config_option_find(const char *name);
/* The name that may have been meant; NULL: none is near. */
const char *config_option_nearest(const char *name);
/* Its place in the table, and its bit in config.given. */
size_t config_option_row(const struct option *option);
/* The first of the named options that was said somewhere; NULL: none. */
const char *config_find_given(const struct config *config, const char *const *names);

#endif
