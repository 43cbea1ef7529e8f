// The columns of a list of jobs, by the state that is listed.
import { bdi, el, seen } from "./dom.js";
import { number, timeOf } from "./format.js";
import { href } from "./router.js";
import { badge, stateOf } from "./state.js";
import { t } from "./words.js";

/** A moment, and how far away it is. @param {string|null|undefined} at */
const when = (at) => (at ? [timeOf(at), " ", el("span", { class: "help" }, timeOf(at, { isRelative: true }))] : "\u2014");

const holder = (job) => (job.consumer ? bdi(job.consumer) : el("span", { class: "none" }, t("jobs.unnamed")));

function about(job, isLeasedList) {
    const meta = Object.entries(job.meta ?? {});
    return [
        job.state === "leased" && !isLeasedList ? el("span", { class: "meta-line" }, t("jobs.heldBy"), " ", holder(job), ", ", t("jobs.leaseUntil"), " ", timeOf(job.lease_until, { isRelative: true })) : null,
        job.last_error && el("span", { class: "error-line", title: seen(job.last_error) }, bdi(job.last_error)),
        meta.length ? el("span", { class: "meta-line" }, meta.slice(0, 4).map(([name, value]) => [bdi(`${name}: ${value}`), " "]), meta.length > 4 ? "\u2026" : "") : null,
    ];
}

/**
 * @typedef {{word: string, kind?: string, cell: (job: any) => any}} Column
 * @param {string} state the state that is listed, "" for all @returns {Column[]} without the id, which is the head of each row
 */
export function columnsOf(state) {
    const isLeased = state === "leased";
    return [
        { word: "job.state", cell: (job) => badge(stateOf(job)) },
        isLeased ? { word: "job.leaseUntil", cell: (job) => when(job.lease_until) } : { word: "job.due", cell: (job) => when(job.due_at) },
        ...(isLeased ? [{ word: "job.holder", cell: holder }] : []),
        { word: "job.attempt", kind: "n", cell: (job) => (job.max_attempts ? `${job.attempt}/${job.max_attempts}` : number(job.attempt)) },
        { word: "job.priority", kind: "n", cell: (job) => number(job.priority) },
        { word: "jobs.about", kind: "about", cell: (job) => about(job, isLeased) },
    ];
}

/** The heads of the columns. @param {Column[]} columns */
export const headsOf = (columns) => [{ word: "job.id", kind: "" }, ...columns].map(({ word, kind }) => el("th", { scope: "col", role: "columnheader", class: kind === "n" ? "n" : "" }, t(word)));

/** The cells of a job. @param {string} topic @param {any} job @param {Column[]} columns */
export function cellsOf(topic, job, columns) {
    return [
        el("th", { scope: "row", role: "rowheader", class: "id" }, el("a", { class: "mono", href: href(["topics", topic, "jobs", job.id]) }, bdi(job.id))),
        columns.map(({ word, kind = "", cell }) => el("td", { role: "cell", class: kind || null, "data-label": word === "job.state" || kind === "about" ? null : t(word) }, cell(job))),
    ];
}
