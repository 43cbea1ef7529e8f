/*
 * token_file: the file of tokens, read where it has changed.
 *
 * Others than its owner and group must have no right to it, nor the group to write, and the owner is
 * root or this user: who can write it can let himself in.
 */
#ifndef TARRY_ACCESS_TOKEN_FILE_H
#define TARRY_ACCESS_TOKEN_FILE_H

#include "base/buffer.h"

#include <sys/stat.h>

/* What a file was like when it was read. Zeroed: it was not. */
struct token_file_mark {
    dev_t device;
    ino_t inode;
    off_t bytes;
    mode_t mode;
    struct timespec modified, changed;
};

/* Whether it is another one, or another content, than at `mark`; also where it is gone. */
bool token_file_has_changed(const char *path, const struct token_file_mark *mark);

/* Appends all of it. 0 with *mark; or negative errno with `error`, ACCESS_ERROR_BYTES: -ENOENT,
 * -EPERM: its mode or owner will not do, … */
int token_file_read(const char *path, struct buffer *out, struct token_file_mark *mark,
                    char *error);

/* The same for a file that anybody may read, of public keys. */
int token_file_read_public(const char *path, struct buffer *out, struct token_file_mark *mark,
                           char *error);

/*
 * Replaces it whole: `edit` is given what it holds (empty where there is no file yet) and appends
 * what it shall hold. Two that edit at once do so one after the other; whoever reads meanwhile, or
 * finds it after a crash, has the old text or the new one. Mode and owner stay; a new file is its
 * maker's alone. `edit` returns 0, or what then is returned with nothing changed: it has said why.
 * It is called again where somebody else made the first file meanwhile.
 */
typedef int token_file_editor(void *ctx, struct slice text, struct buffer *out);
int token_file_edit(const char *path, token_file_editor *edit, void *ctx, char *error);

#endif
