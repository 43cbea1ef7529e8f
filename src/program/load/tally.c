#include "load/tally.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

enum { SEEN_WORDS_FIRST = 1 << 12, TRACE_BUFFER_BYTES = 1 << 20 };

_Static_assert(sizeof(struct load_trace_entry) == LOAD_TRACE_BYTES, "entry");

/* ---- the trace ---- */

static void trace_add(struct load_tally *tally, enum load_trace_kind kind, int64_t at_us,
                      int64_t took_us, uint64_t jobs)
{
    if (!tally->trace)
        return;
    assert(jobs <= UINT16_MAX);
    uint64_t took = took_us < 0 ? 0 : (uint64_t)took_us;
    const struct load_trace_entry entry = {
        .at_us = (int64_t)htole64((uint64_t)at_us),
        .took_us = htole32(took < UINT32_MAX ? (uint32_t)took : UINT32_MAX),
        .jobs = htole16((uint16_t)jobs),
        .kind = (uint8_t)kind};
    if (fwrite(&entry, sizeof entry, 1, tally->trace) != 1 && !tally->trace_error)
        tally->trace_error = errno ? errno : EIO;
}

static bool trace_close(struct load_tally *tally)
{
    int error = tally->trace_error;
    if (tally->trace && fclose(tally->trace) != 0 && !error)
        error = errno;
    tally->trace = NULL;
    errno = error;
    return !error;
}

/* ---- counting ---- */

bool load_tally_init(struct load_tally *tally, struct load_result *result, uint32_t run,
                     const char *trace)
{
    *tally = (struct load_tally){.result = result, .run = run};
    if (!trace)
        return true;
    tally->trace = fopen(trace, "wbe");
    if (tally->trace)
        setvbuf(tally->trace, NULL, _IOFBF, TRACE_BUFFER_BYTES);
    return tally->trace;
}

void load_tally_pushed(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t sent_us,
                       int64_t now_us)
{
    struct load_result *result = tally->result;
    if (!tally->push_first_us || sent_us < tally->push_first_us)
        tally->push_first_us = sent_us;
    tally->push_last_us = now_us;
    result->pushed += jobs - failed;
    result->push_failed += failed;
    histogram_add(&result->push_us, (uint64_t)(now_us > sent_us ? now_us - sent_us : 0));
    trace_add(tally, LOAD_TRACE_PUSHED, now_us, now_us - sent_us, jobs - failed);
}

void load_tally_acked(struct load_tally *tally, uint32_t jobs, uint64_t failed, int64_t now_us)
{
    tally->take_last_us = now_us;
    tally->result->acked += jobs - failed;
    tally->result->ack_failed += failed;
    trace_add(tally, LOAD_TRACE_ACKED, now_us, 0, jobs - failed);
}

static bool grow_seen(struct load_tally *tally, uint64_t word)
{
    uint64_t words = tally->seen_words ? tally->seen_words : SEEN_WORDS_FIRST;
    while (words <= word)
        words *= 2;
    uint64_t *seen = realloc(tally->seen, words * sizeof *seen);
    if (!seen)
        return false;
    memset(seen + tally->seen_words, 0, (words - tally->seen_words) * sizeof *seen);
    tally->seen = seen;
    tally->seen_words = words;
    return true;
}

/* Marks the index as seen. Returns true if it was seen before; if memory runs out, returns
 * false. */
static bool see(struct load_tally *tally, uint64_t index)
{
    uint64_t word = index / 64, bit = (uint64_t)1 << index % 64;
    if (word >= tally->seen_words && !grow_seen(tally, word))
        return false;
    bool before = tally->seen[word] & bit;
    tally->seen[word] |= bit;
    return before;
}

bool load_tally_delivered(struct load_tally *tally, struct slice body, int64_t now_us)
{
    struct load_result *result = tally->result;
    struct load_stamp stamp;
    if (!load_stamp_read(body, &stamp) || stamp.run != tally->run) {
        result->foreign++;
        return false;
    }
    tally->take_last_us = now_us;
    if (see(tally, stamp.index)) {
        result->duplicates++;
        return true;
    }
    int64_t late_us = now_us - (stamp.sent_us + stamp.delay_ms * 1000);
    result->delivered++;
    if (late_us < 0) {
        result->early++;
        if (-late_us > result->early_max_us)
            result->early_max_us = -late_us;
        late_us = 0;
    }
    histogram_add(&result->late_us, (uint64_t)late_us);
    trace_add(tally, LOAD_TRACE_DELIVERED, now_us, late_us, 1);
    return true;
}

void load_tally_late_by_due(struct load_tally *tally, int64_t due_ms, int64_t wall_us)
{
    int64_t late_us = wall_us - due_ms * 1000;
    histogram_add(&tally->result->late_by_due_us, late_us > 0 ? (uint64_t)late_us : 0);
}

void load_tally_problem(struct load_tally *tally, struct slice problem)
{
    char *out = tally->result->problem;
    if (*out)
        return;
    size_t len = 0;
    bool blank = false;
    for (size_t i = 0; i < problem.len && len < LOAD_TEXT_BYTES_MAX - 2; i++) {
        bool printable = problem.at[i] > ' ' && problem.at[i] < 127;
        if (!printable && !blank && len > 0)
            out[len++] = ' ';
        if (printable)
            out[len++] = problem.at[i];
        blank = !printable;
    }
    out[len] = '\0';
}

bool load_tally_finish(struct load_tally *tally, bool consumed)
{
    struct load_result *result = tally->result;
    if (tally->push_first_us)
        result->push_s = (double)(tally->push_last_us - tally->push_first_us) / 1e6;
    if (tally->take_first_us && tally->take_last_us > tally->take_first_us)
        result->take_s = (double)(tally->take_last_us - tally->take_first_us) / 1e6;
    if (tally->push_first_us && tally->take_last_us > tally->push_first_us)
        result->life_s = (double)(tally->take_last_us - tally->push_first_us) / 1e6;
    if (consumed && result->pushed > result->delivered)
        result->missing = result->pushed - result->delivered;
    free(tally->seen);
    tally->seen = NULL;
    return trace_close(tally);
}
