/*
 * steps: random commands, over few topics and ids so that they collide.
 *
 * A step is a kind and a seed from which all its details are drawn when it is carried out; so a
 * sequence stays meaningful when some are left out.
 */
#ifndef TARRY_TESTS_CONTRACT_STEPS_H
#define TARRY_TESTS_CONTRACT_STEPS_H

#include "base/random.h"
#include "world.h"

enum step_kind {
    STEP_PUSH = 1,
    STEP_TAKE,
    STEP_ANSWER,
    STEP_CHANGE,
    STEP_TOPIC,
    STEP_LIST,
    STEP_ADVANCE,
    STEP_REOPEN,
    STEP_CHURN
};

struct step {
    enum step_kind kind;
    uint64_t seed;
};

void steps_draw(struct random *random, struct step *steps, size_t count);
/* Draws a sequence in which whole topics are deleted and purged, and their ids pushed again. */
void steps_draw_churn(struct random *random, struct step *steps, size_t count);
void step_perform(struct world *world, const struct step *step);

/* Runs a sequence in a fresh world. False, and the fault in words, where queue and model differ. */
bool steps_run(const struct driver *driver, const struct step *steps, size_t count, FILE *trace,
               char fault[1024]);

/* Leaves steps out as long as the sequence still fails. Returns how many are left. */
size_t steps_shrink(const struct driver *driver, struct step *steps, size_t count);

#endif
