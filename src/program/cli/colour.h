/* colour: of words on standard output, for people: only on a terminal, and not where NO_COLOR is set
 * (no-color.org) or the terminal is dumb. */
#ifndef TARRY_CLI_COLOUR_H
#define TARRY_CLI_COLOUR_H

enum colour { COLOUR_NONE = 0, COLOUR_GOOD, COLOUR_BAD, COLOUR_WARN, COLOUR_QUIET, COLOUR_STRONG };

/* What begins and what ends text of this colour; "" where there are none. */
const char *colour_begin(enum colour colour);
const char *colour_end(enum colour colour);

#endif
