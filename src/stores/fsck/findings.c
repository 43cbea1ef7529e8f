/* Findings: recorded while a shard is examined; and the report, as text and as one JSON object. */
#include "base/json_write.h"
#include "fsck/exam.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- recording ---- */

void fsck_find(struct fsck_exam *exam, struct fsck_where where, enum fsck_cure cure,
               const char *format, ...)
{
    struct fsck_report *report = exam->report;
    struct fsck_finding *finding;
    va_list args;

    exam->has_unread |= exam->reading.error != 0;
    exam->found[cure]++;
    if (report->finding_count++ >= FSCK_FINDINGS_MAX)
        return;
    finding = &report->finding[report->finding_count - 1];
    *finding = (struct fsck_finding){.shard = exam->shard,
                                     .at = where.at,
                                     .slot = where.slot,
                                     .has_slot = where.slot != FSCK_NO_SLOT,
                                     .cure = cure,
                                     .is_unread = exam->reading.error != 0};
    if (where.file)
        snprintf(finding->file, sizeof finding->file, "%s", where.file);
    va_start(args, format);
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

void fsck_note(struct fsck_exam *exam, const char *format, ...)
{
    struct fsck_report *report = exam->report;
    struct fsck_note *note;
    va_list args;

    if (report->note_count++ >= FSCK_NOTES_MAX)
        return;
    note = &report->note[report->note_count - 1];
    note->shard = exam->shard;
    va_start(args, format);
    vsnprintf(note->text, sizeof note->text, format, args);
    va_end(args);
}

void fsck_advance(struct fsck_exam *exam, uint64_t records)
{
    exam->done += records;
    if (exam->options->progress)
        exam->options->progress(exam->options->ctx, exam->done, exam->total);
}

/* ---- as text ---- */

/* Appends "1 batch", "2 batches": a number with its noun. */
static void emit_count(struct buffer *out, uint64_t count, const char *one, const char *many)
{
    buffer_append_format(out, "%" PRIu64 " %s", count, count == 1 ? one : many);
}

static void emit_shard(struct buffer *out, uint32_t number, const struct fsck_shard *shard)
{
    if (shard->files == 0) {
        buffer_append_format(out, "shard %02" PRIu32 ": no log yet\n", number);
        return;
    }
    buffer_append_format(out, "shard %02" PRIu32 ": ", number);
    emit_count(out, shard->files, "log file", "log files");
    buffer_append_format(out, " from %" PRIu32 ", ", shard->first_file);
    emit_count(out, shard->batches, "batch, ", "batches, ");
    emit_count(out, shard->records, "record, ", "records, ");
    emit_count(out, shard->bytes, "byte\n", "bytes\n");
    buffer_append_format(out, "shard %02" PRIu32 ": ", number);
    emit_count(out, shard->topics, "topic", "topics");
    buffer_append_format(
        out, "; jobs: %" PRIu64 " delayed or ready, %" PRIu64 " leased, %" PRIu64 " dead\n",
        shard->delayed, shard->leased, shard->dead);
    if (shard->generation) {
        buffer_append_format(out, "shard %02" PRIu32 ": catalog %" PRIu64 ", ", number,
                             shard->generation);
        emit_count(out, shard->runs, "run, ", "runs, ");
        emit_count(out, shard->tables, "table of keys; in runs: ", "tables of keys; in runs: ");
        emit_count(out, shard->cold, "job, ", "jobs, ");
        if (shard->finished)
            emit_count(out, shard->finished, "finished job, ", "finished jobs, ");
        emit_count(out, shard->remembered, "remembered id\n", "remembered ids\n");
    }
    if (shard->torn_bytes)
        buffer_append_format(
            out,
            "shard %02" PRIu32 ": %" PRIu64
            " bytes of a half-written tail, as a crash leaves it; the next start overwrites it\n",
            number, shard->torn_bytes);
    if (shard->manifest_copies_bad)
        buffer_append_format(out,
                             "shard %02" PRIu32 ": one of the two copies of the log's MANIFEST is "
                             "half-written; the other one is used\n",
                             number);
}

static const char *advice(const struct fsck_finding *finding)
{
    static const char *const cures[] = {
        [FSCK_RESTORE] = "restore a backup, or save what can be read with 'tarry fsck --salvage'",
        [FSCK_REPAIR] = "'tarry fsck --repair' repairs it",
        [FSCK_SALVAGE] = "restore a backup, or save the rest with 'tarry fsck --salvage'",
    };

    if (finding->is_mended)
        return "repaired";
    if (finding->is_unread)
        return "the disk failed: repair it, or copy the directory to another disk, and check again";
    return cures[finding->cure];
}

static void emit_finding(struct buffer *out, const struct fsck_finding *finding)
{
    if (finding->is_of_directory)
        buffer_append_text(out, "directory");
    else
        buffer_append_format(out, "shard %02" PRIu32, finding->shard);
    if (finding->file[0])
        buffer_append_format(out, ", %s", finding->file);
    if (finding->at)
        buffer_append_format(out, ", byte %" PRIu64, finding->at);
    if (finding->has_slot)
        buffer_append_format(out, ", slot %" PRIu32, finding->slot);
    buffer_append_format(out, ": %s; %s\n", finding->text, advice(finding));
}

static void emit_kept(struct buffer *out, const struct fsck_report *report)
{
    for (size_t i = 0; i < report->kept_count; i++) {
        buffer_append_format(out, "saved of topic '%s': ", report->kept[i].topic);
        emit_count(out, report->kept[i].jobs, "job, ", "jobs, ");
        emit_count(out, report->kept[i].remembered, "remembered id\n", "remembered ids\n");
    }
    buffer_append_text(out, "saved ");
    emit_count(out, report->kept_jobs, "job and ", "jobs and ");
    emit_count(out, report->kept_remembered, "remembered id of ", "remembered ids of ");
    emit_count(out, report->kept_count, "topic\n", "topics\n");
}

void fsck_emit_text(struct buffer *out, const struct fsck_report *report)
{
    if (*report->error) {
        buffer_append_format(out, "%s\n", report->error);
        return;
    }
    for (uint32_t i = 0; i < report->shards; i++)
        emit_shard(out, i, &report->shard[i]);
    for (uint64_t i = 0; i < report->note_count && i < FSCK_NOTES_MAX; i++)
        buffer_append_format(out, "shard %02" PRIu32 ": %s\n", report->note[i].shard,
                             report->note[i].text);
    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++)
        emit_finding(out, &report->finding[i]);
    if (report->is_salvaged)
        emit_kept(out, report);
    if (report->finding_count == 0) {
        buffer_append_text(out, "clean\n");
        return;
    }
    buffer_append_format(out, "%" PRIu64 " finding%s", report->finding_count,
                         report->finding_count == 1 ? "" : "s");
    if (report->mended)
        buffer_append_format(out, ", %" PRIu64 " repaired", report->mended);
    buffer_append_text(out, "\n");
}

