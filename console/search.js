// The results of a search: topics by name, jobs by id over all topics. Exact matches come first; a scan shows its progress and can be stopped.
import { get, path } from "./api.js";
import { button, scoped } from "./button.js";
import { bdi, el, fill, setText } from "./dom.js";
import { number, timeOf } from "./format.js";
import { reason } from "./notice.js";
import { href } from "./router.js";
import { badge, STATES, stateOf } from "./state.js";
import { createTopic, isTopicName } from "./topic_new.js";
import { t } from "./words.js";

const TOPICS_PAGE = 1000, TOPICS_SHOWN = 50, JOBS_PAGE = 100, JOBS_SHOWN = 200;

const absent = (fault) => {
    if ([400, 403, 404, 422].includes(fault.status)) return null;
    throw fault;
};

/** The topic of that name, and the jobs of that id. @param {string} text @param {AbortSignal} [signal] */
export async function exact(text, signal) {
    const [topic, found] = await Promise.all([
        isTopicName(text) ? get(path("v1", "topics", text), {}, signal).catch(absent) : null,
        get(path("v1", "jobs", text), { body: "false" }, signal).catch(absent)]);
    return { topic, jobs: found?.jobs ?? [], isAll: found?.complete ?? true };
}

/** Returns the place of the only exact match, or null. @param {{topic: any, jobs: any[]}} found @returns {string[]|null} */
export function onlyPlace({ topic, jobs }) {
    if (topic && !jobs.length) return ["topics", topic.topic];
    return !topic && jobs.length === 1 ? ["topics", jobs[0].topic, "jobs", jobs[0].id] : null;
}

const jobsOf = (topic) => STATES.reduce((sum, state) => sum + (topic.counts[state] ?? 0), 0);

const jobLine = (job) => el("li", {},
    el("a", { class: "mono", href: href(["topics", job.topic, "jobs", job.id]) }, bdi(job.id)), badge(stateOf(job)),
    el("span", { class: "help" }, t("search.inTopic"), " ", el("a", { href: href(["topics", job.topic]) }, bdi(job.topic)), ", ", t("search.due"), " ", timeOf(job.due_at, { isRelative: true })));

const topicLine = (topic) => el("li", {}, el("a", { href: href(["topics", topic.topic]) }, bdi(topic.topic)), el("span", { class: "help" }, t("count.found", { n: jobsOf(topic) })));

/** Reads the topics page by page. @param {AbortSignal} signal */
async function allTopics(signal) {
    const out = [];
    let cursor = "";
    do {
        const page = await get("v1/topics", { limit: TOPICS_PAGE, cursor }, signal);
        out.push(...page.topics);
        cursor = page.cursor;
    } while (cursor);
    return out;
}

/** Looks through the jobs of all topics for ids that begin with the text. */
function idScan(text, topics, known, signal) {
    const list = el("ul", { class: "found" }), line = el("p", { class: "help", role: "status", id: "scan-line" });
    const total = topics.reduce((sum, topic) => sum + jobsOf(topic), 0);
    const bar = el("progress", { max: Math.max(1, total), value: 0, "aria-label": t("bulk.progress"), id: "scan-progress", hidden: true }), foot = el("div", { class: "row" });
    let end = null;

    async function scan() {
        end = new AbortController();
        const mine = AbortSignal.any([end.signal, signal]);
        let looked = 0, found = 0;
        fill(list);
        bar.hidden = false;
        fill(foot, button(t("do.stop"), () => end?.abort()));
        const say = (word) => setText(line, t(word, { n: found, seen: looked, of: total }));
        try {
            for (const topic of topics) {
                let cursor = "";
                const before = looked;
                if (jobsOf(topic)) do {
                    const page = await get(path("v1", "topics", topic.topic, "jobs"), { id_prefix: text, limit: JOBS_PAGE, cursor }, mine);
                    for (const job of page.jobs) {
                        if (known.has(`${job.topic}\n${job.id}`) || found >= JOBS_SHOWN) continue;
                        found++;
                        list.append(jobLine(job));
                    }
                    looked += page.seen;
                    cursor = page.cursor;
                    bar.value = looked;
                    say("search.scanning");
                } while (cursor && found < JOBS_SHOWN);
                if (found >= JOBS_SHOWN) break;
                looked = Math.max(looked, before);
            }
            say(found >= JOBS_SHOWN ? "search.scanFull" : "search.scanned");
        } catch (fault) {
            if (signal.aborted) return;
            if (mine.aborted) say("search.scanStopped");
            else setText(line, reason(fault));
        }
        bar.hidden = true;
        fill(foot, button(t("search.scanAgain"), scan));
    }

    fill(foot, button(t("search.scan", { n: total }), scan, { why: total ? "" : t("jobs.none") }));
    return el("section", { class: "card", "aria-labelledby": "scan-title" },
        el("div", { class: "card-head" }, el("h2", { id: "scan-title" }, t("search.prefix", { text }))), el("div", { class: "card-body" }, foot, bar, line, list));
}

/** @param {{query: URLSearchParams, node: Element, signal: AbortSignal}} page */
export async function show({ query, node, signal }) {
    const text = (query.get("q") ?? "").trim();
    const title = t("search.title", { text });
    const head = el("h1", { tabindex: "-1" }, t("search.for"), " ", bdi(text));
    if (!text) {
        fill(node, head, el("p", { class: "help" }, t("search.empty")));
        return title;
    }
    const found = await exact(text, signal);
    const topics = await allTopics(signal);
    const alike = topics.filter((topic) => topic.topic !== text && topic.topic.toLowerCase().includes(text.toLowerCase()));
    const known = new Set(found.jobs.map((job) => `${job.topic}\n${job.id}`));
    fill(node, head,
        el("section", { class: "card", "aria-labelledby": "exact-title" }, el("div", { class: "card-head" }, el("h2", { id: "exact-title" }, t("search.exact"))), el("div", { class: "card-body" },
            found.topic || found.jobs.length ? el("ul", { class: "found", id: "exact" }, found.topic && topicLine(found.topic), found.jobs.map(jobLine)) : null,
            found.isAll ? null : el("p", { class: "help" }, t("search.moreIds", { n: found.jobs.length })),
            found.topic ? null : el("p", {}, t("search.noTopic", { text })),
            found.topic || !isTopicName(text) ? null : el("div", { class: "row" }, scoped(t("topics.createNamed", { topic: text }), "admin", text, () => createTopic(text, signal))),
            found.jobs.length ? null : el("p", { class: "help" }, t("search.noJob", { text })))),
        alike.length ? el("section", { class: "card", "aria-labelledby": "alike-title" }, el("div", { class: "card-head" }, el("h2", { id: "alike-title" }, t("search.alike"))), el("div", { class: "card-body" },
            el("ul", { class: "found" }, alike.slice(0, TOPICS_SHOWN).map(topicLine)), alike.length > TOPICS_SHOWN ? el("p", { class: "help" }, t("topics.more", { n: number(alike.length - TOPICS_SHOWN) })) : null)) : null,
        idScan(text, topics, known, signal));
    return title;
}
