// A topic's settings, with the effective values of unset ones.
import { ask, path } from "./api.js";
import { app } from "./app.js";
import { button } from "./button.js";
import { el, fill } from "./dom.js";
import { settingsForm } from "./form.js";
import { lastChange } from "./job_origin.js";
import { notice, reason } from "./notice.js";
import { lacks } from "./session.js";
import { noTopic, topicHead, topicOf } from "./topic_head.js";
import { t } from "./words.js";

/** @type {import("./form.js").Field[]} */
const FIELDS = [
    { name: "lease_for", standard: "60s" },
    { name: "max_attempts", standard: "16" },
    { name: "backoff", standard: "exp:1s..10m" },
    { name: "ttl" },
    { name: "priority", kind: "number", standard: "100" },
    { name: "on_conflict", kind: "choice", choices: ["replace", "keep", "reject"], standard: "replace" },
    { name: "dedup_window", standard: "0" },
    { name: "dead_letter_expired", kind: "flag", standard: "false" },
    { name: "max_jobs", kind: "number" },
    { name: "push_rate" },
    { name: "keep_finished", standard: "0" },
    { name: "keep_finished_max", kind: "number", standard: "1000000" },
    { name: "keep_finished_bytes", kind: "number", standard: "1073741824" },
    { name: "keep_body", kind: "flag", standard: "false" },
    { name: "history", of: /^(postgres|mysql)$/ },
    { name: "limit", kind: "number" },
    { name: "rate" },
    { name: "burst", kind: "number" },
    { name: "group_limit", kind: "number" },
    { name: "group_rate" },
    { name: "group_burst", kind: "number" },
    { name: "group_max_jobs", kind: "number" },
    { name: "group_order", kind: "choice", choices: ["free", "strict"], standard: "free" },
    { name: "one_shard", kind: "flag", standard: "false" },
];

/** @param {{topic: string, node: Element, signal: AbortSignal}} page */
export async function show({ topic, node, signal }) {
    const why = lacks("admin", topic);

    async function draw() {
        const known = await topicOf(topic, signal);
        const head = topicHead(topic, "settings", known, draw);
        if (!known) return fill(node, head.node, noTopic(topic, draw));
        // false is what the server always shows; it is also what counts without it
        const set = { ...known.settings, dead_letter_expired: known.settings.dead_letter_expired || undefined };
        const form = settingsForm(FIELDS, set, "settings", why);
        form.choose((about) => !about.of || about.of.test(app.info?.store ?? ""));
        const failure = el("p", { class: "form-error", role: "alert" });
        const save = el("button", { type: "submit", class: "primary", disabled: Boolean(why), title: why || null }, t("settings.save"));
        const box = el("form", { class: "card-body", on: { submit: async (event) => {
            event.preventDefault();
            fill(failure);
            const patch = form.patch();
            if (!Object.keys(patch).length) return notice(t("settings.same"), "warning");
            try {
                await ask("PATCH", path("v1", "topics", topic), { json: patch });
                await draw();
                notice(t("settings.saved", { n: Object.keys(patch).length }));
                // The button that had the focus is gone; a user who went on keeps their place.
                if (document.activeElement === document.body) /** @type {any} */ (node.querySelector("form button[type=submit]"))?.focus();
            } catch (fault) {
                fill(failure, reason(fault));
            }
        } } }, form.node, form.preview, failure, el("div", { class: "row" }, save, button(t("settings.reset"), draw), why && el("span", { class: "help" }, why)));
        fill(node, head.node, el("section", { class: "card", "aria-labelledby": "settings-title" },
            el("div", { class: "card-head" }, el("h2", { id: "settings-title" }, t("settings.title"))), el("p", { class: "help card-note" }, t("settings.what")), lastChange(topic, signal), box));
    }

    await draw();
    return t("settings.page", { topic });
}
