/* edit: a dead job goes round again with another body. */
#ifndef TARRY_CLI_EDIT_H
#define TARRY_CLI_EDIT_H

#include "cli/cli.h"

struct edit { /* one of them */
    const char *body, *file;
    bool in_editor; /* VISUAL, else EDITOR, else vi */
};

/* TOPIC and ID are the arguments. Gets the job, which must be dead, and pushes it again under its
 * id, with its content type, meta, callback, priority and policy; its attempts and its history
 * start anew. Where somebody else changed the job meanwhile, that is lost. Returns an exit code,
 * explained. */
int edit_redrive(const struct cli_args *args, const struct edit *edit);

#endif
