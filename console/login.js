// Login with a token, if the server requires one.
import { el } from "./dom.js";
import { field, formDialog, tick } from "./dialog.js";
import { learn, setToken } from "./session.js";
import { app } from "./app.js";
import { t } from "./words.js";

/** True: the server knows the token. */
export function logIn() {
    const token = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "token", autofocus: true });
    const keep = el("input", { type: "checkbox", id: "keep-token" });
    return formDialog({
        title: t("login.title"), action: t("login.in"),
        body: [el("p", {}, t("login.why")), field(t("login.token"), token, t("login.help")), tick(t("login.keep"), keep)],
        send: async (signal) => {
            const before = app.token;
            app.token = token.value.trim();
            try {
                await learn(signal);
            } catch (fault) {
                app.token = before;
                throw fault?.status === 401 ? Object.assign(new Error(t("login.unknown")), { status: 403 }) : fault;
            }
            setTokenKept(app.token, keep.checked);
        },
    });
}

function setTokenKept(token, isKept) {
    const info = app.info;
    setToken(token, isKept);
    app.info = info;
}
