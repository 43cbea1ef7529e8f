// A job's body, shown so that it can do nothing: as JSON in lines, as text, as bytes.
import { el, fill, seen } from "./dom.js";
import { bytes as sizeOf } from "./format.js";
import { t } from "./words.js";

const SHOWN_BYTES = 64 * 1024;

/** @param {string} base64 @returns {Uint8Array} */
export function bytesOf(base64) {
    const text = atob(base64);
    const out = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) out[at] = text.charCodeAt(at);
    return out;
}

/** The text, or null if the bytes are not UTF-8. @param {Uint8Array} bytes */
export function textOf(bytes) {
    try {
        return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
        return null;
    }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON in lines, its words coloured; numbers stay as they are written, however long. @param {string} text good JSON */
function pretty(text) {
    const out = document.createDocumentFragment();
    let depth = 0, plain = "";
    const line = () => (plain += "\n" + "  ".repeat(depth));
    const flush = () => {
        if (plain) out.append(plain);
        plain = "";
    };
    const tokens = text.match(TOKEN) ?? [];
    tokens.forEach((token, at) => {
        const next = tokens[at + 1];
        if (token === "{" || token === "[") {
            plain += token;
            if (next === "}" || next === "]") return;
            depth++;
            line();
        } else if (token === "}" || token === "]") {
            if (tokens[at - 1] !== "{" && tokens[at - 1] !== "[") {
                depth--;
                line();
            }
            plain += token;
        } else if (token === ",") {
            plain += token;
            line();
        } else if (token === ":") plain += ": ";
        else {
            flush();
            const kind = token[0] !== '"' ? "json-value" : next === ":" ? "json-key" : "json-text";
            out.append(el("span", { class: kind }, seen(token)));
        }
    });
    flush();
    return out;
}

/** Sixteen bytes a line: where, in hexadecimal, as ASCII. @param {Uint8Array} bytes */
function hex(bytes) {
    const lines = [];
    for (let at = 0; at < bytes.length; at += 16) {
        const part = [...bytes.subarray(at, at + 16)];
        const digits = part.map((byte) => byte.toString(16).padStart(2, "0"));
        const ascii = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
        lines.push(`${at.toString(16).padStart(8, "0")}  ${digits.slice(0, 8).join(" ").padEnd(23)}  ${digits.slice(8).join(" ").padEnd(23)}  ${ascii}`);
    }
    return lines.join("\n");
}

const isJson = (text) => {
    try {
        JSON.parse(text);
        return true;
    } catch {
        return false;
    }
};

function save(bytes, name) {
    const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = el("a", { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const ENCODED = "application/vnd.tarry.encoded";
const STEPS = ["gzip", "aes-gcm", "claim-check"];

/** How a client has encoded the bytes, in words, or "" (docs/codec.md). @param {string} type */
export function encodingOf(type) {
    const [kind, ...members] = type.split(";").map((one) => one.trim());
    if (kind !== ENCODED) return "";
    const value = (name) => members.find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
    const steps = value("steps").split("+");
    return STEPS.filter((step) => steps.includes(step)).map((step) => t(`body.${step}`, { key: value("key") })).join(", ");
}

/** A card of it. @param {Uint8Array} bytes @param {string} type @param {string} id @param {"body"|"result"} [part] of the job */
export function bodyCard(bytes, type, id, part = "body") {
    const text = textOf(bytes);
    const encoding = encodingOf(type);
    const views = { ...(encoding ? { encoded: true } : {}), json: text !== null && text.trim() && isJson(text), text: text !== null, hex: true };
    let view = encoding ? "encoded" : views.json ? "json" : views.text ? "text" : "hex", isWhole = false;
    const shown = el("pre", { class: "body mono", tabindex: "0", "aria-label": t(`job.${part}`) }), more = el("div", { class: "row" });
    const choice = el("div", { class: "choice", role: "group", "aria-label": t("body.as") }, Object.entries(views).map(([name, is]) => el("button", { type: "button", "data-view": name, disabled: !is, "aria-pressed": "false", on: { click: () => {
        view = name;
        draw();
    } } }, t(`body.${name}`))));

    function draw() {
        for (const one of choice.children) one.setAttribute("aria-pressed", String(one.dataset.view === view));
        const room = isWhole ? Infinity : SHOWN_BYTES;
        const isCut = bytes.length > room && view !== "encoded";
        if (view === "encoded") fill(shown, el("span", { class: "none" }, seen(t("body.encodedWhat", { how: encoding }))));
        else if (!bytes.length) fill(shown, el("span", { class: "none" }, t("body.none")));
        else if (view === "hex") fill(shown, hex(bytes.subarray(0, Math.min(bytes.length, room))));
        else if (view === "json" && !isCut) fill(shown, pretty(text ?? ""));
        else fill(shown, seen((text ?? "").slice(0, room)));
        fill(more, isCut && [el("span", { class: "help" }, t("body.cut", { n: sizeOf(SHOWN_BYTES), of: sizeOf(bytes.length) })), el("button", { type: "button", on: { click: () => {
            isWhole = true;
            draw();
        } } }, t("body.whole"))]);
    }

    draw();
    return el("section", { class: "card", "aria-labelledby": `${part}-title` },
        el("div", { class: "card-head" }, el("h2", { id: `${part}-title` }, t(`job.${part}`)), el("span", { class: "help" }, seen(type), " \u00b7 ", sizeOf(bytes.length)), choice,
            el("button", { type: "button", class: "plain", on: { click: () => save(bytes, id.replace(/[^\w.-]/g, "_")) } }, t("body.save"))),
        el("div", { class: "card-body" }, shown, more));
}
