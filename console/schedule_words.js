// A schedule in words: its plan, its state, its fires and what daylight saving does to them.
import { bdi, el } from "./dom.js";
import { moment, relative, timeOf } from "./format.js";
import { icon } from "./icons.js";
import { has, t } from "./words.js";

const listOf = (value) => (value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]);

/** The expressions or the interval of a specification. @param {any} spec */
export const planOf = (spec) => (spec.every ? t("schedule.everyOf", { every: spec.every }) : listOf(spec.cron).join("; "));

/** "paused", with the end of the pause if it has one. @param {any} schedule */
export function pausedMark(schedule) {
    if (!schedule.paused) return null;
    const until = schedule.paused_until;
    return el("span", { class: "badge paused" }, icon("paused"), until ? t("state.pausedUntil", { when: relative(until) }) : t("state.paused"));
}

/** The next fire of a schedule. @param {any} schedule */
export const nextOf = (schedule) => (schedule.next ? [timeOf(schedule.next, { isRelative: true }), el("span", { class: "help" }, " ", moment(schedule.next, false))] : el("span", { class: "none" }, t("schedule.noNext")));

/** A fire of the past as a badge and, if it was skipped, the reason. @param {any} fire */
export function resultOf(fire) {
    if (!fire) return el("span", { class: "none" }, "\u2014");
    if (fire.result === "fired") return el("span", { class: "badge done" }, icon("done"), t("fire.fired"));
    return [el("span", { class: "badge retrying" }, icon("warning"), t("fire.skipped")), " ", el("span", { class: "help" }, has(`skip.${fire.reason}`) ? t(`skip.${fire.reason}`) : fire.reason)];
}

// The remarks of the server, which are sentences in English.
const REMARKS = [
    [/^moved to the end of the gap: (\S+) /, "remark.moved"],
    [/twice, this is the first/, "remark.first"],
    [/twice, this is the second/, "remark.second"],
    [/^the fire before it was dropped: (\S+) /, "remark.dropped"],
];

/** Returns the effect of daylight saving on a fire. @param {string|undefined} remark */
export function remarkOf(remark) {
    if (!remark) return null;
    for (const [form, key] of REMARKS) {
        const found = remark.match(form);
        if (found) return t(key, { time: (found[1] ?? "").replace("T", " ") });
    }
    return remark;
}

/** Upcoming fires: local time of the zone, UTC, remark. @param {any} answer of a call for upcoming fires */
export function fireList({ zone, fires, more }) {
    if (!fires.length) return el("p", { class: "help" }, t("fires.none"));
    return [
        el("ol", { class: "fires" }, fires.map((fire) => el("li", {},
            el("span", { class: "fire-local" }, fire.local.replace("T", " ").replace(/([+-]\d\d:\d\d)$/, " $1")),
            el("span", { class: "help" }, relative(fire.due_at ?? fire.at), " \u00b7 ", fire.at.slice(11, 19), " UTC"),
            fire.remark ? el("span", { class: "fire-remark" }, icon("warning"), " ", remarkOf(fire.remark)) : null))),
        el("p", { class: "help" }, t(more ? "fires.zone" : "fires.last", { zone })),
    ];
}

/** A link to a job, or to a schedule. */
export const linkTo = (where, text) => el("a", { class: "mono", href: where }, bdi(text));
