// The same actions with curl: commands to copy. A variable replaces the token.
import { app } from "./app.js";
import { origin, path, queryOf } from "./api.js";
import { batchQuery } from "./batch.js";
import { textOf } from "./body.js";
import { openDialog } from "./dialog.js";
import { el, fill } from "./dom.js";
import { notice } from "./notice.js";
import { t } from "./words.js";

/** A word of a POSIX shell, whatever is in it. @param {string} text */
const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const field = (name, value) => ` -H ${word(`${name}: ${value}`)}`;

/** @param {string} topic @param {any} job @param {Uint8Array} body */
export function commands(topic, job, body) {
    const where = (query = {}, ...more) => word(`${origin}/${path("v1", "topics", topic, "jobs", job.id, ...more)}${queryOf(query)}`);
    const auth = app.token ? ` -H "Authorization: Bearer $TARRY_TOKEN"` : "";
    const text = textOf(body);
    const isPlain = text !== null && !/[\u0000-\u0008\u000b-\u001f\u007f]/.test(text) && text.length < 65_536;
    let digits = "";
    if (!isPlain) for (let at = 0; at < body.length; at += 0x8000) digits += String.fromCharCode(...body.subarray(at, at + 0x8000));
    const query = { priority: job.priority, ttl: job.ttl, lease_for: job.lease_for, max_attempts: job.max_attempts, backoff: job.backoff, callback: job.callback, ...batchQuery(job), ...(job.state === "delayed" && job.due_at ? { at: job.due_at } : {}) };
    const head = `curl -X PUT${auth}${field("Content-Type", job.content_type || "application/octet-stream")}${Object.entries(job.meta ?? {}).map(([name, value]) => field(`Tarry-Meta-${name}`, value)).join("")}`;
    return {
        push: isPlain ? `${head} --data-raw ${word(text ?? "")} ${where(query)}` : `base64 -d <<< ${word(btoa(digits))} | ${head} --data-binary @- ${where(query)}`,
        get: `curl${auth} ${where()}`,
        run: `curl -X POST${auth} ${where({}, "run")}`,
        reschedule: `curl -X PATCH${auth} ${where({ delay: "30m" })}`,
        cancel: `curl -X DELETE${auth} ${where()}`,
    };
}

/** Copies to the clipboard, with the older browser call if the page may not write to it. @param {HTMLTextAreaElement} from */
async function copy(from) {
    try {
        await navigator.clipboard.writeText(from.value);
    } catch {
        from.select();
        document.execCommand("copy");
    }
    notice(t("curl.copied"));
}

export function curlDialog(topic, job, body) {
    const all = commands(topic, job, body);
    const text = el("textarea", { class: "mono", readonly: true, rows: "7", spellcheck: "false", "aria-label": t("curl.command"), value: all.push });
    const choice = el("div", { class: "choice", role: "group", "aria-label": t("curl.which") });
    const choose = (name) => {
        text.value = all[name];
        for (const one of choice.children) one.setAttribute("aria-pressed", String(one.dataset.name === name));
    };
    fill(choice, Object.keys(all).map((name) => el("button", { type: "button", "data-name": name, "aria-pressed": "false", on: { click: () => choose(name) } }, t(`curl.${name}`))));
    choose("push");
    const dialog = openDialog(t("curl.title"), [choice, text, app.token && el("p", { class: "help" }, t("curl.token"))],
        [el("button", { type: "button", on: { click: () => dialog.close() } }, t("do.close")), el("button", { type: "button", class: "primary", on: { click: () => copy(text) } }, t("curl.copy"))], { isWide: true });
}
