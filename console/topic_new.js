// Creates a topic.
import { ask, path } from "./api.js";
import { field, formDialog } from "./dialog.js";
import { el } from "./dom.js";
import { report } from "./notice.js";
import { go } from "./router.js";
import { t } from "./words.js";

const NAME = "[A-Za-z0-9_+\\/;$\\(\\)\\-][A-Za-z0-9._+\\/;$\\(\\)\\-]*";

/** @param {string} text */
export const isTopicName = (text) => text.length <= 200 && new RegExp(`^${NAME}$`).test(text);

/** A PATCH first, which does not change a topic that exists. */
async function make(name, signal) {
    await ask("PATCH", path("v1", "topics", name), { json: {}, signal }).catch((fault) => {
        if (fault.status !== 404) throw fault;
        return ask("PUT", path("v1", "topics", name), { json: {}, signal });
    });
    go(["topics", name, "settings"]);
}

/** Creates the topic of that name and shows its settings. @param {string} name @param {AbortSignal} [signal] */
export const createTopic = (name, signal) => report(() => make(name, signal), t("topics.created", { topic: name }));

/** Asks for the name. */
export function newTopic() {
    const name = el("input", { type: "text", id: "new-topic", required: true, maxlength: 200, pattern: NAME, autocomplete: "off", spellcheck: "false" });
    return formDialog({ title: t("topics.new"), action: t("topics.create"), body: field(t("topics.name"), name, t("topics.nameHelp")), send: (signal) => make(name.value, signal) });
}
