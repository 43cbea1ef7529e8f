// Calls of the API, only on the server that this page came from.
import { app } from "./app.js";

/** A refusal of the server (RFC 9457), or a failure to reach it (status 0). */
export class Problem extends Error {
    /** @param {number} status @param {any} problem */
    constructor(status, problem) {
        super(problem.detail ?? problem.title ?? String(status));
        this.status = status;
        this.code = problem.code ?? "";
        this.limit = problem.limit;
        this.state = problem.state;
    }
}

const BASE = new URL("../", document.baseURI);

/** The address of the API as text for display. */
export const origin = BASE.href.replace(/\/$/, "");

/** "v1/topics/a%2Fb/jobs": each part is escaped. @param {...string} parts */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** Members without value are left out, lists give one each. @param {Record<string, any>} query */
export function queryOf(query) {
    const out = new URLSearchParams();
    for (const [name, value] of Object.entries(query))
        for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null && one !== "") out.append(name, String(one));
    // The server takes '+' for itself, as times have it.
    const text = out.toString().replaceAll("+", "%20");
    return text ? "?" + text : "";
}

/** Headers with the credentials of the user. */
export async function credentials() {
    if (app.signIn?.refresh) await (await import("./sign_in.js")).renew();
    return app.token ? { Authorization: `Bearer ${app.token}` } : {};
}

/** @param {string} method @param {string} where @param {{query?: object, json?: any, body?: BodyInit, headers?: object, signal?: AbortSignal, isQuiet?: boolean}} [with_] `isQuiet`: a 401 does not ask for a log-in */
export async function ask(method, where, { query = {}, json, body, headers = {}, signal, isQuiet = false } = {}) {
    const identity = await credentials();
    let answer;
    try {
        answer = await fetch(new URL(where + queryOf(query), BASE), {
            method, signal, cache: "no-store", redirect: "error",
            headers: { Accept: "application/json", ...(json === undefined ? {} : { "Content-Type": "application/json" }), ...identity, ...headers },
            body: json === undefined ? body : JSON.stringify(json),
        });
    } catch (fault) {
        if (signal?.aborted) throw fault;
        throw new Problem(0, { code: "unreachable", detail: "" });
    }
    const text = await answer.text();
    let content;
    try {
        content = text ? JSON.parse(text) : {};
    } catch {
        content = { detail: text.slice(0, 200) };
    }
    if (answer.ok) return content;
    if (answer.status === 401 && !isQuiet) document.dispatchEvent(new Event("tarry:login"));
    throw new Problem(answer.status, content);
}

export const get = (where, query, signal) => ask("GET", where, { query, signal });
export const post = (where, query, options = {}) => ask("POST", where, { query, ...options });
