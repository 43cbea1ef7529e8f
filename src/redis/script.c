#include "redis/script.h"

#include "redis/script_texts.h"

#include <openssl/evp.h>
#include <stdlib.h>

#define SOURCE(name)                                                                               \
    {                                                                                              \
#name, redis_lua_##name##_text, &redis_lua_##name##_bytes                                  \
    }

static const struct source {
    const char *name, *text;
    const size_t *bytes;
} sources[REDIS_SCRIPTS + 1] = {
    [REDIS_HELLO] = SOURCE(hello),     [REDIS_ADJUST] = SOURCE(adjust),
    [REDIS_PUSH] = SOURCE(push),       [REDIS_TAKE] = SOURCE(take),
    [REDIS_ANSWER] = SOURCE(answer),   [REDIS_CHANGE] = SOURCE(change),
    [REDIS_ADVANCE] = SOURCE(advance), [REDIS_GET] = SOURCE(get),
    [REDIS_LIST] = SOURCE(list),       [REDIS_TOPIC] = SOURCE(topic),
    [REDIS_TOPICS] = SOURCE(topics),   [REDIS_PURGE] = SOURCE(purge),
    [REDIS_REDRIVE] = SOURCE(redrive), [REDIS_LOOK] = SOURCE(look),
    [REDIS_CHECK] = SOURCE(check),
};

static struct redis_script_text scripts[REDIS_SCRIPTS + 1];

/* The shebang line of the script's own file must be the first line of the whole. */
static bool assemble(const struct source *source, struct redis_script_text *out)
{
    static const char digits[] = "0123456789abcdef";
    const char *line_end = memchr(source->text, '\n', *source->bytes);
    size_t first = (size_t)(line_end + 1 - source->text), at = 0;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_bytes = 0;
    char *text = malloc(*source->bytes + redis_lua_common_bytes);

    if (!text)
        return false;
    memcpy(text, source->text, first);
    memcpy(text + first, redis_lua_common_text, redis_lua_common_bytes);
    at = first + redis_lua_common_bytes;
    memcpy(text + at, source->text + first, *source->bytes - first);
    at += *source->bytes - first;
    if (!EVP_Digest(text, at, hash, &hash_bytes, EVP_sha1(), NULL) ||
        hash_bytes * 2 != REDIS_SHA_BYTES) {
        free(text);
        return false;
    }
    for (unsigned i = 0; i < hash_bytes; i++) {
        out->sha[2 * i] = digits[hash[i] >> 4];
        out->sha[2 * i + 1] = digits[hash[i] & 15];
    }
    out->name = source->name;
    out->text = slice_make(text, at); /* lives as long as the process */
    return true;
}

bool redis_scripts_init(void)
{
    for (int i = 1; i <= REDIS_SCRIPTS; i++)
        if (!scripts[i].name && !assemble(&sources[i], &scripts[i]))
            return false;
    return true;
}

const struct redis_script_text *redis_script(enum redis_script script)
{
    return &scripts[script];
}
