/* template: the first line is a template, the second an id, the third the value of {meta.x}. */
#include "targets/template.h"

#include "targets/target.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct slice take_line(struct slice *rest)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->at) : rest->len;
    struct slice line = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len + (end != NULL), rest->len - len - (end != NULL));
    return line;
}

static size_t count_of(struct slice text, char byte)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == byte;
    return count;
}

static void check_url(struct slice text, struct slice filled)
{
    static const char marks[] = "/?#&;=\\@:";
    for (const char *mark = marks; *mark; mark++)
        CLAIM("what is filled in adds nothing that parts a URL",
              count_of(filled, *mark) == count_of(text, *mark));
    CLAIM("it does not lead up", !template_leads_up(filled));
}

static void check_template(struct slice text, const struct job *job)
{
    struct buffer plain, url, small;
    buffer_init(&plain, 1 << 23);
    buffer_init(&url, 1 << 23);
    buffer_init(&small, 1 << 23);
    CLAIM("plain text can always be filled",
          template_fill(text, job, TEMPLATE_PLAIN, 1 << 22, &plain));
    CLAIM("without fields it is itself",
          template_has_fields(text) || slice_equals(buffer_slice(&plain), text));
    if (template_fill(text, job, TEMPLATE_URL, 1 << 22, &url))
        check_url(text, buffer_slice(&url));
    else
        CLAIM("refused: nothing is appended", url.len == 0);
    if (plain.len > 0)
        CLAIM("a byte less is too little",
              !template_fill(text, job, TEMPLATE_PLAIN, plain.len - 1, &small) && small.len == 0);
    buffer_fini(&plain);
    buffer_fini(&url);
    buffer_fini(&small);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice rest = slice_make(bytes, len < 4096 ? len : 4096);
    struct slice text = take_line(&rest), id = take_line(&rest), value = take_line(&rest);
    char error[TARGET_ERROR_BYTES] = "";
    struct buffer meta;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    (void)job_meta_add(&meta, slice_of("x"), value);
    struct job job = {.topic = slice_of("t"),
                      .id = job_id_is_valid(id) ? id : slice_of("1"),
                      .meta = buffer_slice(&meta)};
    if (template_check(text, error))
        check_template(text, &job);
    else
        CLAIM("refused: it says why", error[0] && memchr(error, 0, sizeof error));
    buffer_fini(&meta);
    return 0;
}
