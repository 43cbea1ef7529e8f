#include "api/media.h"

#include "http/request.h"
#include "job/json.h"

bool api_media_is_lines(struct slice type)
{
    type = job_type_plain(type);
    return http_is(type, "application/x-ndjson") || http_is(type, "application/ndjson") ||
           http_is(type, "application/jsonl");
}

bool api_media_is_form(struct slice type)
{
    return http_is(job_type_plain(type), "application/x-www-form-urlencoded");
}

bool api_media_is_valid(struct slice type)
{
    for (size_t i = 0; i < type.len; i++)
        if (type.at[i] < 0x20 || type.at[i] > 0x7e)
            return false;
    return true;
}

/* ---- Accept ---- */

static struct slice trimmed(struct slice text)
{
    while (text.len && (*text.at == ' ' || *text.at == '\t'))
        text = slice_make(text.at + 1, text.len - 1);
    while (text.len && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Returns the text before the first `mark` and advances *text behind the mark. */
static struct slice next_part(struct slice *text, char mark)
{
    const char *end = text->len ? memchr(text->at, mark, text->len) : NULL;
    struct slice part = slice_make(text->at, end ? (size_t)(end - text->at) : text->len);
    *text = end ? slice_make(end + 1, text->len - part.len - 1) : (struct slice){0};
    return trimmed(part);
}

/* Parses a weight such as "0.5" as thousandths; returns 0 for an invalid one. */
static int weight_of(struct slice text)
{
    int weight = 0, unit = 1000;
    for (size_t i = 0; i < text.len && unit; i++) {
        if (i == 1 && text.at[i] == '.')
            continue;
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        weight += (text.at[i] - '0') * unit;
        unit /= 10;
    }
    return weight;
}

/* Returns the weight that an item of the header gives to the type; 0: no match. */
static int item_weight(struct slice item, const char *type, const char *version)
{
    int weight = 1000;
    if (!http_is(next_part(&item, ';'), type))
        return 0;
    while (item.len) {
        struct slice value = next_part(&item, ';');
        struct slice key = next_part(&value, '=');
        value = trimmed(value);
        if (value.len > 1 && value.at[0] == '"' && value.at[value.len - 1] == '"')
            value = slice_make(value.at + 1, value.len - 2);
        if (http_is(key, "q"))
            weight = weight_of(value);
        else if (http_is(key, "version") && !slice_is(value, version))
            return 0;
    }
    return weight;
}

static int type_weight(struct slice accept, const char *type, const char *version)
{
    int most = 0;
    while (accept.len) {
        int weight = item_weight(next_part(&accept, ','), type, version);
        if (weight > most)
            most = weight;
    }
    return most;
}

bool api_media_prefers(struct slice accept, const char *first, const char *first_version,
                       const char *second, const char *second_version)
{
    int weight = type_weight(accept, first, first_version);
    return weight > 0 && weight >= type_weight(accept, second, second_version);
}