/* ---- as JSON ---- */

static void emit_shard_json(struct buffer *out, uint32_t index, const struct fsck_shard *shard)
{
    buffer_append_byte(out, '{');
    json_write_member_number(out, "shard", index);
    json_write_member_number(out, "first_file", shard->first_file);
    json_write_member_number(out, "files", shard->files);
    json_write_member_number(out, "manifest_copies_bad", shard->manifest_copies_bad);
    json_write_member_number(out, "batches", shard->batches);
    json_write_member_number(out, "records", shard->records);
    json_write_member_number(out, "bytes", shard->bytes);
    json_write_member_number(out, "torn_bytes", shard->torn_bytes);
    json_write_member_number(out, "topics", shard->topics);
    json_write_member_number(out, "delayed", shard->delayed);
    json_write_member_number(out, "leased", shard->leased);
    json_write_member_number(out, "dead", shard->dead);
    json_write_member_number(out, "generation", shard->generation);
    json_write_member_number(out, "runs", shard->runs);
    json_write_member_number(out, "tables", shard->tables);
    json_write_member_number(out, "far", shard->cold);
    json_write_member_number(out, "remembered", shard->remembered);
    json_write_member_number(out, "finished", shard->finished);
    buffer_append_byte(out, '}');
}

static void emit_finding_json(struct buffer *out, const struct fsck_finding *finding)
{
    buffer_append_byte(out, '{');
    if (!finding->is_of_directory)
        json_write_member_number(out, "shard", finding->shard);
    if (finding->file[0]) {
        json_write_member_text(out, "file", slice_of(finding->file));
        json_write_member_number(out, "at", finding->at);
    }
    if (finding->has_slot)
        json_write_member_number(out, "slot", finding->slot);
    json_write_member_text(out, "cure",
                           slice_of(finding->is_unread              ? "read_again"
                                    : finding->cure == FSCK_REPAIR  ? "repair"
                                    : finding->cure == FSCK_SALVAGE ? "salvage"
                                                                    : "restore"));
    json_write_member_bool(out, "mended", finding->is_mended);
    json_write_member_text(out, "text", slice_of(finding->text));
    buffer_append_byte(out, '}');
}

static void emit_kept_json(struct buffer *out, const struct fsck_report *report)
{
    json_write_member(out, "saved");
    buffer_append_byte(out, '{');
    json_write_member_number(out, "jobs", report->kept_jobs);
    json_write_member_number(out, "remembered", report->kept_remembered);
    json_write_member(out, "topics");
    buffer_append_byte(out, '[');
    for (size_t i = 0; i < report->kept_count; i++) {
        buffer_append_text(out, i ? ",{" : "{");
        json_write_member_text(out, "topic", slice_of(report->kept[i].topic));
        json_write_member_number(out, "jobs", report->kept[i].jobs);
        json_write_member_number(out, "remembered", report->kept[i].remembered);
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "]}");
}

void fsck_emit_json(struct buffer *out, const struct fsck_report *report)
{
    buffer_append_byte(out, '{');
    json_write_member_bool(out, "clean", !report->finding_count && !*report->error);
    if (*report->error)
        json_write_member_text(out, "error", slice_of(report->error));
    json_write_member_number(out, "finding_count", report->finding_count);
    json_write_member_number(out, "mended", report->mended);
    if (report->is_salvaged)
        emit_kept_json(out, report);
    json_write_member(out, "findings");
    buffer_append_byte(out, '[');
    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_finding_json(out, &report->finding[i]);
    }
    buffer_append_text(out, "]");
    json_write_member(out, "notes");
    buffer_append_byte(out, '[');
    for (uint64_t i = 0; i < report->note_count && i < FSCK_NOTES_MAX; i++) {
        buffer_append_text(out, i ? ",{" : "{");
        json_write_member_number(out, "shard", report->note[i].shard);
        json_write_member_text(out, "text", slice_of(report->note[i].text));
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "]");
    json_write_member(out, "shards");
    buffer_append_byte(out, '[');
    for (uint32_t i = 0; i < report->shards; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_shard_json(out, i, &report->shard[i]);
    }
    buffer_append_text(out, "]}\n");
}
