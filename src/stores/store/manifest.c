#include "store/manifest.h"

#include "base/hash.h"
#include "base/random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

size_t manifest_emit(const struct datadir_manifest *manifest, char out[MANIFEST_BYTES_MAX])
{
    size_t len = (size_t)snprintf(
        out, MANIFEST_BYTES_MAX,
        "# written by tarry; do not edit\n"
        "format=%" PRIu32 "\nshards=%" PRIu32 "\nhash_seed=0x%016" PRIx64
        "\nboot_id=%s\nboot_offset_ms=%" PRId64 "\nskew_ms=%" PRId64 "\nname=%s\nopened=%d\n",
        manifest->format, manifest->shards, manifest->hash_seed, manifest->boot_id,
        manifest->boot_offset_ms, manifest->skew_ms, manifest->name, manifest->is_opened);

    if (manifest->test_start_ms)
        len += (size_t)snprintf(out + len, MANIFEST_BYTES_MAX - len,
                                "test_start_ms=%" PRId64 "\ntest_inner_ms=%" PRId64 "\n",
                                manifest->test_start_ms, manifest->test_inner_ms);
    len += (size_t)snprintf(out + len, MANIFEST_BYTES_MAX - len, "check=%016" PRIx64 "\n",
                            hash_64(out, len));
    return len;
}

/* Returns the value of a line `key=value`, or NULL if there is no such line. Need not be strict:
 * manifest_parse emits the result and compares. */
static const char *find_value(const char *text, const char *key)
{
    const size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == '=')
            return line + len + 1;
    }
    return NULL;
}

static uint64_t find_number(const char *text, const char *key)
{
    const char *value = find_value(text, key);

    return value ? strtoull(value, NULL, 0) : 0;
}

static int64_t find_signed(const char *text, const char *key)
{
    const char *value = find_value(text, key);

    return value ? strtoll(value, NULL, 10) : 0;
}

/* Copies a value, truncated to the buffer. */
static void find_text(const char *text, const char *key, char *out, size_t out_bytes)
{
    const char *value = find_value(text, key);
    size_t len = value ? strcspn(value, "\n") : 0;

    if (len >= out_bytes)
        len = out_bytes - 1;
    if (len > 0)
        memcpy(out, value, len);
    out[len] = '\0';
}

static bool is_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == DATADIR_NAME_BYTES && !name[DATADIR_NAME_BYTES];
}

int manifest_parse(struct slice text, struct datadir_manifest *out)
{
    struct datadir_manifest manifest = {0};
    char copy[MANIFEST_BYTES_MAX], again[MANIFEST_BYTES_MAX];
    uint64_t format, shards;

    if (!slice_copy(text, copy, sizeof copy))
        return -EBADMSG;
    format = find_number(copy, "format");
    shards = find_number(copy, "shards");
    if (format > DATADIR_FORMAT && format <= UINT32_MAX) {
        out->format = (uint32_t)format;
        return -EPROTONOSUPPORT;
    }
    if (format == 0 || format > UINT32_MAX || shards == 0 || shards > DATADIR_SHARDS_MAX)
        return -EBADMSG;
    manifest.format = (uint32_t)format;
    manifest.shards = (uint32_t)shards;
    manifest.hash_seed = find_number(copy, "hash_seed");
    find_text(copy, "boot_id", manifest.boot_id, sizeof manifest.boot_id);
    manifest.boot_offset_ms = find_signed(copy, "boot_offset_ms");
    manifest.skew_ms = find_signed(copy, "skew_ms");
    manifest.test_start_ms = find_signed(copy, "test_start_ms");
    manifest.test_inner_ms = find_signed(copy, "test_inner_ms");
    find_text(copy, "name", manifest.name, sizeof manifest.name);
    manifest.is_opened = find_number(copy, "opened") == 1;
    if (!is_name(manifest.name) ||
        !slice_equals(text, slice_make(again, manifest_emit(&manifest, again))))
        return -EBADMSG;
    *out = manifest;
    return 0;
}

void manifest_draw_name(struct datadir_manifest *manifest)
{
    unsigned char bytes[DATADIR_NAME_BYTES / 2];

    random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(manifest->name + 2 * i, 3, "%02x", bytes[i]);
}
