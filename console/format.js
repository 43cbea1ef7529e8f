// Numbers, sizes, durations and times in the language of the page.
import { el, setText } from "./dom.js";
import { app } from "./app.js";
import { t } from "./words.js";

const made = new Map();

function intl(kind, options, english = "en-GB") {
    const key = `${app.language} ${english} ${kind} ${JSON.stringify(options)}`;
    if (!made.has(key)) made.set(key, new Intl[kind](app.language === "zh" ? "zh-CN" : english, options));
    return made.get(key);
}

/** @param {number} value */
export const number = (value) => intl("NumberFormat", {}).format(value);

/** Short where it is long: 12,345 but 1.2M. @param {number} value */
export function short(value) {
    return Math.abs(value) < 100_000 ? number(value) : intl("NumberFormat", { notation: "compact", maximumFractionDigits: 1 }, "en-US").format(value); // British English writes a million as a minute: 1m
}

/** A number per second. @param {number} value */
export function rate(value) {
    return value >= 100_000 ? short(value) : intl("NumberFormat", { maximumFractionDigits: value >= 100 ? 0 : value >= 10 ? 1 : 2 }).format(value);
}

export function percent(share) {
    return intl("NumberFormat", { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 }).format(share);
}

/** @param {number} value */
export function bytes(value) {
    const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
    const words = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (value >= 1024 && at < units.length - 1) {
        value /= 1024;
        at++;
    }
    return `${intl("NumberFormat", { maximumFractionDigits: at && value < 100 ? 1 : 0 }).format(value)} ${words[at]}`;
}

const STEPS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]];

function unit(value, name, digits) {
    return intl("NumberFormat", { style: "unit", unit: name, unitDisplay: "narrow", maximumFractionDigits: digits }).format(value);
}

/** The two largest parts: 2h 5m, 1.3s, 40ms. @param {number} ms */
export function duration(ms) {
    if (ms < 0) return "\u2212" + duration(-ms);
    if (ms < 1000) return unit(ms, "millisecond", ms < 10 && ms % 1 ? 1 : 0);
    if (ms < 60_000) return unit(ms / 1000, "second", ms < 10_000 ? 1 : 0);
    const at = STEPS.findIndex(([, size]) => ms >= size);
    const [name, size] = STEPS[at];
    const whole = Math.floor(ms / size);
    const [under, part] = STEPS[at + 1];
    const rest = Math.floor((ms - whole * size) / part);
    return rest && whole < 100 ? `${unit(whole, name, 0)} ${unit(rest, under, 0)}` : unit(whole, name, 0);
}

/** The present time by the server's clock. */
export const now = () => Date.now() + app.skew;

const sameDay = (a, b) => new Date(a).toDateString() === new Date(b).toDateString();

/** A moment: the time of today, else date and time. @param {string|number} at */
export function moment(at, withSeconds = true) {
    const date = new Date(at);
    const clock = { hour: "2-digit", minute: "2-digit", ...(withSeconds ? { second: "2-digit" } : {}), hourCycle: "h23" };
    if (sameDay(date.getTime(), now())) return intl("DateTimeFormat", clock).format(date);
    const year = date.getFullYear() === new Date(now()).getFullYear() ? {} : { year: "numeric" };
    return intl("DateTimeFormat", { ...year, month: "short", day: "numeric", ...clock }).format(date);
}

/** A moment in full, with its zone. */
export function fully(at) {
    return intl("DateTimeFormat", { dateStyle: "full", timeStyle: "long" }).format(new Date(at));
}

/** "in 5m", "3h ago". @param {string|number} at */
export function relative(at) {
    const away = new Date(at).getTime() - now();
    if (Math.abs(away) < 1000) return t("time.now");
    const whole = Math.abs(away) < 60_000 ? Math.round(away / 1000) * 1000 : away;
    return whole > 0 ? t("time.in", { d: duration(whole) }) : t("time.ago", { d: duration(-whole) });
}

/** An element of time; `relative` ones go on by themselves. @param {string|null|undefined} at */
export function timeOf(at, { isRelative = false } = {}) {
    if (!at) return el("span", { class: "none" }, "\u2014");
    return el("time", { datetime: at, title: fully(at), "data-relative": isRelative }, isRelative ? relative(at) : moment(at));
}

/** Updates all times once a second while the page is visible. */
export function tick() {
    if (document.hidden) return;
    for (const node of document.querySelectorAll("time[data-relative]")) setText(node, relative(node.getAttribute("datetime") ?? ""));
}
