// Curves and bars, drawn by ourselves as SVG. Colours come from the style sheet.
import { el, fill, mark, svg } from "./dom.js";

const STEP_MS = 5000, KEPT = 120, YOUNG = 24; // ten minutes are kept

/** Points of several lines over time, one for each step. */
export class Curve {
    /** @param {{step?: number, kept?: number, young?: number}} [options] milliseconds of a point, points that are kept, and those that a new curve has room for */
    constructor({ step = STEP_MS, kept = KEPT, young = YOUNG } = {}) {
        Object.assign(this, { step, kept, young });
        /** @type {{slot: number, values: Record<string, number|null>, count: number}[]} */
        this.points = [];
    }

    /** Adds the values measured at that moment; several within a slot are averaged. @param {number} at @param {Record<string, number|null>} values */
    add(at, values) {
        const slot = Math.floor(at / this.step);
        const last = this.points.at(-1);
        if (last && slot < last.slot) return;
        if (last && slot === last.slot) {
            for (const [name, value] of Object.entries(values)) {
                const old = last.values[name];
                last.values[name] = value === null || value === undefined ? old ?? null : old === null || old === undefined ? value : (old * last.count + value) / (last.count + 1);
            }
            last.count++;
            return;
        }
        this.points.push({ slot, values: { ...values }, count: 1 });
        while (this.points.length > this.kept) this.points.shift();
    }

    max(names) {
        let max = 0;
        for (const point of this.points) for (const name of names) max = Math.max(max, point.values[name] ?? 0);
        return max;
    }
}

/** A small picture of some lines of a curve. @param {string[]} names @param {{height?: number, isFilled?: boolean}} [options] */
export function sparkline(names, { height = 32, isFilled = false } = {}) {
    const width = 120;
    const lines = names.map((_, at) => svg("path", { class: `line line-${at}`, "vector-effect": "non-scaling-stroke" }));
    const area = isFilled ? svg("path", { class: "area" }) : null;
    const node = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", focusable: "false" }, area, lines);
    return {
        node,
        /** @param {Curve} curve @param {string} label what it shows, for those who do not see it */
        draw(curve, label) {
            const points = curve.points;
            const last = points.at(-1)?.slot ?? 0;
            const max = curve.max(names) || 1;
            // A young curve has two minutes, and grows from there.
            const span = Math.max(curve.young, last - (points[0]?.slot ?? last)) || 1;
            const x = (slot) => (width - ((last - slot) / span) * width).toFixed(1);
            const y = (value) => (height - 1.5 - (value / max) * (height - 3)).toFixed(1);
            names.forEach((name, at) => {
                let path = "", from = null, to = null, before = -9;
                for (const point of points) {
                    const value = point.values[name];
                    if (value === null || value === undefined) continue;
                    path += `${point.slot - before > 2 ? "M" : "L"}${x(point.slot)} ${y(value)}`;
                    from ??= x(point.slot);
                    to = x(point.slot);
                    before = point.slot;
                }
                if (points.length === 1 && path) path += `h0.1`;
                mark(lines[at], "d", path || "M0 0");
                if (area && at === 0) mark(area, "d", path ? `${path.replace(/(?!^)M/g, "L")}L${to} ${height}L${from} ${height}Z` : "M0 0");
            });
            mark(node, "aria-label", label);
        },
    };
}

/**
 * Bars with a line of labels beneath. The picture is one image for a screen reader, whose words are `label`.
 * @param {number[]} values @param {{label: string, top: string, ticks: string[], of: (at: number) => string}} words
 */
export function bars(values, { label, top, ticks, of }) {
    const height = 100, max = Math.max(1, ...values), gap = values.length > 100 ? 0.12 : 0.22;
    const value = el("output", { class: "bars-value", "aria-hidden": "true" }, top);
    const rows = values.map((value, at) => {
        const tall = value ? Math.max(1.5, (value / max) * (height - 2)) : 0;
        return svg("g", { class: "bar" },
            svg("rect", { class: "bar-room", x: at, y: 0, width: 1, height }),
            svg("rect", { class: "bar-value", x: at + gap / 2, y: height - tall, width: 1 - gap, height: tall }));
    });
    const picture = svg("svg", { class: "bars", viewBox: `0 0 ${values.length} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, rows);
    picture.addEventListener("pointermove", (event) => {
        const box = picture.getBoundingClientRect();
        const at = Math.min(values.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * values.length)));
        value.textContent = of(at);
    });
    picture.addEventListener("pointerleave", () => (value.textContent = top));
    return el("div", { class: "bars-box" }, value, picture, fill(el("div", { class: "ticks", "aria-hidden": "true" }), ticks.map((tick) => el("span", {}, tick))));
}
