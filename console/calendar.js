// The fires of the next 24 hours: a line for each schedule, a mark for each fire.
import { get, path } from "./api.js";
import { bdi, el, fill, svg } from "./dom.js";
import { moment, now, number, relative } from "./format.js";
import { reason } from "./notice.js";
import { href } from "./router.js";
import { pausedMark, remarkOf } from "./schedule_words.js";
import { t } from "./words.js";

const HOUR_MS = 3_600_000, DAY_MS = 24 * HOUR_MS, LINES = 40, FIRES = 300, AT_ONCE = 6;

/** The marks of a line. Fires closer than a mark is wide become one band. @param {number[]} times @param {number} from @param {boolean} isDense */
function marksOf(times, from, isDense) {
    const x = (time) => ((time - from) / DAY_MS) * 1440; // one unit for each minute
    if (isDense) return svg("rect", { class: "mark", x: x(times[0]).toFixed(1), y: 5, width: Math.max(4, 1440 - x(times[0])).toFixed(1), height: 14 });
    return times.map((time) => svg("rect", { class: "mark", x: (x(time) - 2).toFixed(1), y: 5, width: 5, height: 14 }));
}

/** Returns the content of a line as a sentence. */
function sentenceOf(times, isDense) {
    const first = moment(times[0], false);
    if (isDense) return t("calendar.dense", { n: FIRES, first });
    return times.length === 1 ? t("calendar.once", { first }) : t("calendar.line", { n: times.length, first, last: moment(times.at(-1), false) });
}

/** @param {any} schedule @param {any} answer its upcoming fires @param {number} from */
function line(schedule, answer, from) {
    const fires = answer.fires.filter((fire) => Date.parse(fire.due_at ?? fire.at) < from + DAY_MS);
    if (!fires.length) return null;
    const times = fires.map((fire) => Date.parse(fire.due_at ?? fire.at));
    const isDense = fires.length === FIRES, sentence = sentenceOf(times, isDense);
    const remarks = fires.filter((fire) => fire.remark).slice(0, 3);
    const hours = [...Array(9).keys()].map((n) => svg("path", { class: "hour", d: `M${n * 180} 0V24` }));
    const picture = svg("svg", { class: "lane", viewBox: "0 0 1440 24", preserveAspectRatio: "none", role: "img", "aria-label": `${schedule.name}: ${sentence}` }, hours, marksOf(times, from, isDense));
    return el("li", { class: schedule.paused ? "is-paused" : "" },
        el("div", { class: "lane-name" }, el("a", { href: href(["schedules", schedule.name]) }, bdi(schedule.name)), pausedMark(schedule)),
        picture,
        el("div", { class: "lane-what help" }, sentence, " \u00b7 ", relative(times[0]), remarks.map((fire) => el("span", { class: "fire-remark" }, " ", fire.local.slice(11, 19), ": ", remarkOf(fire.remark)))));
}

/** Asks for the fires of many schedules, a few at a time. @returns {Promise<any[]>} an answer or null for each */
async function answersFor(schedules, signal) {
    const out = new Array(schedules.length).fill(null);
    let at = 0;
    const work = async () => {
        while (at < schedules.length) {
            const mine = at++;
            try {
                out[mine] = await get(path("v1", "schedules", schedules[mine].name, "next"), { n: FIRES }, signal);
            } catch (fault) {
                if (signal.aborted) throw fault; // else deleted in the meantime
            }
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return out;
}

/** A card of it. `load` reads it again. @param {AbortSignal} signal */
export function calendarCard(signal) {
    const body = el("div", { class: "card-body" }, el("p", { class: "help" }, t("page.wait")));
    const sum = el("span", { class: "help" });

    async function load() {
        let page;
        try {
            page = await get("v1/schedules", { limit: LINES }, signal);
        } catch (fault) {
            if (!signal.aborted) fill(body, el("p", { class: "help" }, reason(fault)));
            return;
        }
        const from = now();
        const soon = page.schedules.filter(({ next }) => next && Date.parse(next) < from + DAY_MS);
        const answers = await answersFor(soon, signal);
        if (signal.aborted || body.contains(document.activeElement)) return;
        const lines = soon.map((schedule, at) => answers[at] && line(schedule, answers[at], from)).filter(Boolean);
        const ticks = [...Array(9).keys()].map((n) => el("span", {}, n ? moment(from + n * 3 * HOUR_MS, false).slice(-5) : t("load.now")));
        fill(sum, lines.length ? t("calendar.zone", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone }) : "");
        fill(body, lines.length ? [el("ol", { class: "lanes" }, lines), el("div", { class: "lanes-ticks" }, el("div", { class: "ticks", "aria-hidden": "true" }, ticks))] : el("p", { class: "help" }, t("calendar.none")),
            page.cursor ? el("p", { class: "help" }, t("calendar.more", { n: number(LINES) })) : null);
    }
    return { load, node: el("section", { class: "card calendar", "aria-labelledby": "calendar-title" }, el("div", { class: "card-head" }, el("h2", { id: "calendar-title" }, t("calendar.title")), sum), body) };
}
