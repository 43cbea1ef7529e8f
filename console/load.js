// The jobs to come: how many fall due per minute of the next hour, per hour of the next days.
import { get } from "./api.js";
import { bars } from "./chart.js";
import { el, fill } from "./dom.js";
import { moment, now, number, short } from "./format.js";
import { reason } from "./notice.js";
import { t } from "./words.js";

const AGAIN_MS = 15_000;

function draw(load, span) {
    const isHour = span === "hour";
    const values = isHour ? load.minutes : load.hours;
    const step = isHour ? 60_000 : 3_600_000;
    const began = isHour ? load.minutes_from : load.hours_from; // whole ones by the clock: the first is under way
    const from = Date.parse(began ?? load.at ?? new Date(now()).toISOString());
    const at = (index) => moment(from + index * step, false);
    const total = (list) => list.reduce((all, value) => all + value, 0);
    const sum = total(values), max = Math.max(0, ...values);
    const top = max ? t("load.top", { n: short(max), when: at(values.indexOf(max)) }) : t("load.none");
    const ticks = isHour ? [0, 15, 30, 45, 60].map((n) => at(n)) : [0, 1, 2, 3, 4, 5, 6, 7].map((n) => (n ? t("load.day", { n }) : t("load.now")));
    const label = t(isHour ? "load.labelHour" : "load.labelDays", { sum: number(sum), max: number(max) });
    return [
        bars(values, { label, top, ticks, of: (index) => t("load.of", { n: number(values[index]), when: at(index), until: at(index + 1) }) }),
        el("dl", { class: "facts inline" },
            [["load.sum", sum], ["load.soon", load.soon], ["load.overdue", load.overdue], ["load.later", total(load.hours) + (load.later ?? 0) - sum]].map(([word, n]) => el("div", {}, el("dt", {}, t(word)), el("dd", {}, number(n ?? 0))))),
        load.estimated ? el("p", { class: "help" }, t("load.estimated")) : null,
    ];
}

/** A card of it, for a topic or for all. @param {string|undefined} topic @param {AbortSignal} signal */
export function loadCard(topic, signal) {
    let span = "hour", known = null, timer = 0;
    const body = el("div", { class: "card-body" }, el("p", { class: "help" }, t("page.wait")));
    const choice = (name) => el("button", { type: "button", "aria-pressed": String(span === name), on: { click: () => {
        span = name;
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === buttons[name === "hour" ? 0 : 1]));
        if (known) fill(body, draw(known, span));
    } } }, t(`load.${name}`));
    const buttons = [choice("hour"), choice("days")];
    async function look() {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (!document.hidden) {
            try {
                known = await get("v1/load", { topic }, signal);
                fill(body, draw(known, span));
            } catch (fault) {
                if (signal.aborted) return;
                fill(body, el("p", { class: "help" }, fault.status === 403 && !topic ? t("load.notAll") : reason(fault)));
                if (fault.status >= 400 && fault.status < 500) return;
            }
        }
        timer = setTimeout(look, AGAIN_MS);
    }
    signal.addEventListener("abort", () => clearTimeout(timer));
    document.addEventListener("visibilitychange", () => !document.hidden && look(), { signal });
    look();
    return el("section", { class: "card load", "aria-labelledby": "load-title" },
        el("div", { class: "card-head" }, el("h2", { id: "load-title" }, t("load.title")), el("div", { class: "choice", role: "group", "aria-label": t("load.span") }, buttons)), body);
}
