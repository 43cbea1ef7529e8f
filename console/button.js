// Buttons, and buttons that the user lacks the permission to press: these can get the focus and show the reason.
import { el } from "./dom.js";
import { lacks } from "./session.js";
import { notice } from "./notice.js";

let count = 0;

/** @param {any} label @param {() => void} onClick @param {{kind?: string, why?: string, icon?: any, name?: string, data?: string}} [options] `why`: the reason why not */
export function button(label, onClick, { kind = "", why = "", icon, name, data } = {}) {
    if (!why) return el("button", { type: "button", class: kind, "aria-label": name, "data-do": data, on: { click: onClick } }, icon, label);
    const id = `why-${++count}`;
    return el("span", { class: "barred" },
        el("button", { type: "button", class: kind, "aria-disabled": "true", "aria-label": name, "data-do": data, "aria-describedby": id, title: why, on: { click: () => notice(why, "warning") } }, icon, label),
        el("span", { id, class: "unseen" }, why));
}

/** A button for which a scope is needed. @param {any} label @param {string} scope @param {string|undefined} topic @param {() => void} onClick @param {any} [options] */
export function scoped(label, scope, topic, onClick, options = {}) {
    return button(label, onClick, { ...options, why: lacks(scope, topic) || options.why });
}
