// Login with a token, if the server requires one.
import { el, fill } from "./dom.js";
import { field, formDialog, tick } from "./dialog.js";
import { reason } from "./notice.js";
import { learn, setToken } from "./session.js";
import { hostOf, signIn, wayOf } from "./sign_in.js";
import { app } from "./app.js";
import { t } from "./words.js";

/** True: the server knows the token. @param {boolean} isEnded a log-in at an identity provider has just ended */
export async function logIn(isEnded = false) {
    const way = await wayOf();
    const failure = el("p", { class: "form-error", role: "alert" });
    const leave = way && el("button", { type: "button", class: "primary", on: { click: () => signIn(way).catch((fault) => fill(failure, reason(fault))) } }, t("signin.with", { host: hostOf(way.issuer) }));
    const token = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "token", autofocus: true });
    const keep = el("input", { type: "checkbox", id: "keep-token" });
    return formDialog({
        title: t("login.title"), action: t("login.in"),
        body: [el("p", {}, t(isEnded ? "signin.ended" : way ? "signin.why" : "login.why")), leave && [el("p", {}, leave), failure], field(t("login.token"), token, t("login.help")), tick(t("login.keep"), keep)],
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
