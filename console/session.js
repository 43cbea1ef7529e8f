// Who looks at the page, and what he may do.
import { app } from "./app.js";
import { get } from "./api.js";
import { t } from "./words.js";

const KEY = "tarry-token";

export function restore() {
    try {
        app.token = sessionStorage.getItem(KEY);
    } catch {
        app.token = null;
    }
}

/** @param {string|null} token @param {boolean} isKept for this tab, over a reload */
export function setToken(token, isKept) {
    app.token = token;
    app.info = null;
    app.curves.clear();
    try {
        if (token && isKept) sessionStorage.setItem(KEY, token);
        else sessionStorage.removeItem(KEY);
    } catch {
        // memory will do
    }
}

/** What the server is, and who asks. */
export async function learn(signal) {
    const info = await get("v1/info", {}, signal);
    app.info = info;
    app.skew = Date.parse(info.now) - Date.now();
    return info;
}

/** @param {string} pattern @param {string} topic */
const covers = (pattern, topic) => pattern === "*" || pattern === topic || (pattern.endsWith("*") && topic.startsWith(pattern.slice(0, -1)));

/** Why he may not: a sentence, or "" where he may. Without a topic: for all of them. @param {string} scope @param {string} [topic] */
export function lacks(scope, topic) {
    const caller = app.info?.caller;
    if (!caller) return "";
    if (!caller.scopes.includes(scope)) return t("may.scope", { who: caller.name, scope });
    const isHis = topic === undefined ? caller.topics.includes("*") : caller.topics.some((pattern) => covers(pattern, topic));
    return isHis ? "" : t(topic === undefined ? "may.all" : "may.topic", { who: caller.name, scope, topic: topic ?? "" });
}

/** Is it known by what it needs that the server has this call? */
export const has = (call) => app.info?.scopes?.[call] !== undefined;
