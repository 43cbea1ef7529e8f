#include "redis/script.h"

#include "base/buffer.h"
#include "base/hex.h"
#include "redis/script_texts.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>

#define PARTS "-- parts:"
#define CALL "\n-- call\n"

enum { SCRIPT_BYTES_MAX = 1 << 20, LIBRARY_PARTS = 16 };

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
    [REDIS_STEP] = SOURCE(step),
    [REDIS_CHANGE] = SOURCE(change),
    [REDIS_GET] = SOURCE(get),
    [REDIS_LIST] = SOURCE(list),
    [REDIS_TOPIC] = SOURCE(topic),
    [REDIS_TOPICS] = SOURCE(topics),
    [REDIS_PURGE] = SOURCE(purge),
    [REDIS_REDRIVE] = SOURCE(redrive),
    [REDIS_LOOK] = SOURCE(look),
    [REDIS_LISTEN] = SOURCE(listen),
    [REDIS_FORECAST] = SOURCE(forecast),
    [REDIS_PACK] = SOURCE(pack),
    [REDIS_RESHARD] = SOURCE(reshard),
    [REDIS_LEAVE] = SOURCE(leave),
    [REDIS_ARRIVE] = SOURCE(arrive),
    [REDIS_DROP] = SOURCE(drop),
    [REDIS_FIND] = SOURCE(find),
    [REDIS_PICK] = SOURCE(pick),
    [REDIS_AWAIT] = SOURCE(await),
    [REDIS_GROUP] = SOURCE(group),
    [REDIS_GROUPS] = SOURCE(groups),
    [REDIS_BATCH] = SOURCE(batch),
    [REDIS_MAIL] = SOURCE(mail),
    [REDIS_CHECK] = SOURCE(check),
    [REDIS_CHECK_SETS] = SOURCE(check_sets),
    [REDIS_CHECK_JOBS] = SOURCE(check_jobs),
    [REDIS_CHECK_TOPIC] = SOURCE(check_topic),
};

#define PART(name)                                                                                 \
    {                                                                                              \
#name, redis_lua_common_##name##_text, &redis_lua_common_##name##_bytes                    \
    }

/* The parts; the first LIBRARY_PARTS form the library. */
static const struct source parts[] = {
    PART(base),    PART(topics), PART(leaves), PART(history), PART(jobs),     PART(kept),
    PART(keeping), PART(events), PART(flow),   PART(batches), PART(parts),    PART(due),
    PART(answers), PART(takes),  PART(ending), PART(moving),  PART(findings), PART(sound)};

static struct redis_script_text scripts[REDIS_SCRIPTS + 1];
static struct redis_library library;
static char functions[REDIS_SCRIPTS_SERVED + 1][REDIS_FUNCTION_BYTES];

static const struct source *find_part(struct slice name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (slice_is(name, parts[i].name))
            return &parts[i];
    return NULL;
}

/* Removes and returns the first line, with its line end. */
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

static bool digest(const struct buffer *whole, char sha[REDIS_SHA_BYTES + 1])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_bytes = 0;

    if (whole->failed || !EVP_Digest(whole->at, whole->len, hash, &hash_bytes, EVP_sha1(), NULL) ||
        hash_bytes * 2 != REDIS_SHA_BYTES)
        return false;
    hex_emit_bytes(sha, hash, hash_bytes);
    return true;
}

/* ---- separate scripts ---- */

/* Appends a complete script. Its first line must stay the first; the second names the parts to
 * insert. The shard is reached right after the first part, because the other parts query Redis when
 * they run. */
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
        if (part == parts)
            buffer_append_text(out, "reach(KEYS)\n");
    }
    buffer_append_text(out, "return (function()\n"); /* a function may have at most 200 variables */
    buffer_append_slice(out, text);
    buffer_append_text(out, "\nend)()\n");
}

