// Where to look further: the trace of a job, and the lines of the log and the audit that name it.
import { get } from "./api.js";
import { app } from "./app.js";
import { bdi, el, fill } from "./dom.js";
import { moment, timeOf } from "./format.js";
import { notice } from "./notice.js";
import { lacks } from "./session.js";
import { t } from "./words.js";

const LINES = 1000, SHOWN = 20;

/** The trace id of a traceparent, or "". @param {string} [traceparent] */
export const traceOf = (traceparent = "") => traceparent.match(/^[0-9a-f]{2}-([0-9a-f]{32})-/)?.[1] ?? "";

/** The page of a trace at the tracer of the server, or null. @param {string} trace */
export const traceHref = (trace) => (/^[0-9a-f]{32}$/.test(trace) && /^https?:\/\//i.test(app.info?.trace_url ?? "") ? app.info.trace_url.replaceAll("{trace_id}", trace) : null);

/** Lines of the server's log that name the topic and, if it is given, the job; the newest first. @param {string} topic @param {string|null} job @param {AbortSignal} signal */
export async function linesOf(topic, job, signal) {
    const log = await get("v1/log", { limit: LINES }, signal);
    return log.lines.filter(({ fields = {} }) => fields.topic === topic && (job === null || fields.job === job || fields.id === job)).reverse();
}

const lineOf = ({ at, event, fields }) => el("li", {}, el("time", { datetime: at }, moment(at)), " ", el("strong", {}, bdi(fields?.action ?? event)), " ", fields?.caller ? bdi(fields.caller) : null, " ",
    el("span", { class: "help" }, bdi(Object.entries(fields ?? {}).filter(([name]) => !["action", "caller", "topic", "job", "id", "kind"].includes(name)).map(([name, value]) => `${name}=${value}`).join(" "))));

/** Shows who changed the settings of a topic last, as far as the log of the server goes back. @param {string} topic @param {AbortSignal} signal @param {RegExp} [about] the details of changes that count */
export function lastChange(topic, signal, about = /^/) {
    const node = el("p", { class: "help", id: "last-change" });
    // The log is for users who may read all topics.
    if (!lacks("read")) linesOf(topic, null, signal).catch(() => []).then((lines) => {
        const last = lines.find(({ fields }) => fields?.action === "topic settings changed" && fields.outcome === "ok" && about.test(fields.detail ?? ""));
        fill(node, last ? [t("settings.last"), " ", timeOf(last.at, { isRelative: true }), " ", t("settings.lastBy"), " ", bdi(last.fields.caller ?? "?"), last.fields.peer ? [" (", bdi(last.fields.peer), ")"] : null, last.fields.detail ? [": ", bdi(last.fields.detail)] : null] : t("settings.lastUnknown"));
    });
    return node;
}

/** @param {string} topic @param {any} job @param {AbortSignal} signal */
export function originCard(topic, job, signal) {
    const trace = traceOf(job.meta?.traceparent), lines = el("div", {}), isReadable = !lacks("read");
    async function look() {
        try {
            const found = await linesOf(topic, job.id, signal);
            fill(lines, found.length ? el("ul", { class: "log-lines" }, found.slice(0, SHOWN).map(lineOf)) : el("p", { class: "help" }, t("origin.none")));
        } catch (fault) {
            if (!signal.aborted) fill(lines, el("p", { class: "help" }, fault.message));
        }
    }
    const fold = el("details", { class: "fold", id: "audit", on: { toggle: () => fold.open && look() } }, el("summary", {}, t("origin.audit")), lines);
    return el("section", { class: "card", "aria-labelledby": "origin-title" }, el("div", { class: "card-head" }, el("h2", { id: "origin-title" }, t("origin.title"))), el("div", { class: "card-body" },
        el("dl", { class: "facts" }, el("div", {}, el("dt", {}, t("origin.trace")), el("dd", { class: "mono", id: "trace-id" }, trace ? [traceHref(trace) ? el("a", { href: traceHref(trace), target: "_blank", rel: "noopener noreferrer" }, bdi(trace)) : bdi(trace), " ", el("button", { type: "button", class: "plain", on: { click: async () => {
            await navigator.clipboard?.writeText(trace).catch(() => null);
            notice(t("curl.copied"));
        } } }, t("curl.copy"))] : "\u2014"))),
        isReadable ? fold : el("p", { class: "help" }, lacks("read"))));
}
