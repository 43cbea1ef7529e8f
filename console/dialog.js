// Dialogs: a question, a form, long work with a button that stops it.
import { el, fill } from "./dom.js";
import { t } from "./words.js";
import { reason } from "./notice.js";

let count = 0;

/**
 * A modal dialog, taken away again when it is closed. Escape closes it, focus goes back to where it was.
 * @param {string} title @param {any} body @param {any[]} buttons
 * @param {{onClose?: () => void, isWide?: boolean}} [options]
 */
export function openDialog(title, body, buttons, { onClose, isWide = false } = {}) {
    const id = `dialog-${++count}`;
    const chosen = document.activeElement, from = chosen?.closest("details.menu")?.querySelector("summary") ?? chosen; // a choice is hidden with its menu
    const node = el("dialog", { class: isWide ? "wide" : "", "aria-labelledby": id, on: {
        close: () => {
            node.remove();
            if (from instanceof HTMLElement && from.isConnected) from.focus();
            onClose?.();
        } } },
        el("div", { class: "dialog-head" }, el("h2", { id }, title)),
        el("div", { class: "dialog-body" }, body),
        el("div", { class: "dialog-foot" }, buttons));
    document.body.append(node);
    node.showModal();
    return node;
}

/** Opens a form in a dialog; if `send` throws, the dialog shows the error. Resolves when the dialog closes: true if the form was sent.
 * @param {{title: string, action: string, isDanger?: boolean, isWide?: boolean, body: any, send: (signal: AbortSignal) => Promise<any>, ready?: (button: any) => void}} about */
export function formDialog({ title, action, isDanger = false, isWide = false, body, send, ready }) {
    return new Promise((resolve) => {
        const end = new AbortController();
        let isSent = false;
        const failure = el("p", { class: "form-error", role: "alert" });
        const yes = el("button", { type: "submit", class: isDanger ? "danger primary" : "primary" }, action);
        const no = el("button", { type: "button", on: { click: () => node.close() } }, t("do.cancel"));
        const form = el("form", { novalidate: false, on: { submit: async (event) => {
            event.preventDefault();
            if (yes.disabled) return;
            yes.disabled = true;
            fill(failure);
            try {
                await send(end.signal);
                isSent = true;
                node.close();
            } catch (fault) {
                if (!end.signal.aborted) fill(failure, reason(fault));
            }
            yes.disabled = false;
        } } }, body, failure, el("div", { class: "dialog-foot" }, no, yes));
        const node = openDialog(title, form, [], { isWide, onClose: () => {
            end.abort();
            resolve(isSent);
        } });
        ready?.(yes);
        const first = form.querySelector("[autofocus], input:not([type=hidden]), select, textarea");
        (first ?? no).focus();
    });
}

/** A field with its label, and a line of help that is read with it.
 * @param {string} label @param {any} input @param {any} [help] */
export function field(label, input, help) {
    const id = `field-${++count}`;
    input.id ||= id;
    if (help) input.setAttribute("aria-describedby", `${input.id}-help`);
    return el("div", { class: "field" }, el("label", { for: input.id }, label), input, help && el("p", { class: "help", id: `${input.id}-help` }, help));
}

/** A box to tick. @param {string} label @param {any} input */
export function tick(label, input) {
    const id = `field-${++count}`;
    input.id ||= id;
    return el("div", { class: "field-tick" }, input, el("label", { for: input.id }, label));
}
