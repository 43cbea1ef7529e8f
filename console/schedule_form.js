// The form of a schedule, with a live preview of its next fires.
import { ask, path, post } from "./api.js";
import { field, formDialog } from "./dialog.js";
import { el, fill, mark } from "./dom.js";
import { jsonCheck } from "./json_check.js";
import { notice, reason } from "./notice.js";
import { metaFields } from "./push.js";
import { fireList } from "./schedule_words.js";
import { t } from "./words.js";

const PREVIEW = 6, PREVIEW_MS = 300;
const OVERLAP = ["allow", "skip", "after", "replace"];
// Members that are one text or one choice; "" means the default, and the member is left out.
const CHOICES = { overlap: OVERLAP, missed: ["last", "all", "none"], gap: ["after", "skip"], fold: ["first", "last", "both"] };
const TEXTS = { phase: "0", catch_up: "24h", grace: "1m", jitter: "0", start: "", end: "", count: "", owner: "", note: "" };
const OPTIONS = ["priority", "group", "ttl", "lease_for", "max_attempts", "backoff", "callback"];
const NUMBERS = ["count", "priority", "max_attempts"];

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** A body as text for its field. @param {any} spec */
const bodyOf = (spec) => (spec.body === undefined ? "" : typeof spec.body === "string" ? spec.body : JSON.stringify(spec.body, null, 1));

/** The body of the field: JSON becomes JSON, other text stays text. @param {string} text */
function bodyValue(text) {
    try {
        const value = JSON.parse(text);
        return typeof value === "object" && value !== null ? value : text;
    } catch {
        return text;
    }
}

/** A text as the type that the server requires. */
const valueOf = (name, text) => (NUMBERS.includes(name) && /^\d+$/.test(text) ? Number(text) : text);

/** Shows the next fires of the content, a moment after each change. @param {() => any} spec @param {() => string} from */
function preview(spec, from) {
    const box = el("div", { class: "preview-body", "aria-live": "polite" });
    let end = new AbortController(), timer = 0;
    function look() {
        clearTimeout(timer);
        end.abort();
        end = new AbortController();
        const mine = end.signal;
        timer = setTimeout(async () => {
            const wanted = spec();
            mark(box, "aria-busy", "true");
            try {
                if (!wanted.cron && !wanted.every) fill(box, el("p", { class: "help" }, t("preview.empty")));
                else {
                    const answer = await post("v1/schedules/next", { n: PREVIEW, from: from() }, { json: wanted, signal: mine });
                    if (mine.aborted) return;
                    fill(box, fireList(answer));
                }
            } catch (fault) {
                if (!mine.aborted) fill(box, el("p", { class: "form-error" }, reason(fault)));
            }
            if (!mine.aborted) mark(box, "aria-busy", null);
        }, PREVIEW_MS);
    }
    return { node: box, look, stop: () => (clearTimeout(timer), end.abort()) };
}

