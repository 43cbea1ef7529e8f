#include "job/batch.h"

#include "job/wire.h"

#include <stdio.h>

/* ---- names ---- */

static const char *const on_deads[] = {
    [BATCH_GO] = "go", [BATCH_HOLD] = "hold", [BATCH_STOP] = "stop"};
static const char *const outcomes[BATCH_OUTCOMES] = {[BATCH_UNFINISHED] = "unfinished",
                                                     [BATCH_ACKED] = "acked",
                                                     [BATCH_DEAD] = "dead",
                                                     [BATCH_CANCELLED] = "cancelled",
                                                     [BATCH_EXPIRED] = "expired"};

const char *batch_on_dead_name(enum batch_on_dead on_dead)
{
    assert(on_dead >= BATCH_GO && on_dead <= BATCH_STOP);
    return on_deads[on_dead];
}

bool batch_on_dead_parse(struct slice name, enum batch_on_dead *out)
{
    for (int i = BATCH_GO; i <= BATCH_STOP; i++)
        if (slice_is(name, on_deads[i])) {
            *out = (enum batch_on_dead)i;
            return true;
        }
    return false;
}

const char *batch_outcome_name(enum batch_outcome outcome)
{
    assert(outcome < BATCH_OUTCOMES);
    return outcomes[outcome];
}

bool batch_outcome_parse(struct slice name, enum batch_outcome *out)
{
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        if (slice_is(name, outcomes[i])) {
            *out = (enum batch_outcome)i;
            return true;
        }
    return false;
}

/* ---- the pair of the meta ---- */

size_t batch_meta_write(const struct batch_counts *counts, char into[BATCH_META_BYTES_MAX])
{
    static const char name[] = JOB_META_BATCH; /* with its NUL, which separates name and value */
    memcpy(into, name, sizeof name);
    int len = snprintf(into + sizeof name, BATCH_META_BYTES_MAX - sizeof name,
                       "acked=%u dead=%u cancelled=%u expired=%u missing=%u",
                       counts->of[BATCH_ACKED], counts->of[BATCH_DEAD], counts->of[BATCH_CANCELLED],
                       counts->of[BATCH_EXPIRED], counts->of[BATCH_UNFINISHED]);
    assert(len > 0 && sizeof name + (size_t)len < BATCH_META_BYTES_MAX);
    return sizeof name + (size_t)len + 1;
}

struct slice batch_meta_join(struct slice meta, const struct batch_counts *counts, char *into)
{
    if (meta.len)
        memcpy(into, meta.at, meta.len);
    return slice_make(into, meta.len + batch_meta_write(counts, into + meta.len));
}

/* ---- the stored form: form · [topic · id · number · depth] · [members · wait · close] ---- */

enum { FORM_MEMBER = 1 << 0, FORM_WAITS = 1 << 1, FORM_ON_DEAD_SHIFT = 2, FORM_END = 1 << 4 };

size_t job_batch_encode(const struct job_batch *batch, char into[JOB_BATCH_BYTES_MAX])
{
    char *at = into;
    unsigned form = (batch->topic.len ? FORM_MEMBER : 0u) | (batch->waits ? FORM_WAITS : 0u);
    if (batch->waits)
        form |= (unsigned)batch->on_dead << FORM_ON_DEAD_SHIFT;
    assert(!batch->waits || batch->on_dead);
    if (!form)
        return 0;
    at = wire_put_byte(at, form);
    if (form & FORM_MEMBER) {
        at = wire_put_text(at, batch->topic, JOB_TOPIC_BYTES_MAX);
        at = wire_put_text(at, batch->id, JOB_ID_BYTES_MAX);
        at = wire_put_varint(at, batch->number);
        at = wire_put_byte(at, batch->depth);
    }
    if (form & FORM_WAITS) {
        at = wire_put_varint(at, batch->members);
        at = wire_put_ms(at, batch->wait_ms);
        at = wire_put_ms(at, batch->close_ms);
    }
    return (size_t)(at - into);
}

bool job_batch_decode(struct slice bytes, struct job_batch *out)
{
    struct wire_in in = wire_in_make(bytes);
    *out = (struct job_batch){0};
    if (!bytes.len)
        return true;
    unsigned form = wire_take_byte(&in);
    out->waits = form & FORM_WAITS;
    if (out->waits)
        out->on_dead = (enum batch_on_dead)(form >> FORM_ON_DEAD_SHIFT);
    if (!form || form >= FORM_END || (out->waits ? !out->on_dead : form >> FORM_ON_DEAD_SHIFT))
        return false;
    if (form & FORM_MEMBER) {
        out->topic = wire_take_text(&in, 1, JOB_TOPIC_BYTES_MAX);
        out->id = wire_take_text(&in, 1, JOB_ID_BYTES_MAX);
        out->number = wire_take_varint(&in, 0, UINT64_MAX);
        out->depth = (uint8_t)wire_take_byte(&in);
    }
    if (out->waits) {
        out->members = (uint32_t)wire_take_varint(&in, 0, BATCH_MEMBERS_MAX);
        out->wait_ms = wire_take_ms(&in, 0);
        out->close_ms = wire_take_ms(&in, 0);
    }
    return !in.bad && wire_left(&in) == 0;
}
