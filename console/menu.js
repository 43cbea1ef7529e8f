// A menu of actions behind a button. Escape, a choice, and a click elsewhere close it.
import { el } from "./dom.js";

/** @param {string} label @param {any[]} items buttons @returns {any} null without items */
export function menu(label, items) {
    const shown = items.filter(Boolean);
    if (!shown.length) return null;
    const node = el("details", { class: "menu", on: {
        keydown: (event) => {
            if (event.key !== "Escape" || !node.open) return;
            node.open = false;
            node.querySelector("summary").focus();
        },
        focusout: (event) => !node.contains(event.relatedTarget) && event.relatedTarget && (node.open = false),
        click: (event) => event.target.closest(".menu-list") && (node.open = false),
    } }, el("summary", { class: "button" }, label), el("div", { class: "menu-list" }, shown));
    return node;
}

document.addEventListener("click", ({ target }) => {
    for (const open of document.querySelectorAll("details.menu[open]")) if (target instanceof Node && !open.contains(target)) /** @type {any} */ (open).open = false;
});
