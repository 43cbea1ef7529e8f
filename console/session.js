// The user of the page and their permissions.
import { app } from "./app.js";
import { get } from "./api.js";
import { t } from "./words.js";

const KEY = "tarry-token", SIGNED_IN = "tarry-signed-in";

export function restore() {
    try {
        app.signIn = JSON.parse(sessionStorage.getItem(SIGNED_IN) ?? "null");
        app.token = app.signIn?.token ?? sessionStorage.getItem(KEY);
    } catch {
        app.token = null;
    }
}

/** Uses the tokens of a log-in at an identity provider, for this tab. @param {any} signIn */
export function keepSignIn(signIn) {
    app.signIn = signIn;
    app.token = signIn.token;
    sessionStorage.setItem(SIGNED_IN, JSON.stringify(signIn));
}

/** @param {string|null} token @param {boolean} isKept for this tab, over a reload */
export function setToken(token, isKept) {
    app.token = token;
    app.signIn = null;
    app.info = null;
    app.curves.clear();
    try {
        sessionStorage.removeItem(SIGNED_IN);
        if (token && isKept) sessionStorage.setItem(KEY, token);
        else sessionStorage.removeItem(KEY);
    } catch {
        // memory will do
    }
}

/** Reads the server's version and the user's permissions. */
export async function learn(signal) {
    const info = await get("v1/info", {}, signal);
    app.info = info;
    app.skew = Date.parse(info.now) - Date.now();
    return info;
}

/** @param {string} pattern @param {string} topic */
const covers = (pattern, topic) => pattern === "*" || pattern === topic || (pattern.endsWith("*") && topic.startsWith(pattern.slice(0, -1)));

/** The reason why the user may not do this: a sentence, or "" if they may. Without a topic: for all topics. @param {string} scope @param {string} [topic] */
export function lacks(scope, topic) {
    const caller = app.info?.caller;
    if (!caller) return "";
    if (!caller.scopes.includes(scope)) return t("may.scope", { who: caller.name, scope });
    const isAllowed = topic === undefined ? caller.topics.includes("*") : caller.topics.some((pattern) => covers(pattern, topic));
    return isAllowed ? "" : t(topic === undefined ? "may.all" : "may.topic", { who: caller.name, scope, topic: topic ?? "" });
}

/** The reason why the user may not do this for any topic, or "". @param {string} scope */
export function lacksEverywhere(scope) {
    const caller = app.info?.caller;
    return !caller || caller.scopes.includes(scope) ? "" : t("may.scope", { who: caller.name, scope });
}

/** Is it known by what it needs that the server has this call? */
export const has = (call) => app.info?.scopes?.[call] !== undefined;