/** The fields of a specification; `read` returns the specification. @param {string} name @param {any} spec what is set @param {boolean} isNew */
function fieldsOf(name, spec, isNew) {
    const text = (id, value, more = {}) => el("input", { type: "text", id: `schedule-${id}`, value: value ?? "", autocomplete: "off", spellcheck: "false", ...more });
    const at = {
        name: text("name", name, { required: true, maxlength: 100, disabled: !isNew }),
        topic: text("topic", spec.topic, { required: true, maxlength: 200 }),
        kind: el("select", { id: "schedule-kind", value: spec.every ? "every" : "cron" }, ["cron", "every"].map((value) => el("option", { value }, t(`kind.${value}`)))),
        cron: el("textarea", { id: "schedule-cron", class: "mono short", rows: "2", spellcheck: "false", value: [spec.cron ?? (isNew ? "0 9 * * MON-FRI" : "")].flat().join("\n") }),
        every: text("every", spec.every ?? "15m"),
        zone: text("zone", spec.zone ?? (isNew ? ownZone() : "UTC"), { list: "schedule-zones" }),
        except: el("textarea", { id: "schedule-except", class: "mono short", rows: "2", spellcheck: "false", value: [spec.except ?? []].flat().join("\n") }),
        body: el("textarea", { id: "schedule-body", class: "mono short", rows: "4", spellcheck: "false", value: bodyOf(spec) }),
        content_type: text("content_type", spec.content_type),
    };
    const choices = Object.fromEntries(Object.entries(CHOICES).map(([member, values]) => [member, el("select", { id: `schedule-${member}`, value: spec[member] ?? values[0] }, values.map((value) => el("option", { value }, t(`choice.${member}.${value}`))))]));
    const texts = Object.fromEntries(Object.entries(TEXTS).map(([member, standard]) => [member, text(member, spec[member], { placeholder: standard })]));
    const options = Object.fromEntries(OPTIONS.map((member) => [member, text(member, spec[member], { placeholder: member === "group" ? "" : t("settings.asTopic") })]));
    const meta = metaFields(spec.meta), json = jsonCheck();
    const cron = field(t("kind.cron"), at.cron, t("schedule.cronHelp")), every = field(t("kind.every"), at.every, t("schedule.everyHelp"));
    const phase = field("phase", texts.phase, t("spec.phase"));
    const choose = () => {
        cron.hidden = at.kind.value !== "cron";
        every.hidden = phase.hidden = !cron.hidden;
    };
    at.kind.addEventListener("change", choose);
    choose();

    function read() {
        const out = { ...spec, topic: at.topic.value.trim() };
        const set = (member, value) => {
            if (value === "" || value === undefined || (Array.isArray(value) && !value.length)) delete out[member];
            else out[member] = value;
        };
        const lines = linesOf(at.cron.value), isCron = at.kind.value === "cron";
        set("cron", isCron ? (lines.length === 1 ? lines[0] : lines) : "");
        set("every", isCron ? "" : at.every.value.trim());
        set("zone", at.zone.value.trim());
        set("except", linesOf(at.except.value));
        for (const [member, input] of Object.entries({ ...texts, ...options })) set(member, valueOf(member, input.value.trim()));
        if (isCron) set("phase", "");
        for (const [member, input] of Object.entries(choices)) set(member, input.value === CHOICES[member][0] ? "" : input.value);
        if (at.body.value || spec.body_base64 === undefined) {
            set("body", at.body.value ? bodyValue(at.body.value) : "");
            delete out.body_base64;
        }
        set("content_type", at.content_type.value.trim());
        delete out.meta;
        if (meta.pairs().length) out.meta = Object.fromEntries(meta.pairs());
        return out;
    }

    const two = (...children) => el("div", { class: "fields two" }, children);
    const fold = (title, ...children) => el("details", { class: "fold" }, el("summary", {}, title), el("div", { class: "fields" }, children));
    return {
        read, name: () => at.name.value.trim(),
        /** Throws if the body begins as JSON and is not. Other text under a JSON type is kept as a JSON string. */
        check: () => /^\s*[{[]/.test(at.body.value) && json.check(at.content_type.value, at.body.value),
        node: [
            two(field(t("schedules.name"), at.name, isNew ? t("schedule.nameHelp") : null), field(t("schedules.topic"), at.topic)),
            two(field(t("schedule.kind"), at.kind), cron, every, field(t("schedule.zone"), at.zone, t("schedule.zoneHelp", { zone: ownZone() }))),
            el("datalist", { id: "schedule-zones" }, (Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => el("option", { value: zone }))),
        ],
        more: [
            fold(t("schedule.foldPlan"),
                two(Object.entries(choices).map(([member, input]) => field(t(`spec.${member}`), input))),
                field(t("spec.except"), at.except, t("schedule.exceptHelp")),
                two(["catch_up", "grace", "jitter", "start", "end", "count"].map((member) => field(member, texts[member], t(`spec.${member}`))), phase, field("owner", texts.owner, t("spec.owner"))),
                field("note", texts.note)),
            fold(t("schedule.foldJob"),
                field(t("job.body"), at.body, spec.body_base64 === undefined ? null : t("schedule.bodyBytes")), two(field(t("job.type"), at.content_type), Object.entries(options).map(([member, input]) => field(member, input))), json.node, meta.node),
        ],
    };
}

/** Creates or changes a schedule. Returns its name, or "" if nothing was changed. @param {any} schedule null for a new one */
export async function editSchedule(schedule) {
    const isNew = !schedule;
    const fields = fieldsOf(schedule?.name ?? "", schedule?.spec ?? {}, isNew);
    const from = el("input", { type: "datetime-local", id: "preview-from" });
    // Jitter and H depend on the name. The topic is not part of a preview while it is empty.
    const shown = preview(() => {
        const spec = { ...fields.read(), name: fields.name() || "preview" };
        if (!spec.topic) delete spec.topic;
        return spec;
    }, () => (from.value ? new Date(from.value).toISOString() : ""));
    const panel = el("section", { class: "preview", "aria-labelledby": "preview-title" },
        el("div", { class: "preview-head" }, el("h3", { id: "preview-title" }, t("preview.title")), field(t("preview.from"), from)), shown.node);
    const all = el("div", { class: "schedule-form" }, el("div", { class: "fields" }, fields.node), panel, el("div", { class: "fields" }, fields.more));
    all.addEventListener("input", shown.look);
    all.addEventListener("change", shown.look);
    shown.look();
    let saved = "";
    await formDialog({
        title: isNew ? t("schedules.new") : t("edit.title", { id: schedule.name }), action: t("settings.save"), isWide: true, body: all,
        send: async (signal) => {
            const name = fields.name();
            fields.check();
            const spec = fields.read();
            const takesOver = !isNew && spec.owner !== schedule.spec.owner; // the form shows the owner before
            const result = await ask("PUT", path("v1", "schedules", name), { query: { take_over: takesOver || undefined }, json: spec, signal });
            notice(t(`saved.${result.result}`, { name }));
            saved = name;
        },
    });
    shown.stop();
    return saved;
}
