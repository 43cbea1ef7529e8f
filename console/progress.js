// The progress of a leased job: a bar if its text is a share, such as 45% or 3/7, else the text.
import { bdi, el, seen } from "./dom.js";
import { t } from "./words.js";

/** The share that a text names, from 0 to 1, or null. @param {string} text */
export function shareOf(text) {
    const percent = text.match(/^\s*(\d+(?:\.\d+)?)\s*%/), parts = text.match(/^\s*(\d+(?:\.\d+)?)\s*(?:\/|of)\s*(\d+(?:\.\d+)?)(?!\d)/);
    const share = percent ? Number(percent[1]) / 100 : parts ? Number(parts[1]) / Number(parts[2]) : NaN;
    return share >= 0 && share <= 1 ? share : null;
}

/** @param {any} job */
export function progressOf(job) {
    if (!job.progress) return null;
    const share = shareOf(job.progress);
    return el("div", { class: "progress" }, share === null ? null : el("progress", { max: 1, value: share, "aria-label": t("job.progress"), title: seen(job.progress) }), el("span", {}, bdi(job.progress)));
}
