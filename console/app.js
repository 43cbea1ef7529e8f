// The state of the whole page, and the only global state.

/** @typedef {{name: string, kind: string, scopes: string[], topics: string[], expires_at?: string}} Caller */

export const app = {
    /** "en" or "zh" */
    language: "en",
    /** Milliseconds that the server's clock is ahead of this one. */
    skew: 0,
    /** In memory, and also in the session's storage if the user chose that. @type {string|null} */
    token: null,
    /** Tokens of a log-in at an identity provider (sign_in.js). @type {any} */
    signIn: null,
    /** The answer of /v1/info. @type {any} */
    info: null,
    /** Points of curves by topic ("" for all), so that they go on from page to page. @type {Map<string, any>} */
    curves: new Map(),
};
