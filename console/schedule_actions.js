// Actions on one schedule: run now, pause, resume, backfill, delete.
import { ask, path, post } from "./api.js";
import { field, formDialog } from "./dialog.js";
import { el } from "./dom.js";
import { now } from "./format.js";
import { notice, report } from "./notice.js";
import { href } from "./router.js";
import { pauseFields } from "./topic_actions.js";
import { t } from "./words.js";

const of = (name, ...more) => path("v1", "schedules", name, ...more);

/** Pushes a job now; the plan does not change. @param {any} schedule */
export const run = ({ name }) => report(() => post(of(name, "run")), (done) => t(done.result === "fired" ? "run.done" : "run.overlap", { id: done.job }));

export const resume = ({ name }) => report(() => post(of(name, "resume")), t("pause.resumed", { topic: name }));

/** Pauses for a time, or until the schedule is resumed. @param {any} schedule */
export function pause({ name }) {
    const fields = pauseFields();
    return formDialog({
        title: t("pause.title", { topic: name }), action: t("pause.do"), body: [el("p", {}, t("schedule.pauseWhat")), fields.node],
        send: async (signal) => {
            const time = fields.time();
            await post(of(name, "pause"), { for: time }, { signal });
            notice(time ? t("pause.doneFor", { topic: name, time }) : t("pause.done", { topic: name }));
        },
    });
}

/** The value of a field of date and time, for a moment. @param {number} at */
function localOf(at) {
    const date = new Date(at), two = (value) => String(value).padStart(2, "0");
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Pushes the fires of a past time span. @param {any} schedule */
export function backfill({ name }) {
    const time = (id, at) => el("input", { type: "datetime-local", id, step: "1", required: true, value: localOf(at) });
    const from = time("backfill-from", now() - 24 * 3_600_000), to = time("backfill-to", now() - 60_000);
    const pace = el("input", { type: "text", id: "backfill-pace", value: "1s", autocomplete: "off" });
    const zone = t("due.zone", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
    return formDialog({
        title: t("backfill.title", { name }), action: t("backfill.do"),
        body: [el("p", {}, t("backfill.what")), el("div", { class: "fields two" }, field(t("backfill.from"), from, zone), field(t("backfill.to"), to, zone), field(t("backfill.pace"), pace, t("form.duration")))],
        send: async (signal) => {
            const iso = (input) => new Date(input.value).toISOString();
            const done = await post(of(name, "backfill"), { from: iso(from), to: iso(to), pace: pace.value.trim() }, { signal });
            notice(t("backfill.done", { n: done.pushed, existed: done.existed }));
        },
    });
}

/** Deletes a schedule; its jobs that are due stay. @param {any} schedule */
export function remove({ name, spec }) {
    return formDialog({
        title: t("delete.title", { topic: name }), action: t("schedule.delete"), isDanger: true,
        body: el("p", {}, t("schedule.deleteWhat"), " ", el("a", { href: href(["topics", spec.topic, "jobs"]) }, t("jobs.page", { topic: spec.topic }))),
        send: async (signal) => {
            await ask("DELETE", of(name), { signal });
            notice(t("schedule.deleted", { name }));
        },
    });
}
