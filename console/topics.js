// All topics by name, in pages.
import { get, path, ask } from "./api.js";
import { button, scoped } from "./button.js";
import { bdi, el, fill } from "./dom.js";
import { field, formDialog } from "./dialog.js";
import { number, timeOf } from "./format.js";
import { go, href } from "./router.js";
import { deliversBadge, pausedBadge, STATES } from "./state.js";
import { t } from "./words.js";

const PAGE = 100;

function create() {
    const name = el("input", { type: "text", id: "new-topic", required: true, maxlength: 200, pattern: "[A-Za-z0-9_+\\/;$\\(\\)\\-][A-Za-z0-9._+\\/;$\\(\\)\\-]*", autocomplete: "off", spellcheck: "false" });
    return formDialog({ title: t("topics.new"), action: t("topics.create"), body: field(t("topics.name"), name, t("topics.nameHelp")), send: async (signal) => {
        await ask("PATCH", path("v1", "topics", name.value), { json: {}, signal }).catch((fault) => {
            if (fault.status !== 404) throw fault;
            return ask("PUT", path("v1", "topics", name.value), { json: {}, signal });
        });
        go(["topics", name.value, "settings"]);
    } });
}

/** @param {{node: Element, signal: AbortSignal}} page */
export async function show({ node, signal }) {
    const before = []; // cursors of the pages before
    let cursor = "";
    const body = el("tbody", { role: "rowgroup" }), foot = el("div", { class: "row pager" });

    async function load() {
        const page = await get("v1/topics", { limit: PAGE, cursor }, signal);
        fill(body, page.topics.map((topic) => el("tr", { role: "row" },
            el("th", { scope: "row", role: "rowheader", class: "topic-name" }, el("a", { href: href(["topics", topic.topic]) }, bdi(topic.topic)), el("span", { class: "marks" }, pausedBadge(topic), topic.settings.deliver && deliversBadge())),
            STATES.map((state) => el("td", { class: `n n-${state}`, role: "cell", "data-label": t(`topics.${state}`), "data-zero": !topic.counts[state] }, number(topic.counts[state]))),
            el("td", { class: "n", role: "cell", "data-label": t("sums.pushed") }, number(topic.totals.pushed)),
            el("td", { class: "n", role: "cell", "data-label": t("topics.oldestDue") }, timeOf(topic.oldest_ready_due_at, { isRelative: true })))));
        if (!page.topics.length) fill(body, el("tr", {}, el("td", { colspan: "8" }, t("topics.none"))));
        fill(foot,
            button(t("page.before"), () => {
                cursor = before.pop() ?? "";
                load();
            }, { why: before.length ? "" : t("page.isFirst") }),
            button(t("page.next"), () => {
                before.push(cursor);
                cursor = page.cursor;
                load();
            }, { why: page.cursor ? "" : t("page.isLast") }),
            el("span", { class: "help", role: "status" }, t("page.number", { n: before.length + 1 })));
        window.scrollTo(0, 0);
    }

    fill(node,
        el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, t("topics.title")), el("div", { class: "row" }, scoped(t("topics.new"), "admin", undefined, create, {}), button(t("do.refresh"), load))),
        el("section", { class: "card", "aria-label": t("topics.title") }, el("div", { class: "card-body flush" },
            el("table", { class: "topics", role: "table" },
                el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, t("topics.topic")), STATES.map((state) => el("th", { scope: "col", role: "columnheader", class: "n" }, t(`topics.${state}`))),
                    el("th", { scope: "col", role: "columnheader", class: "n" }, t("sums.pushed")), el("th", { scope: "col", role: "columnheader", class: "n" }, t("topics.oldestDue")))), body), foot)));
    await load();
    return t("topics.title");
}
