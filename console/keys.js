// Shortcuts of the keyboard, and the list of them. A key does nothing while a field or a dialog has the focus.
import { openDialog } from "./dialog.js";
import { el } from "./dom.js";
import { go } from "./router.js";
import { t } from "./words.js";

const PLACES = { o: [], t: ["topics"], s: ["schedules"], e: ["events"], v: ["server"] };
const LIST = { "/": "find", "?": "help", j: "down", k: "up", Enter: "open", x: "select", n: "next", p: "before", "g o": "overview", "g t": "topics", "g s": "schedules", "g e": "events", "g v": "server", Esc: "leave" };
const WAIT_MS = 1500;

const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("th a") && row.getClientRects().length);

/** Moves the focus to the link of another row. @param {number} step */
function move(step) {
    const all = rows(), at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    /** @type {any} */ (next?.querySelector("th a"))?.focus();
}

function showHelp() {
    openDialog(t("keys.title"), el("dl", { class: "keys" }, Object.entries(LIST).map(([key, word]) => el("div", {}, el("dt", {}, key.split(" ").map((one) => [el("kbd", {}, one), " "])), el("dd", {}, t(`keys.${word}`))))),
        [el("button", { type: "button", class: "primary", autofocus: true, on: { click: (event) => event.target.closest("dialog").close() } }, t("do.close"))]);
}

const press = (selector) => {
    const button = /** @type {any} */ (document.querySelector(selector));
    if (button && button.getAttribute("aria-disabled") !== "true") button.click();
};

const KEYS = {
    "/": () => /** @type {any} */ (document.getElementById("find"))?.focus(),
    "?": showHelp,
    j: () => move(1),
    k: () => move(-1),
    x: () => /** @type {any} */ (rows().find((row) => row.contains(document.activeElement))?.querySelector("input[type=checkbox]"))?.click(),
    n: () => press(".pager [data-do=next]"),
    p: () => press(".pager [data-do=before]"),
};

/** Listens from now on. */
export function listenToKeys() {
    let begun = 0; // when g was pressed
    document.addEventListener("keydown", (event) => {
        const { key, target } = event;
        if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
        if (target instanceof Element && target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]")) {
            if (key === "Escape") /** @type {any} */ (target).blur();
            return;
        }
        const place = performance.now() - begun < WAIT_MS ? PLACES[key] : undefined;
        begun = key === "g" ? performance.now() : 0;
        if (!place && !Object.hasOwn(KEYS, key)) return;
        event.preventDefault();
        if (place) go(place);
        else KEYS[key]();
    });
}
