// Finished jobs: how they ended, their results, and a copy that is pushed again.
import { bytesOf, textOf } from "./body.js";
import { field, formDialog } from "./dialog.js";
import { bdi, el } from "./dom.js";
import { bytes as sizeOf, duration, moment, timeOf } from "./format.js";
import { icon } from "./icons.js";
import { jsonCheck } from "./json_check.js";
import { notice } from "./notice.js";
import { dueFields, metaFields, put } from "./push.js";
import { href } from "./router.js";
import { t } from "./words.js";

const PREVIEW = 120; // characters of a result in a list
const SHAPES = { acked: "done", cancelled: "dead", expired: "delayed" };

/** How a job ended, as a word with its shape. @param {any} job */
export const outcomeBadge = (job) => el("span", { class: `badge ${job.outcome === "acked" ? "done" : "ended"}` }, icon(SHAPES[job.outcome] ?? "done"), t(`ended.${job.outcome}`));

/** The beginning of a result that is text or JSON; of others their size and type. @param {any} job @returns {any} */
export function resultLine(job) {
    if (!job.result_bytes) return "\u2014";
    const text = job.result === undefined ? null : typeof job.result === "string" ? job.result : JSON.stringify(job.result);
    if (text === null) return el("span", { class: "help" }, sizeOf(job.result_bytes), job.result_type ? [", ", bdi(job.result_type)] : null);
    return bdi(text.length > PREVIEW ? `${text.slice(0, PREVIEW)}\u2026` : text, { class: "mono" });
}

/** The bytes of the result of a job that was read with body=base64, or null. @param {any} job */
export const resultOf = (job) => (job.result_base64 === undefined ? null : bytesOf(job.result_base64));

/** Describes how a job ended. @param {any} job */
export const ended = (job) => el("p", {}, outcomeBadge(job), " ", timeOf(job.finished_at), " ", el("span", { class: "help" }, timeOf(job.finished_at, { isRelative: true }), job.duration_ms ? [" \u00b7 ", t("line.took", { d: duration(job.duration_ms) })] : null));

/** Pushes a kept body again under another id. @param {string} topic @param {any} job @param {Uint8Array} body */
export function pushCopy(topic, job, body) {
    const text = textOf(body), id = el("input", { type: "text", id: "copy-id", maxlength: 128, autocomplete: "off", spellcheck: "false", value: `${job.id}-copy`.slice(0, 128) });
    const area = el("textarea", { id: "copy-body", class: "mono", rows: "10", spellcheck: "false", value: text ?? "" });
    const type = el("input", { type: "text", id: "copy-type", value: job.content_type ?? "" });
    const due = dueFields(), meta = metaFields(job.meta), json = jsonCheck();
    return formDialog({
        title: t("copy.title", { id: job.id }), action: t("push.do"), isWide: true,
        body: [el("div", { class: "fields two" }, field(t("job.id"), id), field(t("job.type"), type)), due.node, text === null ? el("p", { class: "help" }, t("copy.binary", { n: sizeOf(body.length) })) : [field(t("job.body"), area), json.node], meta.node],
        send: async (signal) => {
            if (text !== null) json.check(type.value, area.value);
            const pushed = await put(topic, id.value.trim(), { body: text === null ? /** @type {any} */ (body) : area.value, type: type.value || "application/octet-stream", query: due.query(), pairs: meta.pairs(), signal });
            notice(t("push.done", { id: pushed.id, when: moment(pushed.due_at) }));
            location.hash = href(["topics", topic, "jobs", pushed.id]);
        },
    });
}
