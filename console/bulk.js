// One change to many jobs: collects them, shows their number, then changes them in batches.
// It shows its progress and can be stopped at any time; finished batches stay changed.
import { get, path, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { bdi, el, fill, setText } from "./dom.js";
import { number } from "./format.js";
import { reason } from "./notice.js";
import { dueFields } from "./push.js";
import { href } from "./router.js";
import { t } from "./words.js";

const LOOK = 1000, BATCH = 500, MOST = 100_000, SHOWN = 50;

/** Collects the ids of all jobs that the search finds. @param {string} topic @param {object} search @param {boolean} isRetrying only jobs that wait for a retry @param {(found: number, seen: number) => void} progress @param {AbortSignal} signal */
async function collect(topic, search, isRetrying, progress, signal) {
    const ids = new Set();
    let cursor = "", seen = 0;
    do {
        const page = await get(path("v1", "topics", topic, "jobs"), { ...search, limit: LOOK, cursor }, signal);
        for (const { id, attempt } of page.jobs) if (!isRetrying || attempt > 0) ids.add(id);
        seen += page.seen ?? page.jobs.length;
        cursor = page.cursor;
        progress(ids.size, seen);
    } while (cursor && ids.size < MOST);
    return { ids: [...ids].slice(0, MOST), isAll: !cursor && ids.size <= MOST };
}

/**
 * True: something may have been changed.
 * @param {string} topic @param {"cancel"|"run"|"reschedule"|"redrive"} verb @param {{ids?: string[], search?: Record<string, string>, isRetrying?: boolean}} what
 * @returns {Promise<boolean>}
 */
export function bulk(topic, verb, what) {
    return new Promise((resolve) => {
        const end = new AbortController();
        let isBegun = false;
        const line = el("p", { class: "count", role: "status", "aria-live": "polite", id: "bulk-line" }), bar = el("progress", { max: 1, "aria-label": t("bulk.progress"), id: "bulk-progress" });
        const more = el("div", { class: "bulk-more" }), foot = el("div", { class: "dialog-foot" });
        const due = verb === "reschedule" ? dueFields("delay") : null;
        const stop = (word) => el("button", { type: "button", id: "bulk-stop", on: { click: () => {
            end.abort();
            if (!isBegun) dialog.close();
        } } }, t(word));
        const close = () => el("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, t("do.close"));
        const dialog = openDialog(t(`bulk.${verb}.title`, { topic }), [line, bar, more, foot], [], { onClose: () => {
            end.abort();
            resolve(isBegun);
        } });

        async function change(ids) {
            isBegun = true;
            const results = new Map(); // by code: how many
            const failed = []; // id, and why not
            let done = 0, fault = null;
            bar.hidden = false;
            bar.max = ids.length;
            fill(foot, stop("do.stop"));
            foot.querySelector("button").focus();
            const options = due ? due.query() : {};
            for (let at = 0; at < ids.length && !end.signal.aborted; at += BATCH) {
                try {
                    const answer = await post(path("v1", "topics", topic, verb), options, { json: { ids: ids.slice(at, at + BATCH) }, signal: end.signal });
                    for (const { id, result, detail } of answer.results) {
                        results.set(result, (results.get(result) ?? 0) + 1);
                        if (detail !== undefined && failed.length < SHOWN) failed.push([id, detail]);
                    }
                    done += answer.results.length;
                } catch (problem) {
                    if (!end.signal.aborted) fault = problem;
                    break;
                }
                bar.value = done;
                setText(line, t("bulk.done", { done, of: ids.length }));
            }
            bar.value = done;
            setText(line, fault ? reason(fault) : end.signal.aborted ? t("bulk.stopped", { done, of: ids.length }) : t("bulk.finished", { done }));
            fill(more,
                el("dl", { class: "facts inline" }, [...results].map(([word, n]) => el("div", {}, el("dt", {}, word), el("dd", {}, number(n))))),
                failed.length ? [el("p", {}, t("bulk.refused")), el("ul", { class: "bulk-failed" }, failed.map(([id, why]) => el("li", {}, el("a", { class: "mono", href: href(["topics", topic, "jobs", id]) }, bdi(id)), " ", bdi(why))))] : null);
            fill(foot, close());
            foot.querySelector("button").focus();
        }

        function confirm(ids, isAll) {
            bar.hidden = true;
            setText(line, ids.length ? t("bulk.found", { n: ids.length }) : t("bulk.none"));
            fill(more, isAll ? null : el("p", { class: "help" }, t("bulk.most", { n: MOST })), due && ids.length ? due.node : null, ids.length ? el("p", { class: "help" }, t(`bulk.${verb}.what`)) : null, el("p", { class: "form-error", role: "alert" }));
            const yes = el("button", { type: "button", id: "bulk-do", class: verb === "cancel" ? "primary danger" : "primary", on: { click: () => {
                try {
                    due?.query();
                } catch (fault) {
                    fill(more.querySelector(".form-error"), reason(fault));
                    return;
                }
                change(ids);
            } } }, t(`bulk.${verb}.do`, { n: ids.length }));
            fill(foot, el("button", { type: "button", on: { click: () => dialog.close() } }, t(ids.length ? "do.cancel" : "do.close")), ids.length ? yes : null);
            (ids.length ? yes : foot.querySelector("button")).focus();
        }

        (async () => {
            if (what.ids) return confirm(what.ids, true);
            bar.removeAttribute("value");
            fill(foot, stop("do.stop"));
            setText(line, t("bulk.looking", { n: 0, seen: 0 }));
            try {
                const { ids, isAll } = await collect(topic, what.search ?? {}, Boolean(what.isRetrying), (n, looked) => setText(line, t("bulk.looking", { n, seen: looked })), end.signal);
                confirm(ids, isAll);
            } catch (fault) {
                if (end.signal.aborted) return;
                bar.hidden = true;
                setText(line, reason(fault));
                fill(foot, close());
            }
        })();
    });
}
