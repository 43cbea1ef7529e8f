// The batch of a waiting job: how many of its members have ended, how they ended, and which are missing.
import { ask, get, path, post } from "./api.js";
import { button, scoped } from "./button.js";
import { formDialog } from "./dialog.js";
import { bdi, el, fill, mark, setText } from "./dom.js";
import { outcomeBadge } from "./finished.js";
import { number, timeOf } from "./format.js";
import { notice, reason } from "./notice.js";
import { progressOf } from "./progress.js";
import { href } from "./router.js";
import { badge, stateOf } from "./state.js";
import { t } from "./words.js";

const PAGE = 50;
const OUTCOMES = ["unfinished", "acked", "dead", "cancelled", "expired"];

/** Whether the job waits for members now. @param {any} job */
export const isWaiting = (job) => job.waits_for !== undefined;

/** A link to a job of any topic. @param {{topic: string, id: string}} job */
export const jobLink = ({ topic, id }) => el("a", { class: "mono", href: href(["topics", topic, "jobs", id]) }, bdi(`${topic} / ${id}`));

/** The options of a push for a batch, for the same push again. @param {any} job */
export const batchQuery = (job) => ({
    batch_topic: job.batch?.topic, batch_id: job.batch?.id, waits: job.waits, members: job.members, on_dead: job.on_dead, wait_at_most: job.wait_at_most, close_within: job.close_within,
    ...(isWaiting(job) ? { at: job.at, delay: job.delay } : {}),
});

/** Describes in sentences what a waiting job waits for. @param {any} job */
export function waitLines(job) {
    return [
        [t(job.closed ? "batch.nextClosed" : "batch.nextOpen", { n: job.waits_for })],
        job.members && !job.closed ? [t("batch.nextMembers", { n: job.members })] : null,
        job.at ? [t("batch.nextAt"), job.at] : job.delay ? [t("batch.nextDelay", { delay: job.delay })] : null,
        [t(`onDead.${job.on_dead ?? "go"}`)],
    ].filter((line) => line !== null);
}

function memberRow(job) {
    const isHeld = job.state === "leased" && job.consumer;
    return el("li", {},
        job.state === "finished" ? outcomeBadge(job) : badge(stateOf(job)),
        jobLink(job),
        isHeld ? el("span", { class: "help" }, t("jobs.heldBy"), " ", bdi(job.consumer)) : null,
        progressOf(job),
        isWaiting(job) ? el("span", { class: "help" }, t("batch.waitsFor", { n: job.waits_for })) : null,
        job.state === "delayed" && job.due_at ? el("span", { class: "help" }, t("line.due"), " ", timeOf(job.due_at, { isRelative: true })) : null,
        job.state === "finished" ? el("span", { class: "help" }, timeOf(job.finished_at, { isRelative: true })) : null,
        job.last_error ? el("span", { class: "error-line" }, bdi(job.last_error)) : null);
}

/** @param {string} topic @param {string} id */
export const closeBatch = (topic, id) => formDialog({
    title: t("batch.closeTitle", { id }), action: t("batch.closeDo"), body: el("p", {}, t("batch.closeWhat")),
    send: async (signal) => {
        await post(path("v1", "topics", topic, "jobs", id, "close"), {}, { signal });
        notice(t("batch.closeDone", { id }));
    },
});

/** @param {string} topic @param {any} job */
export const cancelBatch = (topic, job) => formDialog({
    title: t("batch.cancelTitle", { id: job.id }), action: t("batch.cancelDo"), isDanger: true,
    body: [el("p", {}, t("batch.cancelWhat")), el("p", { class: "count" }, t("batch.cancelCount", { n: job.outcomes.unfinished }))],
    send: async (signal) => {
        await ask("DELETE", path("v1", "topics", topic, "jobs", job.id), { query: { members: true }, signal });
        notice(t("batch.cancelDone", { id: job.id }));
    },
});

