/*
 * commands: random ones, over few topics and ids so that they collide.
 *
 * A command is a kind and a seed from which all its details are drawn when it is carried out; so a
 * sequence stays meaningful when some are left out.
 */
#ifndef TARRY_TESTS_CONTRACT_COMMANDS_H
#define TARRY_TESTS_CONTRACT_COMMANDS_H

#include "base/random.h"
#include "world.h"

enum command_kind {
    COMMAND_PUSH = 1,
    COMMAND_TAKE,
    COMMAND_ANSWER,
    COMMAND_CHANGE,
    COMMAND_TOPIC,
    COMMAND_LIST,
    COMMAND_ADVANCE,
    COMMAND_REOPEN
};

struct command {
    enum command_kind kind;
    uint64_t seed;
};

void commands_draw(struct random *random, struct command *commands, size_t count);
void command_perform(struct world *world, const struct command *command);

/* Runs a sequence in a fresh world. False, and the fault in words, where queue and model differ. */
bool commands_run(const struct driver *driver, const struct command *commands, size_t count,
                  FILE *trace, char fault[1024]);

/* Leaves commands out as long as the sequence still fails. Returns how many are left. */
size_t commands_shrink(const struct driver *driver, struct command *commands, size_t count);

#endif
