// All schedules: the next 24 hours as a calendar, and a list in pages.
import { get } from "./api.js";
import { button } from "./button.js";
import { calendarCard } from "./calendar.js";
import { bdi, el, fill, setText } from "./dom.js";
import { field } from "./dialog.js";
import { number } from "./format.js";
import { go, href, note } from "./router.js";
import { editSchedule } from "./schedule_form.js";
import { nextOf, pausedMark, planOf, resultOf } from "./schedule_words.js";
import { lacksEverywhere } from "./session.js";
import { t } from "./words.js";

const PAGE = 50, AGAIN_MS = 15_000;
const FILTERS = ["prefix", "topic", "owner"];

const skippedOf = ({ totals }) => Object.values(totals.skipped).reduce((sum, one) => sum + one, 0);

function row(schedule) {
    const { name, spec } = schedule, skipped = skippedOf(schedule);
    const cell = (word, ...children) => el("td", { role: "cell", "data-label": t(`schedules.${word}`) }, children);
    return el("tr", { role: "row" },
        el("th", { scope: "row", role: "rowheader", class: "topic-name" }, el("a", { href: href(["schedules", name]) }, bdi(name)), el("span", { class: "marks" }, pausedMark(schedule))),
        cell("topic", el("a", { href: href(["topics", spec.topic]) }, bdi(spec.topic))),
        cell("plan", el("span", { class: "mono" }, bdi(planOf(spec))), spec.every ? null : el("span", { class: "help plan-zone" }, " ", bdi(spec.zone ?? "UTC"))),
        cell("next", nextOf(schedule)),
        cell("last", resultOf(schedule.last[0])),
        el("td", { class: "n", role: "cell", "data-label": t("schedules.fired") }, number(schedule.totals.fired)),
        el("td", { class: "n", role: "cell", "data-label": t("schedules.skipped"), "data-zero": !skipped }, number(skipped)));
}

/** @param {{query: URLSearchParams, node: Element, signal: AbortSignal}} page */
export async function show({ query, node, signal }) {
    const search = Object.fromEntries(FILTERS.map((name) => [name, query?.get(name) ?? ""]));
    let before = [], cursor = "", timer = 0;
    const body = el("tbody", { role: "rowgroup" }), pager = el("div", { class: "row pager" }), status = el("span", { class: "help", role: "status" });
    const calendar = calendarCard(signal);

    function turn(to) {
        cursor = to;
        return load();
    }

    async function load() {
        const page = await get("v1/schedules", { limit: PAGE, cursor, ...search }, signal);
        // The rows stay while the user is in them, so that the focus is not lost.
        if (!body.contains(document.activeElement)) fill(body, page.schedules.map(row));
        if (!page.schedules.length) fill(body, el("tr", { role: "row" }, el("td", { colspan: "7", role: "cell" }, t(FILTERS.some((name) => search[name]) ? "schedules.noneFound" : "schedules.none"))));
        setText(status, t("page.number", { n: before.length + 1 }));
        if (!pager.contains(document.activeElement) || pager.dataset.cursor !== cursor) {
            fill(pager,
                button(t("page.before"), () => turn(before.pop() ?? ""), { why: before.length ? "" : t("page.isFirst") }),
                button(t("page.next"), () => {
                    before.push(cursor);
                    return turn(page.cursor);
                }, { why: page.cursor ? "" : t("page.isLast") }), status);
            pager.dataset.cursor = cursor;
        }
        return page;
    }

    async function again() {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (!document.hidden) {
            try {
                await load();
                await calendar.load();
            } catch {
                // The next try follows; the head shows a server that is away.
            }
        }
        timer = setTimeout(again, AGAIN_MS);
    }
    signal.addEventListener("abort", () => clearTimeout(timer));

    const inputs = Object.fromEntries(FILTERS.map((name) => [name, el("input", { type: "search", id: `schedules-${name}`, value: search[name], autocomplete: "off", spellcheck: "false" })]));
    const begin = () => {
        for (const [name, input] of Object.entries(inputs)) search[name] = input.value.trim();
        before = [];
        note(["schedules"], search);
        return turn("");
    };
    const form = el("form", { class: "search", role: "search", "aria-label": t("schedules.search"), on: { submit: (event) => {
        event.preventDefault();
        begin();
    } } }, FILTERS.map((name) => field(t(`schedules.by.${name}`), inputs[name])),
        el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, t("search.do")), button(t("search.clear"), () => {
            for (const input of Object.values(inputs)) input.value = "";
            begin();
        })));
    const heads = ["name", "topic", "plan", "next", "last", "fired", "skipped"];
    fill(node,
        el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, t("schedules.title")), el("div", { class: "row" },
            button(t("schedules.new"), async () => {
                const name = await editSchedule(null);
                if (name) go(["schedules", name]);
            }, { kind: "primary", why: lacksEverywhere("push") }), button(t("do.refresh"), again))),
        calendar.node, form,
        el("section", { class: "card", "aria-label": t("schedules.title") }, el("div", { class: "card-body flush" },
            el("table", { class: "schedules", role: "table" },
                el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map((word) => el("th", { scope: "col", role: "columnheader", class: ["fired", "skipped"].includes(word) ? "n" : "" }, t(`schedules.${word}`))))), body), pager)));
    await load();
    calendar.load().catch(() => {});
    timer = setTimeout(again, AGAIN_MS);
    return t("schedules.title");
}
