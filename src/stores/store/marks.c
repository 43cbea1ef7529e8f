#include "store/marks.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pages of the copies: each copy has its own, so a torn write leaves the other one intact. */
enum { SLOTS = 2, SLOT_BYTES = 4096 };

static const char HEAD[] = "# written by tarry; do not edit\n";

/* Writes the text, padded with spaces. Returns false if it does not fit. */
static bool marks_emit(const struct marks *marks, char out[SLOT_BYTES + 1])
{
    int len = snprintf(out, SLOT_BYTES, "%sgeneration=%" PRIu64 "\nstore=%s\nshards=%" PRIu32 "\n",
                       HEAD, marks->generation, marks->store, marks->shards);

    for (uint32_t i = 0; i < marks->shards && len < SLOT_BYTES; i++)
        len += snprintf(out + len, SLOT_BYTES - (size_t)len, "%" PRIu64 " %" PRIu64 "\n",
                        marks->shard[i].epoch, marks->shard[i].synced);
    if (len + 32 > SLOT_BYTES)
        return false;
    len += snprintf(out + len, SLOT_BYTES - (size_t)len, "check=%016" PRIx64 "\n",
                    hash_64(out, (size_t)len));
    memset(out + len, ' ', SLOT_BYTES - (size_t)len);
    out[SLOT_BYTES] = '\0';
    return true;
}

/* Parses a copy. It is valid if emitting it gives the same bytes. */
static bool marks_parse(const char text[SLOT_BYTES + 1], struct marks *out)
{
    struct marks marks = {0};
    char again[SLOT_BYTES + 1];
    const char *at = text;
    int len = 0;

    if (strncmp(at, HEAD, sizeof HEAD - 1) != 0 ||
        sscanf(at + sizeof HEAD - 1, "generation=%" SCNu64 " store=%32s shards=%" SCNu32 "%n",
               &marks.generation, marks.store, &marks.shards, &len) != 3 ||
        marks.shards > DATADIR_SHARDS_MAX)
        return false;
    at += sizeof HEAD - 1 + (size_t)len;
    for (uint32_t i = 0; i < marks.shards; i++, at += len)
        if (sscanf(at, "%" SCNu64 " %" SCNu64 "%n", &marks.shard[i].epoch, &marks.shard[i].synced,
                   &len) != 2)
            return false;
    if (!marks_emit(&marks, again) || memcmp(text, again, SLOT_BYTES) != 0)
        return false;
    *out = marks;
    return true;
}

static void marks_path(const char *dir, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/MARKS", dir);
}

int marks_read(const struct fs *fs, const char *dir, struct marks *out)
{
    char path[PATH_MAX], text[SLOT_BYTES + 1];
    struct marks found;
    int fd, result = -EBADMSG;

    marks_path(dir, path);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    *out = (struct marks){0};
    for (int i = 0; i < SLOTS; i++) {
        const ssize_t got = fs_pread_some(fs, fd, true, text, SLOT_BYTES, (int64_t)i * SLOT_BYTES);

        if (got < 0) {
            result = (int)got;
            break;
        }
        text[got] = '\0';
        if (got == SLOT_BYTES && marks_parse(text, &found) &&
            found.generation % SLOTS == (unsigned)i && found.generation > out->generation) {
            *out = found;
            result = 0;
        }
    }
    fs->ops->close(fs->ctx, fd);
    return result;
}

int marks_open(const struct fs *fs, const char *dir, struct marks_file *file)
{
    char path[PATH_MAX];

    marks_path(dir, path);
    *file = (struct marks_file){.stamp = {.bytes = -1}};
    file->fd = fs->ops->open(fs->ctx, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
    return file->fd < 0 ? file->fd : 0;
}

int marks_put(const struct fs *fs, struct marks_file *file, const struct marks *marks)
{
    char text[SLOT_BYTES + 1];
    int result;

    if (!marks_emit(marks, text))
        return -ENOSPC;
    if (!fs_has_stamp(fs, file->fd, &file->stamp))
        return -ESTALE;
    result = fs_pwrite_whole(fs, file->fd, text, SLOT_BYTES,
                             (int64_t)(marks->generation % SLOTS) * SLOT_BYTES);
    file->stamp = fs_stamp(fs, file->fd);
    return result < 0 ? result : fs->ops->fdatasync(fs->ctx, file->fd);
}

void marks_close(const struct fs *fs, struct marks_file *file)
{
    if (file->fd >= 0)
        fs->ops->close(fs->ctx, file->fd);
    file->fd = -1;
}

int marks_write(const struct fs *fs, const char *dir, const struct marks *marks)
{
    struct marks_file file;
    int result = marks_open(fs, dir, &file);

    if (result < 0)
        return result;
    result = fs->ops->fsync_dir(fs->ctx, dir);
    if (result == 0)
        result = marks_put(fs, &file, marks);
    marks_close(fs, &file);
    return result;
}
