/* access_rig: a file of tokens of the test's own, and who is admitted by it. */
#ifndef TARRY_TESTS_ACCESS_RIG_H
#define TARRY_TESTS_ACCESS_RIG_H

#include "access/access.h"
#include "access/token_list.h"
#include "base/hex.h"

#include "unit/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RIG_PATH_BYTES = 64 };
#define RIG_NOW_MS INT64_C(1790000000000)

struct access_rig {
    char path[RIG_PATH_BYTES];
    struct access *access;
    char error[ACCESS_ERROR_BYTES];
    struct access_change change;
};

/* "sha256=…" of a secret. */
static inline const char *rig_hash(const char *key, const char *secret)
{
    static char texts[8][96 + 2 * TOKEN_HASH_BYTES];
    static unsigned round;
    char *text = texts[round++ % 8];
    unsigned char hash[TOKEN_HASH_BYTES];
    token_hash(slice_of(secret), hash);
    int len = snprintf(text, 32, "%s=", key);
    hex_emit_bytes(text + len, hash, sizeof hash);
    text[(size_t)len + 2 * sizeof hash] = '\0';
    return text;
}

/* Writes like an editor: puts another file in its place. */
static inline void rig_write_mode(struct access_rig *rig, const char *text, mode_t mode)
{
    char other[RIG_PATH_BYTES + 8];
    snprintf(other, sizeof other, "%s.new", rig->path);
    FILE *file = fopen(other, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(other, mode), 0);
    assert_int_equal(rename(other, rig->path), 0);
}

static inline void rig_write(struct access_rig *rig, const char *text)
{
    rig_write_mode(rig, text, 0600);
}

static inline int rig_open_mode(struct access_rig *rig, const char *text, mode_t mode)
{
    *rig = (struct access_rig){0};
    strcpy(rig->path, "/tmp/tarry-tokens-XXXXXX");
    int fd = mkstemp(rig->path);
    assert_true(fd >= 0);
    close(fd);
    rig_write_mode(rig, text, mode);
    const struct access_options options = {.tokens_file = rig->path};
    return access_new(&options, &rig->access, rig->error);
}

static inline void rig_open(struct access_rig *rig, const char *text)
{
    if (rig_open_mode(rig, text, 0600) != 0)
        fail_msg("'%s' is refused: %s", text, rig->error);
}

static inline void rig_close(struct access_rig *rig)
{
    access_free(rig->access);
    unlink(rig->path);
}

static inline enum access_refusal rig_ask(struct access_rig *rig, const char *header,
                                          struct access_caller **caller)
{
    struct access_asked asked = {.needs_caller = true, .now_ms = RIG_NOW_MS};
    if (header)
        asked.authorization = slice_of(header);
    return access_admit(rig->access, &asked, caller);
}

/* Returns the rejection of a header, or 0. */
static inline enum access_refusal rig_refusal(struct access_rig *rig, const char *header)
{
    struct access_caller *caller = NULL;
    enum access_refusal refusal = rig_ask(rig, header, &caller);
    assert_true((refusal == ACCESS_OK) == (caller != NULL));
    access_caller_release(caller);
    return refusal;
}

#endif
