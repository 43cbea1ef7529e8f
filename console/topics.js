// All topics by name, in pages.
import { get } from "./api.js";
import { button, scoped } from "./button.js";
import { bdi, el, fill } from "./dom.js";
import { number, timeOf } from "./format.js";
import { href } from "./router.js";
import { deliversBadge, pausedBadge, STATES } from "./state.js";
import { newTopic } from "./topic_new.js";
import { t } from "./words.js";

const PAGE = 100;

/** @param {{node: Element, signal: AbortSignal}} page */
export async function show({ node, signal }) {
    const before = []; // cursors of the pages before
    let cursor = "";
    const body = el("tbody", { role: "rowgroup" }), foot = el("div", { class: "row pager" });

    async function load() {
        const page = await get("v1/topics", { limit: PAGE, cursor }, signal);
        fill(body, page.topics.map((topic) => el("tr", { role: "row" },
            el("th", { scope: "row", role: "rowheader", class: "topic-name" }, el("a", { href: href(["topics", topic.topic]) }, bdi(topic.topic)), el("span", { class: "marks" }, pausedBadge(topic), topic.settings.deliver && deliversBadge(topic.breaker))),
            STATES.map((state) => el("td", { class: `n n-${state}`, role: "cell", "data-label": t(`topics.${state}`), "data-zero": !topic.counts[state] }, number(topic.counts[state]))),
            el("td", { class: "n", role: "cell", "data-label": t("sums.pushed") }, number(topic.totals.pushed)),
            el("td", { class: "n", role: "cell", "data-label": t("topics.oldestDue") }, timeOf(topic.oldest_ready_due_at, { isRelative: true })))));
        if (!page.topics.length) fill(body, el("tr", {}, el("td", { colspan: "8" }, t("topics.none"))));
        fill(foot,
            button(t("page.before"), () => {
                cursor = before.pop() ?? "";
                load();
            }, { why: before.length ? "" : t("page.isFirst"), data: "before" }),
            button(t("page.next"), () => {
                before.push(cursor);
                cursor = page.cursor;
                load();
            }, { why: page.cursor ? "" : t("page.isLast"), data: "next" }),
            el("span", { class: "help", role: "status" }, t("page.number", { n: before.length + 1 })));
        window.scrollTo(0, 0);
    }

    fill(node,
        el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, t("topics.title")), el("div", { class: "row" }, scoped(t("topics.new"), "admin", undefined, newTopic, {}), button(t("do.refresh"), load))),
        el("section", { class: "card", "aria-label": t("topics.title") }, el("div", { class: "card-body flush" },
            el("table", { class: "topics", role: "table" },
                el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, t("topics.topic")), STATES.map((state) => el("th", { scope: "col", role: "columnheader", class: "n" }, t(`topics.${state}`))),
                    el("th", { scope: "col", role: "columnheader", class: "n" }, t("sums.pushed")), el("th", { scope: "col", role: "columnheader", class: "n" }, t("topics.oldestDue")))), body), foot)));
    await load();
    return t("topics.title");
}
