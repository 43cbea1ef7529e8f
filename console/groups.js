// The groups of a topic: which of them wait, how many of their jobs are in flight, what holds them, and their settings.
import { ask, get, path, post } from "./api.js";
import { button, scoped } from "./button.js";
import { field, formDialog } from "./dialog.js";
import { bdi, el, fill, setText } from "./dom.js";
import { settingsForm } from "./form.js";
import { number, timeOf } from "./format.js";
import { heldWords } from "./held.js";
import { notice, reason, report } from "./notice.js";
import { note } from "./router.js";
import { pausedBadge } from "./state.js";
import { pauseFields } from "./topic_actions.js";
import { noTopic, topicHead, topicOf } from "./topic_head.js";
import { t } from "./words.js";

const PAGE = 50, AGAIN_MS = 5_000;
const ORDERS = ["ready", "leased", "held", "name"];

/** @type {import("./form.js").Field[]} */
const FIELDS = [
    { name: "weight", kind: "number", standard: "1" },
    { name: "limit", kind: "number" },
    { name: "rate" },
    { name: "burst", kind: "number" },
    { name: "max_jobs", kind: "number" },
];

/** Returns the values that hold for a group without settings of its own. @param {any} settings of the topic */
const fieldsOf = (settings) => FIELDS.map((one) => ({ ...one, standard: one.name === "weight" ? one.standard : settings[`group_${one.name}`]?.toString() }));

const nameOf = ({ group }) => (group ? bdi(group) : el("span", { class: "help" }, t("groups.none")));

const shownSettings = (settings) => Object.entries(settings).filter(([name]) => name !== "paused" && name !== "paused_until").map(([name, value]) => `${name} ${value}`).join(", ");

/** The group, or zeros if it has no jobs and no settings. */
async function look(topic, group, signal) {
    try {
        return await get(path("v1", "topics", topic, "groups", group), {}, signal);
    } catch (fault) {
        if (fault.status === 404 && fault.code === "not_found") return { group, ready: 0, leased: 0, oldest_ready_due_at: null, settings: {} };
        throw fault;
    }
}

/** Changes the settings of a group. The server replaces all of them, so they are read again first. */
function change(topic, group, known, topicSettings) {
    const form = settingsForm(fieldsOf(topicSettings), known, "groups", "");
    return formDialog({
        title: t("groups.change", { group }), action: t("settings.save"), isWide: true,
        body: [el("p", {}, t("groups.changeWhat")), form.node],
        send: async (signal) => {
            const { settings } = await look(topic, group, signal);
            const next = { ...settings, ...form.patch() };
            for (const [name, value] of Object.entries(next)) if (value === null) delete next[name];
            await ask("PUT", path("v1", "topics", topic, "groups", group), { json: next, signal });
            notice(t("groups.changed", { group }));
        },
    });
}

function pauseGroup(topic, group) {
    const fields = pauseFields();
    return formDialog({
        title: t("pause.title", { topic: group }), action: t("pause.do"),
        body: [el("p", {}, t("groups.pauseWhat")), fields.node],
        send: async (signal) => {
            const time = fields.time();
            await post(path("v1", "topics", topic, "groups", group, "pause"), { for: time }, { signal });
            notice(time ? t("pause.doneFor", { topic: group, time }) : t("pause.done", { topic: group }));
        },
    });
}

function reset(topic, group) {
    return formDialog({
        title: t("groups.reset", { group }), action: t("groups.resetDo"), isDanger: true,
        body: el("p", {}, t("groups.resetWhat")),
        send: async (signal) => {
            await ask("DELETE", path("v1", "topics", topic, "groups", group), { signal });
            notice(t("groups.resetDone", { group }));
        },
    });
}

const resumeGroup = (topic, group) => report(() => post(path("v1", "topics", topic, "groups", group, "resume")), t("pause.resumed", { topic: group }));

