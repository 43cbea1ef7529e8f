// Small pictures beside words: each state has its own shape and does not depend on colour.
import { svg } from "./dom.js";

const PATHS = {
    delayed: "M8 3.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6M8 5.4V8l1.8 1.2",
    retrying: "M12.6 6.4A4.9 4.9 0 1 0 12.9 9M13 3.4v3.2H9.8",
    ready: "M5.2 3.6 12 8l-6.8 4.4Z",
    leased: "M8 2.8v2.6M8 10.6v2.6M2.8 8h2.6M10.6 8h2.6M4.4 4.4l1.8 1.8M9.8 9.8l1.8 1.8M11.6 4.4 9.8 6.2M6.2 9.8l-1.8 1.8",
    dead: "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
    finished: "M3.4 8.6l3 3 6.2-7",
    done: "M3.4 8.6l3 3 6.2-7",
    paused: "M5.6 3.6v8.8M10.4 3.6v8.8",
    warning: "M8 2.6 14.2 13H1.8ZM8 6.4v3M8 11.2v.2",
    critical: "M5.4 2.2h5.2l3.2 3.2v5.2l-3.2 3.2H5.4l-3.2-3.2V5.4ZM8 5v3.6M8 10.8v.2",
    well: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M5.4 8.2l1.9 1.9 3.4-3.8",
    delivers: "M2.4 8h9.2M8.4 4.6 11.8 8l-3.4 3.4",
    theme: "M8 2.4a5.6 5.6 0 1 0 5.6 6.4A4.4 4.4 0 0 1 8 2.4",
    link: "M6.5 3.5h-3v9h9v-3M9 3.2h3.8V7M12.5 3.5 7.4 8.6",
};

/** @param {string} name @param {string} [extra] a class */
export function icon(name, extra = "") {
    return svg("svg", { class: `icon icon-${name} ${extra}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, svg("path", { d: PATHS[name] ?? "" }));
}
