/*
 * backup_copy: files of a running server into a backup, each synced before the next is begun.
 *
 * What never changes is shared where the file system can: by a reflink, which is a copy that takes
 * no room, or by a hard link. Blocking; one thread. `pulse` is called every few MiB.
 */
#ifndef TARRY_CLI_BACKUP_COPY_H
#define TARRY_CLI_BACKUP_COPY_H

#include "base/buffer.h"

enum { BACKUP_ERROR_BYTES = 1024 };

struct backup_copying {
    bool links; /* hard links are welcome */
    /* False: give up. */
    bool (*pulse)(void *ctx, uint64_t bytes);
    void *ctx;
    uint64_t copied, shared; /* bytes so far */
    char error[BACKUP_ERROR_BYTES];
};

/* A file that nobody changes any more. 0 or negative errno with `error`; -ENOENT and -ECANCELED
 * (`pulse` said no) without. */
int backup_share(struct backup_copying *copying, const char *from, const char *into);
/* The first `bytes` of a file, then zeros up to `file_bytes`. bytes UINT64_MAX: as it is now. */
int backup_copy(struct backup_copying *copying, const char *from, const char *into, uint64_t bytes,
                uint64_t file_bytes);
/* A new file with this text. */
int backup_write(struct backup_copying *copying, const char *into, struct slice text);
int backup_sync_dir(struct backup_copying *copying, const char *path);

#endif
