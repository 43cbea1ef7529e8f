// Results of actions: a line that disappears by itself, read aloud politely. And refusals in words.
import { el } from "./dom.js";
import { number } from "./format.js";
import { icon } from "./icons.js";
import { t } from "./words.js";

/** @param {string} text @param {"done"|"warning"|"critical"} [kind] */
export function notice(text, kind = "done") {
    const box = document.getElementById("notices");
    const note = el("div", { class: `notice ${kind}` }, icon(kind), el("span", {}, text), el("button", { type: "button", class: "plain", "aria-label": t("do.close"), on: { click: () => note.remove() } }, "\u00d7"));
    box?.append(note);
    while (box && box.children.length > 4) box.firstChild?.remove();
    setTimeout(() => note.remove(), kind === "done" ? 6000 : 15_000);
}

/** The reason of a failure as a sentence. @param {any} fault */
export function reason(fault) {
    if (fault?.code === "unreachable") return t("problem.unreachable");
    if (fault?.status === 401) return t("problem.unauthorized");
    if (fault?.status === undefined) {
        console.error(fault);
        return t("problem.own", { error: String(fault?.message ?? fault) });
    }
    const words = fault.message || String(fault.status);
    return fault.limit !== undefined ? `${words} (${t("problem.limit", { n: number(fault.limit) })})` : words;
}

/** Awaits the work and shows its result. @param {() => Promise<any>} work @param {string|((result: any) => string)} done */
export async function report(work, done) {
    try {
        const result = await work();
        notice(typeof done === "function" ? done(result) : done);
        return true;
    } catch (fault) {
        notice(reason(fault), "critical");
        return false;
    }
}
