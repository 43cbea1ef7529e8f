/*
 * token_file: the file of tokens, which is read again after changes.
 *
 * Other users must have no access to it, and its group must not be able to write it. It must be
 * owned by root or the current user. The reason is that a user who can write the file can grant
 * themselves access.
 */
#ifndef TARRY_ACCESS_TOKEN_FILE_H
#define TARRY_ACCESS_TOKEN_FILE_H

#include "base/buffer.h"

#include <sys/stat.h>

/* The state of a file when it was read. All zero if it was not read. */
struct token_file_mark {
    dev_t device;
    ino_t inode;
    off_t bytes;
    mode_t mode;
    struct timespec modified, changed;
};

/* Returns true if the file was replaced, changed or removed since `mark`. */
bool token_file_has_changed(const char *path, const struct token_file_mark *mark);

/* Appends the content of the file. Returns 0 with *mark, or negative errno with `error`
 * (ACCESS_ERROR_BYTES): -ENOENT, -EPERM (its mode or owner is not allowed), … */
int token_file_read(const char *path, struct buffer *out, struct token_file_mark *mark,
                    char *error);

/* Reads a file of public keys, which all users may read; otherwise like token_file_read. */
int token_file_read_public(const char *path, struct buffer *out, struct token_file_mark *mark,
                           char *error);

/*
 * Replaces the file atomically. `edit` receives the current content (empty if there is no file yet)
 * and appends the new content. Concurrent edits run one after the other. A concurrent reader, or a
 * reader after a crash, finds either the old or the new text. Mode and owner are preserved; a new
 * file is accessible only to the user who created it. `edit` returns 0, or an error that is
 * returned without changes; it has to report the error itself. It is called again if another
 * process created the file meanwhile.
 */
typedef int token_file_editor(void *ctx, struct slice text, struct buffer *out);
int token_file_edit(const char *path, token_file_editor *edit, void *ctx, char *error);

#endif
