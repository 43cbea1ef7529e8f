/*
 * depot_rig: what a shard does with its depot, in small, and a judge of what comes back.
 *
 * Its log is an array, of which a crash may lose what no commit of the catalog had to wait for.
 * Jobs are pushed, replaced, changed and finished by chance, between the steps of checkpoints too.
 * After every opening the log is replayed over the depot as the design says, and what is alive must
 * be just what was pushed and not finished: each body, each attempt. Include after cmocka.h.
 */
#ifndef TARRY_TESTS_DEPOT_RIG_H
#define TARRY_TESTS_DEPOT_RIG_H

#include "depot_rig_checkpoint.h"
#include "depot_rig_helper.h"
#include "depot_rig_jobs.h"
#include "depot_rig_keys.h"
#include "depot_rig_open.h"
#include "depot_rig_record.h"

#endif
