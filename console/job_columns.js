// The columns of a list of jobs, by the state that is listed.
import { isWaiting } from "./batch.js";
import { bdi, el, seen } from "./dom.js";
import { outcomeBadge, resultLine } from "./finished.js";
import { duration, number, timeOf } from "./format.js";
import { progressOf } from "./progress.js";
import { href } from "./router.js";
import { badge, stateOf } from "./state.js";
import { t } from "./words.js";

/** When the last attempt of a dead job ended; "" if its history does not have it. */
const diedAt = (job) => job.history?.at(-1)?.at ?? "";

/** The member of a JSON body at a path such as order.lines.0.sku, as text. @param {any} job @param {string} field */
export function bodyField(job, field) {
    let value = job.body;
    for (const name of field.split(".")) value = value !== null && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
    return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

/** A moment, and how far away it is. @param {string|null|undefined} at */
const when = (at) => (at ? [timeOf(at), " ", el("span", { class: "help" }, timeOf(at, { isRelative: true }))] : "\u2014");

const holder = (job) => (job.consumer ? bdi(job.consumer) : el("span", { class: "none" }, t("jobs.unnamed")));

function about(job, isLeasedList) {
    const meta = Object.entries(job.meta ?? {});
    return [
        job.state === "leased" && !isLeasedList ? el("span", { class: "meta-line" }, t("jobs.heldBy"), " ", holder(job), ", ", t("jobs.leaseUntil"), " ", timeOf(job.lease_until, { isRelative: true })) : null,
        job.state === "leased" ? progressOf(job) : null,
        job.last_error && el("span", { class: "error-line", title: seen(job.last_error) }, bdi(job.last_error)),
        meta.length ? el("span", { class: "meta-line" }, meta.slice(0, 4).map(([name, value]) => [bdi(`${name}: ${value}`), " "]), meta.length > 4 ? "\u2026" : "") : null,
    ];
}

const attemptColumn = { word: "job.attempt", kind: "n", key: (job) => job.attempt, cell: (job) => (job.max_attempts ? `${job.attempt}/${job.max_attempts}` : number(job.attempt)) };

/** @type {Column[]} */
const FINISHED = [
    { word: "job.outcome", key: (job) => job.outcome, cell: outcomeBadge },
    { word: "job.finishedAt", key: (job) => job.finished_at, cell: (job) => when(job.finished_at) },
    { word: "job.took", kind: "n", key: (job) => job.duration_ms ?? 0, cell: (job) => (job.duration_ms ? duration(job.duration_ms) : "\u2014") },
    attemptColumn,
    { word: "job.holder", key: (job) => job.consumer ?? "", cell: (job) => (job.consumer ? bdi(job.consumer) : "\u2014") },
    { word: "job.result", kind: "result", key: (job) => job.result_bytes ?? 0, cell: resultLine },
    { word: "meta.title", kind: "about", cell: (job) => about(job, false) },
];

/**
 * @typedef {{word: string, kind?: string, label?: string, key?: (job: any) => any, cell: (job: any) => any}} Column `key`: by what the column can be sorted
 * @param {string} state the state that is listed, "" for all @param {string} [field] a member of the body @returns {Column[]} without the id, which is the head of each row
 */
export function columnsOf(state, field = "") {
    const isLeased = state === "leased";
    if (state === "finished") return FINISHED;
    return [
        { word: "job.state", cell: (job) => badge(stateOf(job)) },
        isLeased ? { word: "job.leaseUntil", key: (job) => job.lease_until, cell: (job) => when(job.lease_until) }
            : state === "dead" ? { word: "job.diedAt", key: diedAt, cell: (job) => when(diedAt(job)) } : { word: "job.due", key: (job) => job.due_at ?? "", cell: (job) => (isWaiting(job) ? t("batch.waitsFor", { n: job.waits_for }) : when(job.due_at)) },
        ...(isLeased ? [{ word: "job.holder", key: (job) => job.consumer ?? "", cell: holder }] : []),
        attemptColumn,
        { word: "job.priority", kind: "n", key: (job) => job.priority, cell: (job) => (job.priority === undefined ? "\u2014" : number(job.priority)) },
        ...(field ? [{ word: "job.field", label: field, kind: "field", key: (job) => bodyField(job, field), cell: (job) => bdi(bodyField(job, field) || "\u2014") }] : []),
        { word: "jobs.about", kind: "about", key: (job) => job.last_error ?? "", cell: (job) => about(job, isLeased) },
    ];
}

const ID = { word: "job.id", kind: "", key: (job) => job.id };

/** The heads of the columns. @param {Column[]} columns @param {{word: string, isUp: boolean}} order @param {(word: string) => void} sort */
export const headsOf = (columns, order, sort) => [ID, ...columns].map(({ word, kind, key, label }) => el("th", { scope: "col", role: "columnheader", class: kind === "n" ? "n" : "", "aria-sort": word !== order.word ? null : order.isUp ? "ascending" : "descending" },
    key ? el("button", { type: "button", class: "sort", "data-sort": word, on: { click: () => sort(word) } }, label ? bdi(label) : t(word)) : t(word)));

/** Sorts jobs by a column. @param {any[]} jobs @param {Column[]} columns @param {{word: string, isUp: boolean}} order */
export function sortJobs(jobs, columns, { word, isUp }) {
    const key = [ID, ...columns].find((column) => column.word === word)?.key;
    return key ? [...jobs].sort((a, b) => {
        const x = key(a), y = key(b);
        return (x < y ? -1 : x > y ? 1 : 0) * (isUp ? 1 : -1);
    }) : jobs;
}

/** The cells of a job. @param {string} topic @param {any} job @param {Column[]} columns */
export function cellsOf(topic, job, columns) {
    return [
        el("th", { scope: "row", role: "rowheader", class: "id" }, el("a", { class: "mono", href: href(["topics", topic, "jobs", job.id]) }, bdi(job.id))),
        columns.map(({ word, kind = "", label, cell }) => el("td", { role: "cell", class: kind || null, "data-label": word === "job.state" || kind === "about" ? null : label ?? t(word) }, cell(job))),
    ];
}
