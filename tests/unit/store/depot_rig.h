/*
 * depot_rig: a small model of how a shard uses its depot, and a check of the depot's content.
 *
 * Its log is an array, of which a crash may lose all that no commit of the catalog had to wait for.
 * Jobs are pushed, replaced, changed and finished by chance, also between the steps of checkpoints.
 * After every opening the log is replayed over the depot as the design requires, and the live jobs must
 * be exactly those that were pushed and not finished: each body, each attempt. Include after cmocka.h.
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
