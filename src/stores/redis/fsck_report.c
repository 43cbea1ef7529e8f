/* The findings: stores them, and writes them for people and for programs. */
#include "base/json_write.h"
#include "redis/fsck_run.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const state_names[] = {[REDIS_FSCK_TO_MEND] = "to_mend",
                                          [REDIS_FSCK_MENDED] = "mended",
                                          [REDIS_FSCK_MANUAL] = "manual",
                                          [REDIS_FSCK_NOTE] = "note"};
static const char *const state_words[] = {[REDIS_FSCK_TO_MEND] = "to repair",
                                          [REDIS_FSCK_MENDED] = "repaired",
                                          [REDIS_FSCK_MANUAL] = "manual",
                                          [REDIS_FSCK_NOTE] = "note"};

/* ---- storage ---- */

static char *copy(struct slice text)
{
    char *out = malloc(text.len + 1);
    if (!out)
        return NULL;
    if (text.len)
        memcpy(out, text.at, text.len);
    out[text.len] = 0;
    return out;
}

static void finding_fini(struct redis_fsck_finding *finding)
{
    free(finding->topic);
    free(finding->id);
    free(finding->what);
    free(finding->repair);
}

static bool make_room(struct redis_fsck_report *report)
{
    if (!report->finding)
        report->finding = calloc(REDIS_FSCK_FINDINGS_MAX, sizeof *report->finding);
    return report->finding && report->finding_kept < REDIS_FSCK_FINDINGS_MAX;
}

void fsck_found(struct fsck *fsck, int32_t shard, enum redis_fsck_how how, struct slice topic,
                struct slice id, struct slice what, struct slice repair)
{
    struct redis_fsck_report *report = fsck->report;
    report->finding_count += how != REDIS_FSCK_NOTE;
    report->mended += how == REDIS_FSCK_MENDED;
    if (shard >= 0)
        report->shard[shard].findings += how != REDIS_FSCK_NOTE;
    if (!make_room(report))
        return;
    struct redis_fsck_finding *finding = &report->finding[report->finding_kept];
    *finding = (struct redis_fsck_finding){.shard = shard,
                                           .how = how,
                                           .topic = copy(topic),
                                           .id = copy(id),
                                           .what = copy(what),
                                           .repair = copy(repair)};
    if (finding->topic && finding->id && finding->what && finding->repair)
        report->finding_kept++;
    else
        finding_fini(finding);
}

void redis_fsck_report_fini(struct redis_fsck_report *report)
{
    for (uint32_t i = 0; i < report->finding_kept; i++)
        finding_fini(&report->finding[i]);
    free(report->finding);
    *report = (struct redis_fsck_report){0};
}

static bool is_clean(const struct redis_fsck_report *report)
{
    return !*report->error && report->finding_count == report->mended;
}

/* ---- for people ---- */

/* Appends a text without control characters. Damaged ids and keys may contain any bytes, which a
 * terminal must not interpret. */
static void append_plain(struct buffer *out, const char *text)
{
    for (; *text; text++)
        buffer_append_byte(out, (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void emit_finding(struct buffer *out, const struct redis_fsck_finding *finding)
{
    if (finding->shard >= 0)
        buffer_append_format(out, "shard %02" PRIi32, finding->shard);
    else
        buffer_append_text(out, "queue");
    if (*finding->topic) {
        buffer_append_text(out, ", topic '");
        append_plain(out, finding->topic);
        buffer_append_byte(out, '\'');
    }
    if (*finding->id) {
        buffer_append_text(out, ", job '");
        append_plain(out, finding->id);
        buffer_append_byte(out, '\'');
    }
    buffer_append_text(out, ": ");
    append_plain(out, finding->what);
    buffer_append_format(out, " (%s: ", state_words[finding->how]);
    append_plain(out, finding->repair);
    buffer_append_text(out, ")\n");
}

static void emit_sum(struct buffer *out, const struct redis_fsck_report *report)
{
    uint64_t count = report->finding_count;
    if (count == 0) {
        buffer_append_text(out, "clean\n");
        return;
    }
    buffer_append_format(out, "%" PRIu64 " finding%s", count, count == 1 ? "" : "s");
    if (report->repairs)
        buffer_append_format(out, ", %" PRIu64 " repaired", report->mended);
    if (count > report->finding_kept)
        buffer_append_format(out, ", the first %" PRIu32 " of them above", report->finding_kept);
    buffer_append_byte(out, '\n');
}

void redis_fsck_emit_text(struct buffer *out, const struct redis_fsck_report *report)
{
    for (uint32_t i = 0; i < report->shards; i++) {
        const struct redis_fsck_shard *shard = &report->shard[i];
        buffer_append_format(
            out,
            "shard %02" PRIu32 ": %s, %" PRIu64 " key%s, %" PRIu64 " topic%s, %" PRIu64 " job%s\n",
            i, shard->tag, shard->keys, shard->keys == 1 ? "" : "s", shard->topics,
            shard->topics == 1 ? "" : "s", shard->jobs, shard->jobs == 1 ? "" : "s");
    }
    for (uint32_t i = 0; i < report->finding_kept; i++)
        emit_finding(out, &report->finding[i]);
    if (!*report->error)
        emit_sum(out, report);
}

/* ---- for programs ---- */

static void emit_finding_json(struct buffer *out, const struct redis_fsck_finding *finding)
{
    buffer_append_byte(out, '{');
    if (finding->shard >= 0)
        json_write_member_number(out, "shard", (uint64_t)finding->shard);
    if (*finding->topic)
        json_write_member_text(out, "topic", slice_of(finding->topic));
    if (*finding->id)
        json_write_member_text(out, "id", slice_of(finding->id));
    json_write_member_text(out, "text", slice_of(finding->what));
    json_write_member_text(out, "repair", slice_of(finding->repair));
    json_write_member_text(out, "state", slice_of(state_names[finding->how]));
    buffer_append_byte(out, '}');
}

static void emit_shard_json(struct buffer *out, uint32_t index,
                            const struct redis_fsck_shard *shard)
{
    buffer_append_byte(out, '{');
    json_write_member_number(out, "shard", index);
    json_write_member_text(out, "tag", slice_of(shard->tag));
    json_write_member_number(out, "keys", shard->keys);
    json_write_member_number(out, "topics", shard->topics);
    json_write_member_number(out, "jobs", shard->jobs);
    json_write_member_number(out, "entries", shard->entries);
    json_write_member_number(out, "finding_count", shard->findings);
    json_write_member_number(out, "steps", shard->steps);
    json_write_member_number(out, "slowest_step_us", (uint64_t)shard->slowest_us);
    buffer_append_byte(out, '}');
}

void redis_fsck_emit_json(struct buffer *out, const struct redis_fsck_report *report)
{
    buffer_append_byte(out, '{');
    json_write_member_bool(out, "clean", is_clean(report));
    if (*report->error)
        json_write_member_text(out, "error", slice_of(report->error));
    json_write_member_number(out, "finding_count", report->finding_count);
    json_write_member_number(out, "mended", report->mended);
    json_write_member(out, "findings");
    buffer_append_byte(out, '[');
    for (uint32_t i = 0; i < report->finding_kept; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_finding_json(out, &report->finding[i]);
    }
    buffer_append_byte(out, ']');
    json_write_member(out, "shards");
    buffer_append_byte(out, '[');
    for (uint32_t i = 0; i < report->shards; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_shard_json(out, i, &report->shard[i]);
    }
    buffer_append_text(out, "]}\n");
}
