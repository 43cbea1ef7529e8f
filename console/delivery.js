// The delivery of a topic's jobs: target, state of its endpoints, forwarding of dead jobs, and a sample.
import { app } from "./app.js";
import { ask, get, path, post } from "./api.js";
import { button, scoped } from "./button.js";
import { bdi, el, fill, seen } from "./dom.js";
import { formDialog, openDialog } from "./dialog.js";
import { settingsForm } from "./form.js";
import { duration, number, timeOf } from "./format.js";
import { icon } from "./icons.js";
import { lastChange } from "./job_origin.js";
import { menu } from "./menu.js";
import { notice, reason } from "./notice.js";
import { lacks } from "./session.js";
import { KIND_FIELDS } from "./targets.js";
import { noTopic, topicHead, topicOf } from "./topic_head.js";
import { t } from "./words.js";

const AGAIN_MS = 2000;

/** @type {import("./form.js").Field[]} */
const TARGET = [
    { name: "to" }, { name: "max_in_flight", kind: "number", standard: "64" }, { name: "rate" }, { name: "timeout", standard: "10s" },
    { name: "body", standard: "raw" }, { name: "cloudevents", kind: "json" }, { name: "callback", kind: "flag", standard: "false" }, { name: "sign", kind: "json", standard: "default", of: /^(https?:|$)/ }, { name: "dead_on", kind: "json", standard: "[410]", of: /^(https?:|$)/ }, { name: "result", kind: "flag", standard: "false", of: /^(https?:|$)/ }, { name: "headers", kind: "json", of: /^(https?:|$)/ },
    ...KIND_FIELDS,
];
/** @type {import("./form.js").Field[]} */
const DEAD = [
    { name: "to" }, { name: "keep.count", kind: "number" }, { name: "keep.age" }, { name: "keep.bytes" },
    { name: "alert.to" }, { name: "alert.command" }, { name: "alert.every", standard: "10m" },
];

/** {keep: {age}} as {"keep.age"}. */
function flat(object = {}) {
    const out = {};
    for (const [name, value] of Object.entries(object)) {
        if (value && typeof value === "object" && !Array.isArray(value)) for (const [inner, one] of Object.entries(value)) out[`${name}.${inner}`] = one;
        else out[name] = value;
    }
    return out;
}

/** Converts back to a patch; removes a part without members. @param {object} patch @param {object} before */
function deep(patch, before) {
    const out = {};
    for (const [name, value] of Object.entries(patch)) {
        const [part, inner] = name.split(".");
        if (inner === undefined) out[part] = value;
        else (out[part] ??= {})[inner] = value;
    }
    for (const [part, value] of Object.entries(out)) {
        if (!value || typeof value !== "object" || Array.isArray(value)) continue;
        const left = { ...before[part], ...value };
        if (Object.values(left).every((one) => one === null)) out[part] = null;
    }
    return out;
}

