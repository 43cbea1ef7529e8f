/*
 * config_options: the table of all options of the server, and lookups in it. Pure.
 */
#ifndef TARRY_SERVER_CONFIG_OPTIONS_H
#define TARRY_SERVER_CONFIG_OPTIONS_H

#include "server/config.h"

/* Returns the table, to generate pages from it. */
const struct option *config_options(size_t *count);

/* Writes the name of the environment variable of an option: TARRY_MAX_BODY for max-body. */
void config_variable(const struct option *option, char out[CONFIG_VARIABLE_BYTES]);

/* Prints every option with its flag, default and description. */
void config_print_help(FILE *out);

/* Returns NULL if there is no option of that name. */
const struct option *config_option_find(const char *name);
/* Returns the most similar option name, or NULL. */
const char *config_option_nearest(const char *name);
/* Returns the row in the table, which is also the bit in config.given. */
size_t config_option_row(const struct option *option);
/* Returns the first of the named options that was set, or NULL. */
const char *config_find_given(const struct config *config, const char *const *names);

#endif
