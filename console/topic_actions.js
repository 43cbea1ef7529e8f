// Actions on a whole topic: pause, resume, redrive, purge, delete. Actions that remove jobs first show how many.
import { get, path, post, ask } from "./api.js";
import { formDialog, field } from "./dialog.js";
import { el, setText } from "./dom.js";
import { number } from "./format.js";
import { notice, reason, report } from "./notice.js";
import { STATES } from "./state.js";
import { t } from "./words.js";

const of = (topic, ...more) => path("v1", "topics", topic, ...more);

export const resume = (topic) => report(() => post(of(topic, "resume")), t("pause.resumed", { topic }));

/** Fields for how long: a list of times, or another one. `time` returns "" for a pause without an end. */
export function pauseFields() {
    const choice = el("select", { id: "pause-for", value: "" }, ["", "5m", "15m", "1h", "8h", "24h", "other"].map((value) => el("option", { value }, value === "" ? t("pause.open") : value === "other" ? t("pause.other") : value)));
    const other = el("input", { type: "text", id: "pause-other", placeholder: "90m", autocomplete: "off" });
    const more = field(t("pause.other"), other, t("form.duration"));
    more.hidden = true;
    choice.addEventListener("change", () => (more.hidden = choice.value !== "other"));
    return { node: [field(t("pause.for"), choice), more], time: () => (choice.value === "other" ? other.value.trim() : choice.value) };
}

/** Pauses for a time, or until the topic is resumed. @param {string} topic */
export function pause(topic) {
    const fields = pauseFields();
    return formDialog({
        title: t("pause.title", { topic }), action: t("pause.do"),
        body: [el("p", {}, t("pause.what")), fields.node],
        send: async (signal) => {
            const time = fields.time();
            await post(of(topic, "pause"), { for: time }, { signal });
            notice(time ? t("pause.doneFor", { topic, time }) : t("pause.done", { topic }));
        },
    });
}

/** Counts what a choice would concern, whenever it changes. @param {(signal: AbortSignal) => Promise<number>} ask_ @param {any} line @param {() => any} button @param {string} word for the button */
export function counter(ask_, line, button, word) {
    let end = new AbortController(), timer = 0;
    return () => {
        clearTimeout(timer);
        end.abort();
        end = new AbortController();
        const mine = end.signal;
        setText(line, t("count.wait"));
        const yes = button();
        if (yes) yes.disabled = true;
        timer = setTimeout(async () => {
            try {
                const n = await ask_(mine);
                if (mine.aborted) return;
                setText(line, t("count.found", { n }));
                setText(button(), t(word, { n }));
                button().disabled = n === 0;
            } catch (fault) {
                if (!mine.aborted) setText(line, reason(fault));
            }
        }, 250);
    };
}

/** The filter of dead jobs: error, id, how many. */
function filterFields(preset) {
    const error = el("input", { type: "text", id: "filter-error", autocomplete: "off", value: preset.error ?? "" });
    const prefix = el("input", { type: "text", id: "filter-prefix", autocomplete: "off", spellcheck: "false", value: preset.id_prefix ?? "" });
    const max = el("input", { type: "number", id: "filter-max", min: 1, max: 1000, value: "" });
    return {
        node: el("div", { class: "fields two" }, field(t("filter.error"), error), field(t("filter.prefix"), prefix), field(t("filter.max"), max, t("filter.maxHelp"))),
        inputs: [error, prefix, max],
        query: () => ({ error: error.value, id_prefix: prefix.value.trim(), max: max.value }),
        isSet: () => Boolean(error.value || prefix.value.trim() || max.value),
    };
}

/** Dead jobs go round again: all, or those of a filter. @param {string} topic @param {{error?: string, id_prefix?: string}} [preset] */
export function redrive(topic, preset = {}) {
    const filter = filterFields(preset), line = el("p", { class: "count", role: "status" });
    let yes = null;
    const count = counter(async (signal) => {
        if (!filter.isSet()) return (await get(of(topic), {}, signal)).counts.dead;
        return (await post(of(topic, "redrive"), { ...filter.query(), dry_run: "true" }, { signal })).jobs;
    }, line, () => yes, "redrive.do");
    filter.inputs.forEach((input) => input.addEventListener("input", count));
    return formDialog({
        title: t("redrive.title", { topic }), action: t("redrive.do", { n: 0 }),
        body: [el("p", {}, t("redrive.what")), filter.node, line],
        ready: (button) => {
            yes = button;
            count();
        },
        send: async (signal) => {
            const result = await post(of(topic, "redrive"), filter.query(), { signal });
            notice(t("redrive.done", { n: result.jobs }));
        },
    });
}

/** Jobs are dropped. @param {string} topic @param {{state?: string, error?: string, id_prefix?: string}} [preset] */
export function purge(topic, preset = {}) {
    const state = el("select", { id: "purge-state", value: preset.state ?? "dead" }, ["delayed", "ready", "dead", "", "finished"].map((value) => el("option", { value }, value ? t(`purge.${value}`) : t("purge.all"))));
    const filter = filterFields(preset), line = el("p", { class: "count", role: "status" });
    let yes = null;
    const isFiltered = () => state.value === "dead" && filter.isSet();
    const count = counter(async (signal) => {
        if (isFiltered()) return (await post(of(topic, "purge"), { state: "dead", ...filter.query(), dry_run: "true" }, { signal })).jobs;
        const { counts } = await get(of(topic), {}, signal);
        const delayed = counts.delayed + counts.retrying;
        return { delayed, ready: counts.ready, dead: counts.dead, finished: counts.finished ?? 0 }[state.value] ?? delayed + counts.ready + counts.dead;
    }, line, () => yes, "purge.do");
    const chosen = () => {
        filter.node.hidden = state.value !== "dead";
        count();
    };
    // Some browsers report a choice before it counts, and again when it does.
    ["input", "change"].forEach((event) => state.addEventListener(event, chosen));
    filter.inputs.forEach((input) => input.addEventListener("input", count));
    return formDialog({
        title: t("purge.title", { topic }), action: t("purge.do", { n: 0 }), isDanger: true,
        body: [el("p", {}, t("purge.what")), field(t("purge.which"), state), filter.node, line],
        ready: (button) => {
            yes = button;
            count();
        },
        send: async (signal) => {
            const result = await post(of(topic, "purge"), { state: state.value, ...(isFiltered() ? filter.query() : {}) }, { signal });
            notice(t("purge.done", { n: result.jobs }));
        },
    });
}

/** The topic ends with all its jobs; its name is typed first. @param {string} topic @param {any} counts */
export function remove(topic, counts) {
    const name = el("input", { type: "text", id: "delete-name", autocomplete: "off", spellcheck: "false", required: true });
    const n = STATES.reduce((sum, state) => sum + Number(counts[state] ?? 0), 0);
    return formDialog({
        title: t("delete.title", { topic }), action: t("delete.do"), isDanger: true,
        body: [el("p", {}, t("delete.what", { n: number(n), count: n })), field(t("delete.name", { topic }), name)],
        ready: (button) => {
            button.disabled = true;
            name.addEventListener("input", () => (button.disabled = name.value !== topic));
        },
        send: async (signal) => {
            const result = await ask("DELETE", of(topic), { signal });
            notice(t("delete.done", { topic, n: result.jobs }));
        },
    });
}