/** A card that stays the same element while its numbers change, so that the focus stays in it. @param {string} topic @param {string} id @param {AbortSignal} signal @param {() => Promise<any>} again */
export function batchCard(topic, id, signal, again) {
    let outcome = "unfinished", before = [], cursor = "", last = "", isRead = false;
    const bar = el("progress", { max: 1, "aria-label": t("batch.progress") }), line = el("p", { id: "batch-line" }), marks = el("span", { class: "marks" });
    const list = el("ul", { class: "members", "aria-label": t("batch.members") }), pager = el("div", { class: "row pager", hidden: true }), page = el("span", { class: "help", role: "status" });
    const tabs = OUTCOMES.map((one) => el("button", { type: "button", "aria-pressed": String(one === outcome), "data-outcome": one, on: { click: () => choose(one) } },
        t(one === "unfinished" ? "batch.unfinished" : one === "dead" ? "state.dead" : `ended.${one}`), el("span", { class: "choice-count" })));
    const close = scoped(t("batch.close"), "push", topic, async () => {
        if (await closeBatch(topic, id)) await again();
    });
    const node = el("section", { class: "card", id: "batch", hidden: true, "aria-labelledby": "batch-title" },
        el("div", { class: "card-head" }, el("h2", { id: "batch-title" }, t("batch.title"), " ", marks), close),
        el("div", { class: "card-body" }, bar, line, el("div", { class: "choice states-choice", role: "group", "aria-label": t("batch.outcome") }, tabs), list, pager));

    function choose(one) {
        for (const tab of tabs) mark(tab, "aria-pressed", String(tab.dataset.outcome === one));
        [outcome, before, cursor] = [one, [], ""];
        return read();
    }

    /** Reads the page of the list; pages without a member are skipped. */
    async function read() {
        const wanted = outcome, from = cursor;
        try {
            let found = { members: [], cursor: from };
            do found = await get(path("v1", "topics", topic, "jobs", id, "members"), { outcome: wanted, limit: PAGE, cursor: found.cursor }, signal);
            while (!found.members.length && found.cursor);
            if (wanted !== outcome || from !== cursor) return;
            isRead = true;
            fill(list, found.members.map(memberRow));
            if (!found.members.length) fill(list, el("li", { class: "help" }, t(wanted === "unfinished" || wanted === "dead" ? "batch.none" : "batch.noneKept")));
            const move = (work) => () => {
                work();
                return read();
            };
            pager.hidden = !before.length && !found.cursor;
            fill(pager,
                button(t("page.before"), move(() => (cursor = before.pop())), { why: before.length ? "" : t("page.isFirst") }),
                button(t("page.next"), move(() => {
                    before.push(cursor);
                    cursor = found.cursor;
                }), { why: found.cursor ? "" : t("page.isLast") }), page);
            setText(page, t("page.number", { n: before.length + 1 }));
        } catch (fault) {
            if (!signal.aborted) fill(list, el("li", { class: "help" }, reason(fault)));
        }
    }

    /** Shows the numbers of the job. The list is read again if they changed, unless the user is in it. @param {any} job */
    function update(job) {
        node.hidden = !job.outcomes;
        if (node.hidden) return;
        const of = job.outcomes, joined = OUTCOMES.reduce((sum, one) => sum + of[one], 0), all = job.closed ? joined : Math.max(joined, job.members ?? 0);
        const ended = joined - (job.waits_for ?? of.unfinished);
        bar.value = all ? ended / all : 0;
        setText(line, t("batch.line", { n: ended, of: all }));
        for (const tab of tabs) setText(/** @type {any} */ (tab.lastChild), number(of[/** @type {string} */ (tab.dataset.outcome)]));
        close.hidden = job.closed || !isWaiting(job);
        const isOpen = isWaiting(job) && !job.closed;
        setText(marks, t(isOpen ? "batch.isOpen" : "batch.isClosed"));
        marks.className = `badge ${isOpen ? "ready" : ""}`;
        const key = JSON.stringify(of);
        if (key !== last && !(isRead && (list.contains(document.activeElement) || pager.contains(document.activeElement)))) {
            last = key;
            read();
        }
    }

    return { node, update };
}
