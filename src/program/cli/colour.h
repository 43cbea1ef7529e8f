/* colour: colours words on standard output. Only on a terminal, unless NO_COLOR is set
 * (no-color.org) or the terminal is dumb. */
#ifndef TARRY_CLI_COLOUR_H
#define TARRY_CLI_COLOUR_H

enum colour { COLOUR_NONE = 0, COLOUR_GOOD, COLOUR_BAD, COLOUR_WARN, COLOUR_QUIET, COLOUR_STRONG };

/* Return the sequences that begin and end text of this colour; "" if colours are off. */
const char *colour_begin(enum colour colour);
const char *colour_end(enum colour colour);

#endif
