// One schedule: its next fires, its last fires with the reasons of skips, its specification.
import { get, path } from "./api.js";
import { bodyCard, bytesOf } from "./body.js";
import { scoped } from "./button.js";
import { bdi, el, fill } from "./dom.js";
import { number, timeOf } from "./format.js";
import { menu } from "./menu.js";
import { reason } from "./notice.js";
import { go, href } from "./router.js";
import { backfill, pause, remove, resume, run } from "./schedule_actions.js";
import { editSchedule } from "./schedule_form.js";
import { fireList, linkTo, pausedMark, planOf, resultOf } from "./schedule_words.js";
import { trail } from "./topic_head.js";
import { t } from "./words.js";

const AGAIN_MS = 5000, FIRES = 10;
const OWN = ["topic", "cron", "every", "zone", "body", "body_base64", "note"]; // shown by themselves

const card = (id, title, ...children) => el("section", { class: "card", "aria-labelledby": `${id}-title` }, el("div", { class: "card-head" }, el("h2", { id: `${id}-title` }, title)), el("div", { class: "card-body" }, children));

const factOf = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

/** The last fires, newest first. @param {any} schedule */
function history({ spec, last }) {
    if (!last.length) return el("p", { class: "help" }, t("history.none"));
    return el("ol", { class: "history" }, last.map((fire) => el("li", {},
        el("span", { class: "history-at" }, timeOf(fire.at), " ", timeOf(fire.at, { isRelative: true })),
        el("span", {}, resultOf(fire), fire.job ? [" ", linkTo(href(["topics", spec.topic, "jobs", fire.job]), fire.job)] : null))));
}

function totals({ totals: { fired, skipped } }) {
    return el("dl", { class: "facts" }, factOf(t("schedules.fired"), number(fired)), Object.entries(skipped).map(([name, n]) => factOf(t(`total.${name}`), number(n))));
}

function specification({ spec }) {
    const others = Object.entries(spec).filter(([name]) => !OWN.includes(name));
    return el("dl", { class: "facts lines" },
        factOf(t("schedules.topic"), el("a", { href: href(["topics", spec.topic]) }, bdi(spec.topic))),
        factOf(t("schedules.plan"), el("span", { class: "mono" }, bdi(planOf(spec)))),
        factOf(t("schedule.zone"), bdi(spec.zone ?? "UTC")),
        others.map(([name, value]) => factOf(name, bdi(typeof value === "object" ? JSON.stringify(value) : String(value)))));
}

function body({ name, spec }) {
    if (spec.body === undefined && spec.body_base64 === undefined) return null;
    const isText = typeof spec.body === "string";
    const bytes = spec.body === undefined ? bytesOf(spec.body_base64) : new TextEncoder().encode(isText ? spec.body : JSON.stringify(spec.body));
    return bodyCard(bytes, spec.content_type ?? (isText ? "text/plain" : "application/json"), name);
}

/** @param {{schedule: string, node: Element, signal: AbortSignal}} page */
export async function show({ schedule: name, node, signal }) {
    let known, shown = "", drawn = "", timer = 0;
    const marks = el("span", { class: "marks" }), actions = el("div", { class: "row actions", role: "group", "aria-label": t("schedule.actions") });
    const next = el("div", { class: "card-body" }, el("p", { class: "help" }, t("page.wait"))), past = el("div", { class: "card-body" });
    const sums = el("div", { class: "card-body" }), rest = el("div", { class: "page" });
    const then = (work) => async () => {
        if (await work(known)) await load();
    };

    function drawActions() {
        const key = JSON.stringify([known.spec.topic, known.paused, known.spec.paused]);
        if (key === drawn || actions.querySelector("details[open]")) return; // an open menu stays as it is
        drawn = key;
        const focus = [...actions.querySelectorAll("button, summary")].indexOf(/** @type {any} */ (document.activeElement));
        const may = (label, work, options) => scoped(label, "push", known.spec.topic, work, options);
        fill(actions,
            may(t("run.button"), then(run), { kind: "primary" }),
            known.paused && !known.spec.paused ? may(t("pause.resume"), then(resume)) : may(t("pause.button"), then(pause), { why: known.spec.paused ? t("schedule.pausedBySpec") : "" }),
            may(t("backfill.button"), then(backfill)),
            may(t("schedule.edit"), then(() => editSchedule(known))),
            menu(t("topic.more"), [may(t("delete.button"), async () => {
                if (await remove(known)) go(["schedules"]);
            }, { kind: "danger" })]));
        /** @type {any} */ (actions.querySelectorAll("button, summary")[focus])?.focus();
    }

    async function drawNext() {
        const answer = known.next ? await get(path("v1", "schedules", name, "next"), { n: FIRES }, signal).catch((fault) => {
            if (signal.aborted) throw fault;
            return fault;
        }) : { fires: [] };
        fill(next, known.paused ? el("p", { class: "band warning" }, t(known.paused_until ? "schedule.isPausedUntil" : "schedule.isPaused"), known.paused_until ? timeOf(known.paused_until) : null) : null,
            answer instanceof Error ? el("p", { class: "form-error" }, reason(answer)) : fireList(answer));
    }

    async function load() {
        known = await get(path("v1", "schedules", name), {}, signal);
        const key = JSON.stringify(known);
        drawActions();
        if (key === shown) return;
        const isSame = shown && JSON.stringify(JSON.parse(shown).spec) === JSON.stringify(known.spec);
        shown = key;
        fill(marks, pausedMark(known));
        if (!past.contains(document.activeElement)) fill(past, history(known));
        fill(sums, totals(known));
        if (!isSame) fill(rest, card("spec", t("schedule.spec"), known.spec.note ? el("p", {}, bdi(known.spec.note)) : null, specification(known)), body(known));
        await drawNext();
    }

    async function again() {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (!document.hidden && known) await load().catch(() => {});
        if (!signal.aborted) timer = setTimeout(again, AGAIN_MS);
    }
    signal.addEventListener("abort", () => clearTimeout(timer));

    fill(node,
        el("div", { class: "topic-head" }, trail([[t("nav.schedules"), ["schedules"]]]), el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, bdi(name), marks), actions)),
        el("div", { class: "halves" },
            el("section", { class: "card", "aria-labelledby": "fires-title" }, el("div", { class: "card-head" }, el("h2", { id: "fires-title" }, t("fires.title"))), next),
            el("section", { class: "card", "aria-labelledby": "history-title" }, el("div", { class: "card-head" }, el("h2", { id: "history-title" }, t("history.title"))), past)),
        el("section", { class: "card", "aria-labelledby": "totals-title" }, el("div", { class: "card-head" }, el("h2", { id: "totals-title" }, t("schedule.totals"))), sums),
        rest);
    await load();
    timer = setTimeout(again, AGAIN_MS);
    return name;
}
