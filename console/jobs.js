// The jobs of a topic: by state, in pages, searched by id, meta and error; some or all of the jobs found are changed together.
import { get, path } from "./api.js";
import { bulk } from "./bulk.js";
import { button, scoped } from "./button.js";
import { el, fill, mark, setText } from "./dom.js";
import { field as formField } from "./dialog.js";
import { number } from "./format.js";
import { cellsOf, columnsOf, headsOf, sortJobs } from "./job_columns.js";
import { reason } from "./notice.js";
import { note } from "./router.js";
import { STATES } from "./state.js";
import { purge } from "./topic_actions.js";
import { noTopic, topicHead, topicOf } from "./topic_head.js";
import { changeWaiting, isByFilter } from "./waiting.js";
import { t } from "./words.js";

const PAGE = 50, SORTED = 1000, SORTED_BODIES = 200; // jobs that are read to be sorted
const FILTERS = ["state", "id_prefix", "meta", "error"];

/** The number of jobs in all states, without the finished ones. */
const allOf = (counts) => STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);

/** @param {{topic: string, query: URLSearchParams, node: Element, signal: AbortSignal}} page */
export async function show({ topic, query, node, signal }) {
    let known = await topicOf(topic, signal);
    const again = async () => {
        known = await topicOf(topic, signal);
        head.update(known);
        drawStates();
        await load();
    };
    const head = topicHead(topic, "jobs", known, again);
    if (!known) {
        fill(node, head.node, noTopic(topic, () => location.reload()));
        return topic;
    }

    /** The search. @type {Record<string, string>} */
    const search = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
    let field = query.get("field") ?? "", order = { word: "", isUp: true };
    const isRetrying = () => search.state === "retrying", isFinished = () => search.state === "finished";
    /** The search as the server knows it: jobs that wait for a retry are delayed, and finished ones have no error. */
    const asked = () => ({ ...search, state: isRetrying() ? "delayed" : search.state, error: isFinished() ? "" : search.error });
    let cursor = "", before = [], same = null, chosen = new Set(), end = new AbortController();

    /* ---- states and the search ---- */

    const states = el("div", { class: "choice states-choice", role: "group", "aria-label": t("jobs.state") });
    function drawStates() {
        const { counts } = known ?? { counts: {} };
        const of = { "": allOf(counts), delayed: counts.delayed + counts.retrying, retrying: counts.retrying, ready: counts.ready, leased: counts.leased, dead: counts.dead, finished: counts.finished };
        errorField.hidden = isFinished();
        fill(states, Object.entries(of).map(([state, count]) => el("button", { type: "button", "aria-pressed": String(search.state === state), "data-state": state || "all", on: { click: () => {
            search.state = state;
            drawStates();
            /** @type {any} */ (states.querySelector('[aria-pressed="true"]')).focus();
            begin();
        } } }, state ? t(`state.${state}`) : t("jobs.all"), el("span", { class: "choice-count" }, number(count ?? 0)))));
    }
    const inputs = {
        id_prefix: el("input", { type: "search", id: "search-id", value: search.id_prefix, autocomplete: "off", spellcheck: "false" }),
        meta: el("input", { type: "search", id: "search-meta", value: search.meta, placeholder: "customer:c-17", autocomplete: "off", spellcheck: "false" }),
        error: el("input", { type: "search", id: "search-error", value: search.error, autocomplete: "off", spellcheck: "false" }),
    };
    const errorField = formField(t("search.error"), inputs.error);
    const fieldInput = el("input", { type: "text", id: "search-field", value: field, placeholder: "order.id", autocomplete: "off", spellcheck: "false" });
    const form = el("form", { class: "search", role: "search", "aria-label": t("jobs.search"), on: { submit: (event) => {
        event.preventDefault();
        for (const [name, input] of Object.entries(inputs)) search[name] = input.value.trim();
        field = fieldInput.value.trim();
        begin();
    } } },
        formField(t("search.id"), inputs.id_prefix), formField(t("search.meta"), inputs.meta), errorField, formField(t("search.field"), fieldInput),
        el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, t("search.do")), button(t("search.clear"), () => {
            for (const [name, input] of Object.entries(inputs)) search[name] = input.value = "";
            field = fieldInput.value = "";
            begin();
        })));

    /* ---- what was found ---- */

    let columns = columnsOf(search.state);
    const body = el("tbody", { role: "rowgroup" }), heads = el("tr", { role: "row" }), status = el("p", { class: "help", role: "status", id: "jobs-status" }), pager = el("div", { class: "row pager" });
    const all = el("input", { type: "checkbox", "aria-label": t("jobs.chooseAll"), on: { change: () => {
        for (const box of body.querySelectorAll("input[type=checkbox]")) {
            box.checked = all.checked;
            if (all.checked) chosen.add(box.value);
            else chosen.delete(box.value);
        }
        drawBulk();
    } } });

    function row(job) {
        const box = el("input", { type: "checkbox", value: job.id, "aria-label": t("jobs.choose", { id: job.id }), on: { change: () => {
            if (box.checked) chosen.add(job.id);
            else chosen.delete(job.id);
            drawBulk();
        } } });
        return el("tr", { role: "row" }, el("td", { role: "cell", class: "tick" }, box), cellsOf(topic, job, columns));
    }

    const isSearch = () => isRetrying() || FILTERS.some((name) => name !== "state" && asked()[name]);
    /** Results are small, but the bodies that a topic keeps may be large, and a search would read those of all jobs. */
    const wantsBodies = () => Boolean(field) || (isFinished() && !known.settings.keep_body && !isSearch());

    /** The number of jobs in the state that is listed. */
    function listed() {
        const { counts } = known;
        return search.state === "delayed" || isRetrying() ? counts.delayed + counts.retrying : search.state ? counts[search.state] ?? 0 : allOf(counts);
    }

    /** The job whose id is the whole text of the search, without reading the others; null if it does not exist. */
    async function exactJob(end) {
        const job = await get(path("v1", "topics", topic, "jobs", search.id_prefix), { body: String(wantsBodies()) }, end).catch((fault) => {
            if ([400, 404].includes(fault.status)) return null;
            throw fault;
        });
        return job && (!search.state || job.state === asked().state) && (!isRetrying() || job.attempt > 0) ? job : null;
    }

    /** Loads one page; repeats the request while the server searches through many jobs to find few. */
    async function load() {
        end.abort();
        end = new AbortController();
        const mine = AbortSignal.any([end.signal, signal]);
        const found = [];
        let looked = 0, pages = 0, next = cursor;
        mark(body, "aria-busy", "true");
        const stop = end, total = listed(), most = order.word ? (wantsBodies() ? SORTED_BODIES : SORTED) : PAGE;
        const { words, body: bodies } = { words: asked(), body: wantsBodies() ? "true" : "" };
        const bar = el("progress", { max: Math.max(1, total), value: 0, "aria-label": t("bulk.progress"), id: "jobs-progress" });
        fill(pager, button(t("do.stop"), () => stop.abort()), isSearch() ? bar : null);
        try {
            if (!cursor) same = search.id_prefix && !search.meta && !search.error ? await exactJob(mine) : null;
            if (same && !cursor) found.push(same);
            do {
                const answer = await get(path("v1", "topics", topic, "jobs"), { ...words, body: bodies, limit: isRetrying() ? Math.min(1000, most << pages++) : most - found.length, cursor: next }, mine);
                found.push(...answer.jobs.filter((job) => job.id !== same?.id && (!isRetrying() || job.attempt > 0)));
                looked += answer.seen ?? answer.jobs.length;
                next = answer.cursor;
                bar.value = looked;
                setText(status, next && found.length < most ? t("jobs.scanning", { n: found.length, seen: looked, of: Math.max(total, looked) }) : t("jobs.looked", { n: found.length, seen: looked }));
            } while (next && found.length < most);
        } catch (fault) {
            if (signal.aborted || stop !== end) return; // another search has begun
            setText(status, mine.aborted ? t("jobs.stopped", { n: found.length, seen: looked }) : reason(fault));
        }
        if (signal.aborted || stop !== end) return;
        mark(body, "aria-busy", null);
        chosen = new Set([...chosen].filter((id) => found.some((job) => job.id === id)));
        all.checked = false;
        columns = columnsOf(search.state, field);
        fill(heads, el("th", { scope: "col", role: "columnheader", class: "tick" }, all), headsOf(columns, order, sort));
        fill(body, sortJobs(found, columns, order).map(row));
        if (order.word) setText(status, t("jobs.sorted", { n: found.length }));
        if (!found.length) fill(body, el("tr", { role: "row" }, el("td", { colspan: columns.length + 2, role: "cell", class: "none" }, t(isSearch() ? "jobs.noneFound" : isFinished() && !known.settings.keep_finished ? "jobs.noneKept" : search.state ? "jobs.noneFound" : "jobs.none"))));
        fill(pager,
            button(t("page.before"), () => {
                cursor = before.pop() ?? "";
                load();
            }, { why: before.length ? "" : t("page.isFirst"), data: "before" }),
            button(t("page.next"), () => {
                before.push(cursor);
                cursor = next;
                load();
            }, { why: next ? "" : t("page.isLast"), data: "next" }),
            el("span", { class: "help" }, t("page.number", { n: before.length + 1 })));
        drawBulk();
    }

    /** Sorts by a column, then the other way round, then as the server lists. @param {string} word */
    function sort(word) {
        order = order.word !== word ? { word, isUp: true } : order.isUp ? { word, isUp: false } : { word: "", isUp: true };
        cursor = "";
        before = [];
        load().then(() => /** @type {any} */ (heads.querySelector(`[data-sort="${word}"]`))?.focus());
    }

    function begin() {
        cursor = "";
        before = [];
        chosen.clear();
        if (!columnsOf(search.state, field).some(({ word }) => word === order.word) && order.word !== "job.id") order = { word: "", isUp: true };
        note(["topics", topic, "jobs"], { ...search, field });
        load();
    }

    /* ---- changes to many ---- */

    const bar = el("div", { class: "row bulk", role: "group", "aria-label": t("bulk.title") });
    function drawBulk() {
        const words = chosen.size ? t("bulk.chosen", { n: chosen.size }) : t("bulk.all");
        const run = (verb) => async () => {
            const isAll = !chosen.size, isChanged = isAll && isByFilter(verb, search) ? changeWaiting(topic, verb, search) : bulk(topic, verb, isAll ? { search: asked(), isRetrying: isRetrying() } : { ids: [...chosen] });
            if (await isChanged) await again();
        };
        // Only what can be done with jobs of the listed state; cancel is last, since it cannot be undone.
        const { state } = search, waits = ["", "delayed", "retrying", "ready"].includes(state);
        if (isFinished()) return fill(bar, el("span", { class: "bulk-what" }, t("bulk.ended")), scoped(t("purge.button"), "admin", topic, async () => {
            if (await purge(topic, { state })) await again();
        }, { kind: "danger" }));
        fill(bar, el("span", { class: "bulk-what" }, state === "leased" ? t("bulk.noAction") : words),
            waits && state !== "ready" ? scoped(t("bulk.run"), "push", topic, run("run")) : null,
            waits ? scoped(t("bulk.reschedule"), "push", topic, run("reschedule")) : null,
            state === "dead" ? scoped(t("bulk.redrive"), "admin", topic, run("redrive"), { kind: "primary" }) : null,
            state === "leased" ? null : scoped(t("bulk.cancel"), "push", topic, run("cancel"), { kind: "danger" }));
    }

    fill(node, head.node, states, form,
        el("section", { class: "card", "aria-labelledby": "jobs-title" },
            el("div", { class: "card-head" }, el("h2", { id: "jobs-title" }, t("jobs.title")), status, button(t("do.refresh"), again)),
            el("div", { class: "card-body flush" }, bar,
                el("table", { class: "jobs", role: "table", "aria-labelledby": "jobs-title" },
                    el("thead", { role: "rowgroup" }, heads), body),
                pager)));
    drawStates();
    drawBulk();
    load();
    return t("jobs.page", { topic });
}
