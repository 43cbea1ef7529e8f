// Silences a problem for a time, with a note; and ends a silence.
import { ask, path } from "./api.js";
import { scoped } from "./button.js";
import { bdi, el } from "./dom.js";
import { timeOf } from "./format.js";
import { notice, report } from "./notice.js";
import { sentenceOf } from "./state.js";
import { t } from "./words.js";

const TIMES = ["1h", "8h", "24h", "7d", "30d"];
const where = (problem) => path("v1", "silences", problem.code);
const of = (problem) => ({ topic: problem.topic ?? "" });

async function silence(problem) {
    const { field, formDialog } = await import("./dialog.js");
    const time = el("select", { id: "silence-for", value: "8h" }, TIMES.map((value) => el("option", { value }, value)));
    const note = el("input", { type: "text", id: "silence-note", maxlength: 60, autocomplete: "off" });
    return formDialog({
        title: t("silence.title"), action: t("silence.do"),
        body: [el("p", {}, bdi(sentenceOf(problem))), el("p", { class: "help" }, t("silence.what")), field(t("silence.for"), time), field(t("silence.note"), note)],
        send: async (signal) => {
            await ask("PUT", where(problem), { query: { ...of(problem), for: time.value }, json: { note: note.value.trim() }, signal });
            notice(t("silence.done", { time: time.value }));
        },
    });
}

/** The button for a problem: silence it, or end its silence. @param {any} problem */
export function silenceButton(problem) {
    const topic = problem.topic ?? undefined;
    return problem.silenced ? scoped(t("silence.end"), "admin", topic, () => report(() => ask("DELETE", where(problem), { query: of(problem) }), t("silence.ended")), { kind: "plain" })
        : scoped(t("silence.button"), "admin", topic, () => silence(problem), { kind: "plain" });
}

/** Until when a problem is silenced, by whom and why. @param {any} problem */
export const silenceLine = ({ silenced }) => silenced && el("span", { class: "help" }, t("silence.until"), " ", timeOf(silenced.until, { isRelative: true }), ", ", t("silence.by"), " ", bdi(silenced.by), silenced.note ? [": ", bdi(silenced.note)] : null);
