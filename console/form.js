// Forms over settings: a field for each, with the effective value while it is empty; only changes are sent.
import { bdi, el, fill, mark } from "./dom.js";
import { field } from "./dialog.js";
import { t } from "./words.js";

/**
 * @typedef {{name: string, kind?: "text"|"number"|"choice"|"flag"|"json", standard?: string, choices?: string[], of?: RegExp}} Field
 * `standard`: the effective value if none is set; `of`: the targets or the stores that have this setting.
 */

/** The text of a value in a field. */
const textOf = (about, value) => (value === undefined || value === null ? "" : about.kind === "json" && typeof value !== "string" ? JSON.stringify(value) : String(value));

/** The value of a text in the type that the server requires; null returns to the standard value. */
function valueOf(about, text) {
    if (text === "") return null;
    if (about.kind === "number") return Number(text);
    if (about.kind === "flag") return text === "true";
    if (about.kind === "json" && /^[[{\d"]|^(?:true|false)$/.test(text)) {
        try {
            return JSON.parse(text);
        } catch {
            return text; // the server reports the mistake
        }
    }
    return text;
}

/** @param {Field[]} fields @param {any} values what is set @param {string} group of the words: settings, deliver, … @param {string} why the reason why it may not be changed */
export function settingsForm(fields, values, group, why) {
    const rows = fields.map((about) => {
        const old = textOf(about, values?.[about.name]);
        const standard = about.standard ?? t("settings.none");
        const empty = t("settings.standard", { value: standard });
        const id = `${group}-${about.name.replace(/\W/g, "-")}`;
        const input = about.kind === "choice" || about.kind === "flag"
            ? el("select", { id, value: old }, ["", ...(about.choices ?? ["true", "false"])].map((choice) => el("option", { value: choice }, choice || empty)))
            : el("input", { id, type: about.kind === "number" ? "number" : "text", value: old, placeholder: empty, autocomplete: "off", spellcheck: "false" });
        input.disabled = Boolean(why);
        const label = t(`${group}.label.${about.name}`);
        const node = field(label, input, [t(`${group}.${about.name}`), " ", el("code", {}, about.name)]);
        const look = () => mark(mark(node, "data-changed", input.value.trim() !== old), "data-set", old !== "");
        input.addEventListener("input", look);
        look();
        return { about, input, node, old, label, empty };
    });
    const preview = el("div", { class: "difference", "aria-live": "polite" });
    const show = () => {
        const changed = rows.filter(({ input, old }) => input.value.trim() !== old);
        fill(preview, changed.length ? [el("h3", {}, t("settings.difference", { n: changed.length })),
            el("ul", {}, changed.map(({ label, input, old, empty }) => el("li", {}, label, ": ", el("del", {}, bdi(old || empty)), " \u2192 ", el("ins", {}, bdi(input.value.trim() || empty)))))] : null);
    };
    for (const { input } of rows) input.addEventListener("input", show);
    return {
        node: el("div", { class: "fields two settings" }, rows.map(({ node }) => node)),
        /** The changes with the values before and after. */
        preview,
        /** Calls back with the present content of the field and after each change. @param {string} name @param {(text: string) => void} changed */
        follow(name, changed) {
            const { input } = rows.find(({ about }) => about.name === name) ?? rows[0];
            input.addEventListener("input", () => changed(input.value.trim()));
            changed(input.value.trim());
        },
        /** Shows only fields that apply here, and those that are set. @param {(about: Field) => boolean} applies */
        choose(applies) {
            for (const { about, node, input, old } of rows) node.hidden = !applies(about) && !old && !input.value.trim();
        },
        /** The changes as a merge patch. */
        patch() {
            const out = {};
            for (const { about, input, old } of rows) if (input.value.trim() !== old) out[about.name] = valueOf(about, input.value.trim());
            return out;
        },
    };
}
