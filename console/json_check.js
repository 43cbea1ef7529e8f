// A body that claims to be JSON must be JSON, unless the user insists.
import { tick } from "./dialog.js";
import { el } from "./dom.js";
import { t } from "./words.js";

const isJson = (type) => /^\s*(?:application\/json|[^;]*\+json)\s*(?:;|$)/i.test(type);

/** The reason why a text is not JSON, or "". @param {string} text */
function faultOf(text) {
    try {
        JSON.parse(text);
        return "";
    } catch (fault) {
        return String(fault.message);
    }
}

/** A box that appears with the first refusal, and the check itself, which throws. */
export function jsonCheck() {
    const box = el("input", { type: "checkbox", id: "force-json" });
    const node = tick(t("json.force"), box);
    node.hidden = true;
    return {
        node,
        /** @param {string} type @param {string} text */
        check(type, text) {
            const why = isJson(type) && !box.checked ? faultOf(text) : "";
            if (!why) return;
            node.hidden = false;
            throw Object.assign(new Error(t("json.fault", { why })), { status: 400 });
        },
    };
}
