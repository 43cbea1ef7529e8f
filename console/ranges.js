// The range of the curves: ten live minutes, or a part of the day that the server keeps.
import { get } from "./api.js";
import { Curve } from "./chart.js";
import { el } from "./dom.js";
import { now } from "./format.js";
import { notice, reason } from "./notice.js";
import { t } from "./words.js";

const RANGES = { live: null, "1h": 60_000, "6h": 120_000, "24h": 360_000 }; // how long a point of the curve is
const MS = { "1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000 };
const NAMES = { pushed_per_s: "in", delivered_per_s: "out", acked_per_s: "acked", ready: "ready", lateness_p99_ms: "late", oldest_ready_age_ms: "oldest", dead: "dead" };
const AGAIN_MS = 60_000;

/** The curve of an answer. @param {any} history @param {string} range */
function curveFrom(history, range) {
    const step = RANGES[range] ?? 60_000, curve = new Curve({ step, kept: MS[range] / step + 1, young: MS[range] / step });
    const from = Date.parse(history.from), names = history.figures.map((figure) => NAMES[figure]);
    history.points.forEach((point, at) => point && curve.add(from + at * history.interval_ms, Object.fromEntries(names.map((name, index) => [name, point[index]]).filter(([name]) => name))));
    return curve;
}

/** The last ten minutes of a topic, in the form of the history of the overview: each minute has the values of its point. @param {string} topic @param {AbortSignal} signal */
export async function tenMinutes(topic, signal) {
    const { from, interval_ms: step, figures, points } = await get("v1/history", { topic, for: "1h" }, signal), past = [];
    points.forEach((point, index) => {
        const begun = Date.parse(from) + index * step;
        if (!point || index < points.length - 11) return;
        const values = Object.fromEntries(figures.map((name, at) => [name, point[at]]));
        for (let at = begun; at < Math.min(begun + step, now()); at += 5000) past.push({ at: new Date(at).toISOString(), ...values });
    });
    return { points: past };
}

/**
 * A choice of the range. `curve` gives the one to draw: the live one, or one of the server's.
 * @param {Curve} live @param {string|undefined} topic @param {AbortSignal} signal @param {() => void} changed
 */
export function rangeChoice(live, topic, signal, changed) {
    let range = "live", shown = live, timer = 0;
    async function look() {
        clearTimeout(timer);
        const mine = range;
        if (range === "live" || signal.aborted) return;
        if (!document.hidden) {
            try {
                const history = await get("v1/history", { topic, for: range }, signal);
                if (mine !== range) return;
                shown = curveFrom(history, range);
                changed();
            } catch (fault) {
                if (signal.aborted) return;
                notice(reason(fault), "warning");
                if (fault.status >= 400 && fault.status < 500) return choose("live");
            }
        }
        timer = setTimeout(look, AGAIN_MS);
    }
    function choose(name) {
        range = name;
        for (const one of node.children) one.setAttribute("aria-pressed", String(one.dataset.range === range));
        if (range === "live") {
            shown = live;
            changed();
        } else look();
    }
    const node = el("div", { class: "choice ranges", role: "group", "aria-label": t("range.label") }, Object.keys(RANGES).map((name) => el("button", { type: "button", "data-range": name, "aria-pressed": String(name === range), on: { click: () => choose(name) } }, t(`range.${name}`))));
    signal.addEventListener("abort", () => clearTimeout(timer));
    return { node, curve: () => shown, name: () => t(`range.${range}`), isLive: () => range === "live" };
}