static bool assemble(const struct source *source, struct redis_script_text *out)
{
    struct buffer whole; /* lives as long as the process */

    buffer_init(&whole, SCRIPT_BYTES_MAX);
    append_whole(&whole, source);
    if (!digest(&whole, out->sha)) {
        buffer_fini(&whole);
        return false;
    }
    out->name = source->name;
    out->text = buffer_slice(&whole);
    return true;
}

/* ---- the library ---- */

/* Appends a script as a function, with the flags of its first line ("#!lua flags=allow-oom"). What is
 * before the line CALL, if there is one, runs when the library is loaded. */
static void append_function(struct buffer *out, const struct source *source, const char *name)
{
    static const char flags_mark[] = "flags=";
    struct slice text = slice_make(source->text, *source->bytes), first = take_line(&text);
    const char *flags = memmem(first.at, first.len, flags_mark, sizeof flags_mark - 1);

    const char *call = memmem(text.at, text.len, CALL, sizeof CALL - 1);
    size_t before = call ? (size_t)(call - text.at) : 0;

    buffer_append_text(out, "do\nlocal body = (function()\n");
    buffer_append(out, text.at, before);
    buffer_append_text(out, "\nreturn function(KEYS, ARGV)\n");
    buffer_append(out, text.at + before, text.len - before);
    buffer_append_format(out, "\nend\nend)()\nredis.register_function{function_name='%s', ", name);
    if (flags) {
        flags += sizeof flags_mark - 1;
        buffer_append_format(out, "flags={'%.*s'}, ", (int)(first.at + first.len - 1 - flags),
                             flags);
    }
    buffer_append_text(out, "callback=function(KEYS, ARGV) return carry_out(body, KEYS, ARGV) "
                            "end}\nend\n");
}

/* Derives the library's name from its text, so that servers of different versions use different
 * libraries. */
static bool name_library(void)
{
    struct buffer whole;
    char sha[REDIS_SHA_BYTES + 1];
    bool done;

    buffer_init(&whole, SCRIPT_BYTES_MAX);
    for (size_t i = 0; i < LIBRARY_PARTS; i++)
        buffer_append(&whole, parts[i].text, *parts[i].bytes);
    for (int i = 1; i <= REDIS_SCRIPTS_SERVED; i++)
        buffer_append(&whole, sources[i].text, *sources[i].bytes);
    done = digest(&whole, sha);
    buffer_fini(&whole);
    if (done)
        snprintf(library.name, sizeof library.name, "tarry_%.10s", sha);
    return done;
}

static bool assemble_library(void)
{
    struct buffer whole; /* lives as long as the process */

    if (!name_library())
        return false;
    buffer_init(&whole, SCRIPT_BYTES_MAX);
    buffer_append_format(&whole, "#!lua name=%s\n", library.name);
    for (size_t i = 0; i < LIBRARY_PARTS; i++)
        buffer_append(&whole, parts[i].text, *parts[i].bytes);
    for (int i = 1; i <= REDIS_SCRIPTS_SERVED; i++) {
        snprintf(functions[i], sizeof functions[i], "%s_%s", library.name, sources[i].name);
        append_function(&whole, &sources[i], functions[i]);
    }
    if (whole.failed) {
        buffer_fini(&whole);
        return false;
    }
    library.text = buffer_slice(&whole);
    return true;
}

bool redis_scripts_init(void)
{
    for (int i = REDIS_SCRIPTS_SERVED + 1; i <= REDIS_SCRIPTS; i++)
        if (!scripts[i].name && !assemble(&sources[i], &scripts[i]))
            return false;
    return library.text.len || assemble_library();
}

const struct redis_script_text *redis_script(enum redis_script script)
{
    assert(script > REDIS_SCRIPTS_SERVED);
    return &scripts[script];
}

const struct redis_library *redis_library(void)
{
    return &library;
}

const char *redis_function(enum redis_script script)
{
    assert(script <= REDIS_SCRIPTS_SERVED);
    return functions[script];
}

const char *redis_script_name(enum redis_script script)
{
    return sources[script].name;
}