/** @param {{topic: string, query: URLSearchParams, node: Element, signal: AbortSignal}} page */
export async function show({ topic, query, node, signal }) {
    let known = await topicOf(topic, signal);
    const head = topicHead(topic, "groups", known, again);
    if (!known) {
        fill(node, head.node, noTopic(topic, () => location.reload()));
        return topic;
    }
    const search = { name: query?.get("name") ?? "", order: ORDERS.includes(query?.get("order") ?? "") ? query.get("order") : "ready" };
    let before = [], cursor = "", timer = 0;
    const body = el("tbody", { role: "rowgroup" }), pager = el("div", { class: "row pager" }), status = el("span", { class: "help", role: "status" });

    const then = (work) => async () => {
        if (await work()) await again();
    };

    function actions({ group, settings, held_by: by }) {
        if (!group) return el("span", { class: "help" }, t("groups.noneHelp"));
        return [
            settings.paused ? scoped(t("pause.resume"), "admin", topic, then(() => resumeGroup(topic, group)), { name: t("groups.resumeNamed", { group }) })
                : scoped(t("pause.button"), "admin", topic, then(() => pauseGroup(topic, group)), { name: t("groups.pauseNamed", { group }) }),
            scoped(t("groups.settings"), "admin", topic, then(() => change(topic, group, settings, known.settings)), { name: t("groups.change", { group }) }),
            Object.keys(settings).length || by === "hold" ? scoped(t("groups.resetButton"), "admin", topic, then(() => reset(topic, group)), { name: t("groups.reset", { group }) }) : null,
        ];
    }

    function row(one) {
        const cell = (word, kind, ...children) => el("td", { class: kind, role: "cell", "data-label": t(`groups.${word}`) }, children);
        return el("tr", { role: "row", "data-group": one.group },
            el("th", { scope: "row", role: "rowheader", class: "topic-name" }, nameOf(one), el("span", { class: "marks" }, pausedBadge(one.settings))),
            cell("ready", "n", number(one.ready)),
            cell("leased", "n", number(one.leased)),
            cell("held", "", heldWords(one, known, one)),
            cell("oldest", "n", timeOf(one.oldest_ready_due_at, { isRelative: true })),
            cell("own", "", shownSettings(one.settings)),
            el("td", { role: "cell" }, el("div", { class: "row" }, actions(one))));
    }

    async function read() {
        if (search.name) return { groups: [await look(topic, search.name, signal)], cursor: null };
        return get(path("v1", "topics", topic, "groups"), { order: search.order, limit: PAGE, cursor }, signal);
    }

    /** The rows stay while the user is in them or in a dialog, unless `isChanged`: then the focus moves to the same row. */
    async function load(isChanged = false) {
        const page = await read();
        const at = body.contains(document.activeElement) ? /** @type {any} */ (document.activeElement).closest("tr").dataset.group : null;
        if (isChanged || (at === null && !document.querySelector("dialog[open]"))) fill(body, page.groups.map(row));
        if (at !== null && isChanged) [...body.rows].find((one) => one.dataset.group === at)?.querySelector("button")?.focus();
        if (!page.groups.length) fill(body, el("tr", { role: "row" }, el("td", { colspan: "7", role: "cell" }, t(search.order === "held" ? "groups.noneHeld" : "groups.empty"))));
        setText(status, t("page.number", { n: before.length + 1 }));
        if (!pager.contains(document.activeElement) || pager.dataset.cursor !== cursor) {
            fill(pager,
                button(t("page.before"), () => {
                    cursor = before.pop() ?? "";
                    return load();
                }, { why: before.length ? "" : t("page.isFirst") }),
                button(t("page.next"), () => {
                    before.push(cursor);
                    cursor = page.cursor;
                    return load();
                }, { why: page.cursor ? "" : t("page.isLast") }), status);
            pager.dataset.cursor = cursor;
        }
    }

    async function again() {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (!document.hidden) {
            try {
                known = (await topicOf(topic, signal)) ?? known;
                head.update(known);
                await load(true);
            } catch {
                // The next try follows; the head shows a server that is away.
            }
        }
        wait();
    }

    async function refresh() {
        if (!document.hidden) await load().catch(() => {});
        if (!signal.aborted) wait();
    }
    function wait() {
        clearTimeout(timer);
        timer = setTimeout(refresh, AGAIN_MS);
    }
    signal.addEventListener("abort", () => clearTimeout(timer));

    const name = el("input", { type: "search", id: "groups-name", value: search.name, autocomplete: "off", spellcheck: "false", maxlength: "64" });
    const order = el("select", { id: "groups-order", value: search.order }, ORDERS.map((one) => el("option", { value: one }, t(`groups.order.${one}`))));
    const begin = () => {
        Object.assign(search, { name: name.value.trim(), order: order.value });
        before = [];
        cursor = "";
        note(["topics", topic, "groups"], search);
        return load();
    };
    order.addEventListener("change", begin);
    const form = el("form", { class: "search", role: "search", "aria-label": t("groups.search"), on: { submit: (event) => {
        event.preventDefault();
        begin();
    } } }, field(t("groups.name"), name, t("groups.nameHelp")), field(t("groups.order"), order),
        el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, t("search.do")), button(t("search.clear"), () => {
            name.value = "";
            return begin();
        }), button(t("do.refresh"), again)));
    fill(node, head.node, el("p", { class: "help" }, t("groups.what")), form,
        el("section", { class: "card", "aria-label": t("groups.title") }, el("div", { class: "card-body flush" },
            el("table", { class: "groups", role: "table" },
                el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ["group", "ready", "leased", "held", "oldest", "own"].map((word) => el("th", { scope: "col", role: "columnheader", class: ["ready", "leased", "oldest"].includes(word) ? "n" : "" }, t(`groups.${word}`))),
                    el("td", { role: "cell" }))), body), pager)));
    try {
        await load();
        wait();
    } catch (fault) {
        if (fault.code !== "unsupported") throw fault;
        fill(node, head.node, el("section", { class: "card" }, el("div", { class: "card-body" }, el("p", {}, reason(fault)))));
    }
    return t("groups.page", { topic });
}
