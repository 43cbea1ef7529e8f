/*
 * script: the scripts (scripts/README.md), embedded in the program. The scripts that servers call
 * are functions of one library that Redis keeps and loads once; those of a check are separate
 * scripts, called by hash. Any thread may use them after redis_scripts_init.
 */
#ifndef TARRY_REDIS_SCRIPT_H
#define TARRY_REDIS_SCRIPT_H

#include "base/slice.h"

enum redis_script {
    REDIS_HELLO = 1,
    REDIS_ADJUST,
    REDIS_PUSH,
    REDIS_STEP,
    REDIS_CHANGE,
    REDIS_GET,
    REDIS_LIST,
    REDIS_TOPIC,
    REDIS_TOPICS,
    REDIS_PURGE,
    REDIS_REDRIVE,
    REDIS_LOOK,
    REDIS_LISTEN,
    REDIS_FORECAST,
    REDIS_PACK,
    REDIS_RESHARD,
    REDIS_LEAVE,
    REDIS_ARRIVE,
    REDIS_DROP,
    REDIS_FIND,
    REDIS_PICK,
    REDIS_AWAIT,
    REDIS_GROUP,
    REDIS_GROUPS,
    REDIS_BATCH,
    REDIS_MAIL,
    REDIS_SCRIPTS_SERVED = REDIS_MAIL, /* last function of the library */
    REDIS_CHECK,                       /* this and the following: used by fsck only */
    REDIS_CHECK_SETS,
    REDIS_CHECK_JOBS,
    REDIS_CHECK_TOPIC,
    REDIS_SCRIPTS = REDIS_CHECK_TOPIC
};

enum { REDIS_SHA_BYTES = 40, REDIS_FUNCTION_BYTES = 64 };

struct redis_script_text {
    const char *name;
    struct slice text; /* with the parts it depends on, as SCRIPT LOAD expects it */
    char sha[REDIS_SHA_BYTES + 1];
};

/* Initializes the scripts. Call once, before threads start; further calls do nothing. Returns false
 * if memory runs out. */
bool redis_scripts_init(void);
/* Returns a script of a check. */
const struct redis_script_text *redis_script(enum redis_script script);

struct redis_library {
    char name[32];     /* derived from its text; a function is called NAME_script */
    struct slice text; /* as FUNCTION LOAD expects it */
};

const struct redis_library *redis_library(void);
/* Returns the name for FCALL of a script that servers call. */
const char *redis_function(enum redis_script script);
const char *redis_script_name(enum redis_script script);

#endif
