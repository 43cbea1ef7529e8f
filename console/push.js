// Pushes a test job.
import { ask, path } from "./api.js";
import { el, fill } from "./dom.js";
import { field, formDialog } from "./dialog.js";
import { moment } from "./format.js";
import { notice } from "./notice.js";
import { href } from "./router.js";
import { button } from "./button.js";
import { jsonCheck } from "./json_check.js";
import { t } from "./words.js";

const TYPES = ["application/json", "text/plain; charset=utf-8", "application/octet-stream"];

/** Fields for meta: a row for each pair, one more where it is wanted. @param {Record<string, string>} meta */
export function metaFields(meta = {}) {
    const rows = el("div", { class: "pairs" });
    const add = (name = "", value = "") => {
        const row = el("div", { class: "pair" },
            el("input", { type: "text", class: "pair-name", value: name, "aria-label": t("meta.name"), placeholder: t("meta.name"), autocomplete: "off", spellcheck: "false" }),
            el("input", { type: "text", class: "pair-value", value, "aria-label": t("meta.value"), placeholder: t("meta.value"), autocomplete: "off" }),
            el("button", { type: "button", class: "plain", "aria-label": t("meta.remove"), on: { click: () => row.remove() } }, "\u00d7"));
        rows.append(row);
        return row;
    };
    Object.entries(meta).forEach(([name, value]) => add(name, value));
    return {
        node: el("fieldset", { class: "field" }, el("legend", {}, t("meta.title")), rows, el("div", {}, button(t("meta.add"), () => add().querySelector("input").focus()))),
        /** As headers of a push. A value that no header can carry is refused by the browser. */
        pairs: () => [...rows.children].map((row) => [row.querySelector(".pair-name").value.trim(), row.querySelector(".pair-value").value]).filter(([name]) => name),
    };
}

/** The value as bytes that a header may carry: the server reads UTF-8. @param {string} text */
const headerOf = (text) => String.fromCharCode(...new TextEncoder().encode(text));

/** Puts a job. @param {string} topic @param {string} id "" for one that the server makes @param {{body: BodyInit, type: string, query: object, pairs: [string, string][], signal?: AbortSignal}} job */
export function put(topic, id, { body, type, query, pairs, signal }) {
    const headers = Object.fromEntries(pairs.map(([name, value]) => [`Tarry-Meta-${name}`, headerOf(value)]));
    return ask(id ? "PUT" : "POST", id ? path("v1", "topics", topic, "jobs", id) : path("v1", "topics", topic, "jobs"), { query, body, headers: { ...headers, "Content-Type": type }, signal });
}

/** Fields for the due time: now, after a delay, at a time. */
export function dueFields(preset = "now") {
    const kind = el("select", { id: "due-kind", value: preset }, ["now", "delay", "at"].map((value) => el("option", { value }, t(`due.${value}`))));
    const delay = el("input", { type: "text", id: "due-delay", value: "30s", autocomplete: "off" });
    const at = el("input", { type: "datetime-local", id: "due-at", step: "1" });
    const delayField = field(t("due.delay"), delay, t("form.duration")), atField = field(t("due.at"), at, t("due.zone", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone }));
    const choose = () => {
        delayField.hidden = kind.value !== "delay";
        atField.hidden = kind.value !== "at";
    };
    kind.addEventListener("change", choose);
    choose();
    return {
        node: el("div", { class: "fields two" }, field(t("due.when"), kind), delayField, atField),
        query() {
            if (kind.value === "delay") return { delay: delay.value.trim() };
            if (kind.value === "at") {
                if (!at.value) throw Object.assign(new Error(t("due.missing")), { status: 400 });
                return { at: new Date(at.value).toISOString() };
            }
            return { delay: "0ms" };
        },
    };
}

/** @param {string} topic */
export function push(topic) {
    const id = el("input", { type: "text", id: "push-id", maxlength: 128, autocomplete: "off", spellcheck: "false", value: `test-${Date.now().toString(36)}` });
    const body = el("textarea", { id: "push-body", class: "mono", spellcheck: "false", value: '{"test": true}' });
    const type = el("input", { type: "text", id: "push-type", list: "push-types", value: TYPES[0], autocomplete: "off" });
    const due = dueFields(), meta = metaFields(), json = jsonCheck();
    const options = ["priority", "ttl", "lease_for", "max_attempts", "backoff", "callback"].map((name) => [name, el("input", { type: "text", id: `push-${name}`, autocomplete: "off", placeholder: t("settings.asTopic") })]);
    return formDialog({
        title: t("push.title", { topic }), action: t("push.do"), isWide: true,
        body: [
            el("div", { class: "fields two" }, field(t("job.id"), id, t("push.idHelp")), field(t("job.type"), type)), fill(el("datalist", { id: "push-types" }), TYPES.map((value) => el("option", { value }))),
            due.node, field(t("job.body"), body), json.node, meta.node,
            el("details", { class: "fold" }, el("summary", {}, t("push.more")), el("div", { class: "fields two" }, options.map(([name, input]) => field(name, input)))),
        ],
        send: async (signal) => {
            json.check(type.value, body.value);
            const query = { ...due.query(), ...Object.fromEntries(options.map(([name, input]) => [name, input.value.trim()])) };
            const pushed = await put(topic, id.value.trim(), { body: body.value, type: type.value, query, pairs: meta.pairs(), signal });
            notice(t("push.done", { id: pushed.id, when: moment(pushed.due_at) }));
            location.hash = href(["topics", topic, "jobs", pushed.id]);
        },
    });
}
