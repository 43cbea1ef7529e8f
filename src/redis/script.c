#include "redis/script.h"

#include "base/buffer.h"
#include "redis/script_texts.h"

#include <assert.h>
#include <openssl/evp.h>

#define PARTS "-- parts:"

enum { SCRIPT_BYTES_MAX = 1 << 20 };

#define SOURCE(name)                                                                               \
    {                                                                                              \
#name, redis_lua_##name##_text, &redis_lua_##name##_bytes                                  \
    }

static const struct source {
    const char *name, *text;
    const size_t *bytes;
} sources[REDIS_SCRIPTS + 1] = {
    [REDIS_HELLO] = SOURCE(hello),
    [REDIS_ADJUST] = SOURCE(adjust),
    [REDIS_PUSH] = SOURCE(push),
    [REDIS_TAKE] = SOURCE(take),
    [REDIS_ANSWER] = SOURCE(answer),
    [REDIS_CHANGE] = SOURCE(change),
    [REDIS_ADVANCE] = SOURCE(advance),
    [REDIS_GET] = SOURCE(get),
    [REDIS_LIST] = SOURCE(list),
    [REDIS_TOPIC] = SOURCE(topic),
    [REDIS_TOPICS] = SOURCE(topics),
    [REDIS_PURGE] = SOURCE(purge),
    [REDIS_REDRIVE] = SOURCE(redrive),
    [REDIS_LOOK] = SOURCE(look),
    [REDIS_PACK] = SOURCE(pack),
    [REDIS_CHECK] = SOURCE(check),
    [REDIS_CHECK_SETS] = SOURCE(check_sets),
    [REDIS_CHECK_JOBS] = SOURCE(check_jobs),
    [REDIS_CHECK_TOPIC] = SOURCE(check_topic),
};

#define PART(name)                                                                                 \
    {                                                                                              \
#name, redis_lua_common_##name##_text, &redis_lua_common_##name##_bytes                    \
    }

static const struct source parts[] = {PART(base), PART(topics), PART(leaves),   PART(jobs),
                                      PART(due),  PART(ending), PART(findings), PART(sound)};

static struct redis_script_text scripts[REDIS_SCRIPTS + 1];

static const struct source *find_part(struct slice name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (slice_is(name, parts[i].name))
            return &parts[i];
    return NULL;
}

/* Up to and with the end of the line. */
static struct slice take_line(struct slice *text)
{
    const char *end = memchr(text->at, '\n', text->len);
    struct slice line = slice_make(text->at, (size_t)(end + 1 - text->at));

    *text = slice_make(end + 1, text->len - line.len);
    return line;
}

static bool take_word(struct slice *line, struct slice *word)
{
    while (line->len && (*line->at == ' ' || *line->at == '\n'))
        *line = slice_make(line->at + 1, line->len - 1);
    *word = slice_make(line->at, 0);
    while (word->len < line->len && word->at[word->len] != ' ' && word->at[word->len] != '\n')
        word->len++;
    *line = slice_make(line->at + word->len, line->len - word->len);
    return word->len > 0;
}

/* The first line must stay the first; the second names the parts that come next. */
static void append_whole(struct buffer *out, const struct source *source)
{
    struct slice text = slice_make(source->text, *source->bytes), line, word;

    buffer_append_slice(out, take_line(&text));
    line = take_line(&text);
    assert(line.len > sizeof PARTS && memcmp(line.at, PARTS, sizeof PARTS - 1) == 0);
    line = slice_make(line.at + sizeof PARTS - 1, line.len - (sizeof PARTS - 1));
    while (take_word(&line, &word)) {
        const struct source *part = find_part(word);

        assert(part);
        buffer_append(out, part->text, *part->bytes);
    }
    buffer_append_slice(out, text);
}

static bool assemble(const struct source *source, struct redis_script_text *out)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_bytes = 0;
    struct buffer whole; /* lives as long as the process */

    buffer_init(&whole, SCRIPT_BYTES_MAX);
    append_whole(&whole, source);
    if (whole.failed || !EVP_Digest(whole.at, whole.len, hash, &hash_bytes, EVP_sha1(), NULL) ||
        hash_bytes * 2 != REDIS_SHA_BYTES) {
        buffer_fini(&whole);
        return false;
    }
    for (unsigned i = 0; i < hash_bytes; i++) {
        out->sha[2 * i] = digits[hash[i] >> 4];
        out->sha[2 * i + 1] = digits[hash[i] & 15];
    }
    out->name = source->name;
    out->text = buffer_slice(&whole);
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