/** Sends a sample and returns its results as lines. */
export async function testTarget(topic) {
    const line = el("p", { class: "count", role: "status" }, t("test.wait")), box = el("div", {});
    const end = new AbortController();
    const dialog = openDialog(t("test.title", { topic }), [line, box], [el("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, t("do.close"))], { onClose: () => end.abort(), isWide: true });
    try {
        const result = await post(path("v1", "topics", topic, "deliver-test"), {}, { signal: end.signal });
        fill(line, icon(result.outcome === "done" ? "done" : "critical"), " ", t(result.outcome === "done" ? "test.done" : "test.not", { outcome: result.outcome }));
        line.className = `count ${result.outcome === "done" ? "good" : "bad"}`;
        fill(box, el("dl", { class: "facts lines" }, Object.entries(result).filter(([name, value]) => value !== null && !["topic"].includes(name)).map(([name, value]) => el("div", {}, el("dt", { class: "mono" }, seen(name)),
            el("dd", {}, name.endsWith("_ms") ? duration(value) : Array.isArray(value) ? el("ul", {}, value.map((one) => el("li", {}, bdi(typeof one === "object" ? Object.values(one).join(" ") : one)))) : bdi(typeof value === "object" ? JSON.stringify(value) : value))))));
    } catch (fault) {
        if (!end.signal.aborted) fill(line, reason(fault));
    }
}

function endpointTable(endpoints) {
    if (!endpoints.length) return el("p", { class: "help" }, t("endpoints.none"));
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("endpoints.title") }, el("table", {},
        el("thead", {}, el("tr", {}, ["origin", "state", "inFlight", "done", "failed", "refused", "unsent", "lastError"].map((name) => el("th", { scope: "col", class: ["origin", "state", "lastError"].includes(name) ? "" : "n" }, t(`endpoints.${name}`))))),
        el("tbody", {}, endpoints.map((one) => el("tr", {},
            el("th", { scope: "row" }, bdi(one.origin), " ", el("span", { class: "help" }, one.kind)),
            el("td", {}, el("span", { class: `badge ${one.state === "closed" ? "done" : one.state}` }, icon(one.state === "closed" ? "done" : "warning"), t(`breaker.${one.state}`)), " ", one.state !== "closed" && one.retry_at ? el("span", { class: "help" }, t("breaker.retry"), " ", timeOf(one.retry_at, { isRelative: true })) : one.since_at ? el("span", { class: "help" }, timeOf(one.since_at, { isRelative: true })) : null),
            el("td", { class: "n" }, number(one.in_flight ?? 0)),
            ["done", "failed", "refused", "unsent"].map((name) => el("td", { class: "n" }, number(one.outcomes?.[name] ?? 0))),
            el("td", { class: "wrap" }, one.last_error ? [bdi(one.last_error), " ", el("span", { class: "help" }, one.last_error_at ? timeOf(one.last_error_at, { isRelative: true }) : null)] : el("span", { class: "none" }, "\u2014")))))));
}

/** @param {{topic: string, node: Element, signal: AbortSignal}} page */
export async function show({ topic, node, signal }) {
    const why = lacks("admin", topic);
    let timer = 0;
    const endpoints = el("div", { class: "card-body" });

    async function look() {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (!document.hidden) {
            try {
                const result = await get(path("v1", "topics", topic, "endpoints"), {}, signal);
                fill(endpoints, result.target ? endpointTable(result.endpoints) : el("p", { class: "help" }, t("endpoints.noTarget")));
            } catch (fault) {
                if (signal.aborted) return;
                fill(endpoints, el("p", { class: "help" }, reason(fault)));
                if (fault.status >= 400 && fault.status < 500) return;
            }
        }
        timer = setTimeout(look, AGAIN_MS);
    }

    function form(name, fields, values, words) {
        const made = settingsForm(fields, values, name, why);
        made.follow("to", (to) => made.choose((about) => !about.of || about.of.test(to)));
        const failure = el("p", { class: "form-error", role: "alert" });
        return el("form", { class: "card-body", "data-group": name, on: { submit: async (event) => {
            event.preventDefault();
            fill(failure);
            const patch = deep(made.patch(), words.before ?? {});
            if (!Object.keys(patch).length) return notice(t("settings.same"), "warning");
            try {
                const isEmpty = Object.values({ ...words.before, ...patch }).every((value) => value === null);
                await ask("PATCH", path("v1", "topics", topic), { json: { [name]: isEmpty ? null : patch } });
                await draw();
                notice(t("settings.saved", { n: Object.keys(patch).length }));
                if (document.activeElement === document.body) /** @type {any} */ (node.querySelector(`form[data-group="${name}"] button[type=submit]`))?.focus();
            } catch (fault) {
                fill(failure, reason(fault));
            }
        } } }, made.node, made.preview, failure, el("div", { class: "row" },
            el("button", { type: "submit", class: "primary", disabled: Boolean(why), title: why || null }, t("settings.save")),
            words.before ? menu(t("topic.more"), [scoped(words.remove, "admin", topic, async () => {
                if (await formDialog({ title: words.remove, action: words.remove, isDanger: true, body: el("p", {}, words.what), send: (end) => ask("PATCH", path("v1", "topics", topic), { json: { [name]: null }, signal: end }) })) await draw();
            }, { kind: "danger" })]) : null, why && el("span", { class: "help" }, why)));
    }

    async function draw() {
        const known = await topicOf(topic, signal);
        const head = topicHead(topic, "delivery", known, draw);
        if (!known) return fill(node, head.node, noTopic(topic, draw));
        const { deliver, dead_letter: dead } = known.settings;
        fill(node, head.node,
            app.info?.delivers ? null : el("p", { class: "band warning" }, icon("warning"), t("deliver.isOff")),
            el("section", { class: "card", "aria-labelledby": "endpoints-title" },
                el("div", { class: "card-head" }, el("h2", { id: "endpoints-title" }, t("endpoints.title")), scoped(t("test.button"), "admin", topic, () => testTarget(topic), { why: deliver ? "" : t("endpoints.noTarget") })), endpoints),
            el("section", { class: "card", "aria-labelledby": "target-title" },
                el("div", { class: "card-head" }, el("h2", { id: "target-title" }, t("deliver.title"))), el("p", { class: "help card-note" }, t("deliver.what")), lastChange(topic, signal, /^$|(^|; )(deliver|dead_letter)\./),
                form("deliver", TARGET, deliver, { before: deliver, remove: t("deliver.remove"), what: t("deliver.removeWhat") })),
            el("section", { class: "card", "aria-labelledby": "dead-letter-title" },
                el("div", { class: "card-head" }, el("h2", { id: "dead-letter-title" }, t("dead_letter.title"))), el("p", { class: "help card-note" }, t("dead_letter.what")),
                form("dead_letter", DEAD, flat(dead), { before: dead, remove: t("dead_letter.remove"), what: t("dead_letter.removeWhat") })));
        look();
    }

    signal.addEventListener("abort", () => clearTimeout(timer));
    document.addEventListener("visibilitychange", () => !document.hidden && look(), { signal });
    await draw();
    return t("deliver.page", { topic });
}
