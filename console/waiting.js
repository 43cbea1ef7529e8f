// One change of all waiting jobs that a search finds, by the server in one call. The number is counted before it can be confirmed.
import { path, post } from "./api.js";
import { field, formDialog } from "./dialog.js";
import { el } from "./dom.js";
import { notice } from "./notice.js";
import { dueFields } from "./push.js";
import { counter } from "./topic_actions.js";
import { t } from "./words.js";

/** Returns whether the server can select the jobs of this search: they wait, and an error is not searched. @param {string} verb @param {Record<string, string>} search */
export const isByFilter = (verb, search) => verb !== "redrive" && !search.error && (search.state === "delayed" || (search.state === "ready" && verb !== "run"));

const time = (input) => (input.value ? new Date(input.value).toISOString() : "");

/** @param {string} topic @param {"cancel"|"run"|"reschedule"} verb @param {Record<string, string>} search @returns {Promise<boolean>} whether jobs were changed */
export function changeWaiting(topic, verb, search) {
    const after = el("input", { type: "datetime-local", id: "waiting-after", step: "1" }), before = el("input", { type: "datetime-local", id: "waiting-before", step: "1" });
    const due = verb === "reschedule" ? dueFields("delay") : null, line = el("p", { class: "count", role: "status" });
    const zone = t("due.zone", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
    const filter = () => ({ state: search.state, id_prefix: search.id_prefix, meta: search.meta, due_after: time(after), due_before: time(before) });
    const send = (options, signal) => post(path("v1", "topics", topic, verb), { ...filter(), ...options }, { signal });
    let yes = null;
    // A count needs a due that is valid, whatever the form has.
    const count = counter(async (signal) => (await send({ dry_run: "true", ...(due ? { delay: "0ms" } : {}) }, signal)).jobs, line, () => yes, `bulk.${verb}.do`);
    // Some browsers report a change before it counts, and again when it does.
    for (const input of [after, before]) ["input", "change"].forEach((event) => input.addEventListener(event, count));
    return formDialog({
        title: t(`bulk.${verb}.title`, { topic }), action: t(`bulk.${verb}.do`, { n: 0 }), isDanger: verb === "cancel",
        body: [el("p", {}, t(`bulk.${verb}.what`)), el("div", { class: "fields two" }, field(t("waiting.after"), after, zone), field(t("waiting.before"), before, zone)), due ? due.node : null, line],
        ready: (button) => {
            yes = button;
            count();
        },
        send: async (signal) => notice(t("bulk.finished", { done: (await send(due ? due.query() : {}, signal)).jobs })),
    });
}
