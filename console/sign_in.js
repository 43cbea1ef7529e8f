// Log-in at an identity provider by OpenID Connect: authorization code with PKCE. The tokens are in the session's storage of the tab only.
import { ask, get } from "./api.js";
import { app } from "./app.js";
import { keepSignIn, setToken } from "./session.js";
import { t } from "./words.js";

/** @typedef {{issuer: string, client_id: string, parameters: string, token: "access"|"id"}} Way the server's answer, see openapi.yaml */

const PENDING = "tarry-sign-in";
const EARLY_MS = 30_000; // a token is renewed this long before its end
const ANSWER_MS = 10_000; // in which the provider must answer
const CLOCK_MS = 300_000; // by which the provider's clock may differ

/** A failed log-in, in words for the user. `status` as in Problem, so that it is shown as a sentence. */
class Refused extends Error {
    constructor(key, values = {}) {
        super(t(`signin.${key}`, values));
        this.status = 400;
    }
}

/** How users log in at this server, or null if they paste a token. @returns {Promise<Way|null>} */
export async function wayOf() {
    const way = await get("v1/sign-in").catch(() => null);
    return way?.issuer ? way : null;
}

export const hostOf = (issuer) => new URL(issuer).host;

/* ---- texts ---- */

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const challengeOf = async (verifier) => base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));

/** The address to which the provider sends the browser back: this page, without a place. */
const home = () => new URL("./", document.baseURI).href;

/** The claims of a JWT, or null. Its signature is not checked here: it came from the issuer over TLS, and the server checks it. */
function claimsOf(token) {
    try {
        const parts = token.split(".");
        const bytes = Uint8Array.from(atob(parts[1].replaceAll("-", "+").replaceAll("_", "/")), (byte) => byte.charCodeAt(0));
        return parts.length === 3 ? JSON.parse(new TextDecoder().decode(bytes)) : null;
    } catch {
        return null;
    }
}

/* ---- the provider ---- */

async function fetchJson(way, address, options = {}) {
    try {
        const answer = await fetch(address, { cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(ANSWER_MS), headers: { Accept: "application/json" }, ...options });
        return { ok: answer.ok, status: answer.status, content: await answer.json().catch(() => ({})) };
    } catch {
        throw new Refused("unreachable", { issuer: way.issuer, page: location.origin });
    }
}

/** The provider's description of itself. It must be the configured issuer, with all endpoints at the same place. @param {Way} way */
async function discover(way) {
    const { ok, status, content } = await fetchJson(way, way.issuer.replace(/\/$/, "") + "/.well-known/openid-configuration");
    if (!ok) throw new Refused("noDiscovery", { issuer: way.issuer, status: String(status) });
    if (content.issuer !== way.issuer) throw new Refused("otherIssuer", { issuer: way.issuer });
    for (const name of ["authorization_endpoint", "token_endpoint", "end_session_endpoint", "revocation_endpoint"]) {
        const isNeeded = name === "authorization_endpoint" || name === "token_endpoint";
        if (!content[name] && !isNeeded) continue;
        if (!URL.canParse(content[name]) || new URL(content[name]).origin !== new URL(way.issuer).origin) throw new Refused("otherPlace", { name, issuer: way.issuer });
    }
    if (content.code_challenge_methods_supported && !content.code_challenge_methods_supported.includes("S256")) throw new Refused("noPkce", { issuer: way.issuer });
    return content;
}

/** @param {Way} way @param {Record<string, string>} words */
async function requestTokens(way, words) {
    const about = await discover(way);
    const body = new URLSearchParams(words);
    body.set("client_id", way.client_id);
    for (const resource of new URLSearchParams(way.parameters).getAll("resource")) body.append("resource", resource);
    return { about, ...(await fetchJson(way, about.token_endpoint, { method: "POST", body })) };
}

/* ---- to the provider and back ---- */

/** Leaves the page for the provider. @param {Way} way */
export async function signIn(way) {
    if (!globalThis.crypto?.subtle) throw new Refused("insecure");
    const about = await discover(way);
    const pending = { ...way, state: random(), nonce: random(), verifier: random(), place: location.hash };
    sessionStorage.setItem(PENDING, JSON.stringify(pending));
    const to = new URL(about.authorization_endpoint);
    for (const [name, value] of new URLSearchParams(way.parameters)) to.searchParams.append(name, value);
    if (!to.searchParams.has("scope")) to.searchParams.set("scope", "openid");
    const own = { response_type: "code", client_id: way.client_id, redirect_uri: home(), state: pending.state, nonce: pending.nonce, code_challenge: await challengeOf(pending.verifier), code_challenge_method: "S256" };
    for (const [name, value] of Object.entries(own)) to.searchParams.set(name, value);
    location.assign(to);
}

/** Returns the values stored at the start of the log-in, and deletes them, so that an answer or a code cannot be used twice. */
function takePending() {
    const text = sessionStorage.getItem(PENDING);
    sessionStorage.removeItem(PENDING);
    return text ? JSON.parse(text) : null;
}

function checkIdToken(token, way, nonce) {
    const claims = claimsOf(token ?? "");
    const audiences = [claims?.aud ?? []].flat();
    if (!claims) throw new Refused("noIdToken", { issuer: way.issuer });
    const isOurs = claims.iss === way.issuer && audiences.includes(way.client_id) && (audiences.length === 1 || claims.azp) && (claims.azp ?? way.client_id) === way.client_id;
    if (!isOurs || claims.nonce !== nonce || !(claims.exp * 1000 > Date.now() - CLOCK_MS)) throw new Refused("badIdToken", { issuer: way.issuer });
    return claims;
}

/** Stores the tokens of an answer. @param {Way} way @param {any} answer @param {any} before */
function keep(way, answer, before = {}) {
    const id = answer.id_token ?? before.id;
    const token = way.token === "id" ? id : answer.access_token;
    const claims = claimsOf(token ?? "");
    if (!claims) throw new Refused("opaque", { issuer: way.issuer });
    const seconds = claims.exp && claims.iat ? claims.exp - claims.iat : (answer.expires_in ?? 0);
    const { issuer, client_id, parameters, token: kind } = way;
    keepSignIn({ way: { issuer, client_id, parameters, token: kind }, token, id, subject: before.subject ?? claimsOf(id)?.sub, refresh: answer.refresh_token ?? before.refresh, ends: Date.now() + seconds * 1000 });
}

/** Ends the log-in that the address reports: the tokens are there, or the reason is thrown. */
export async function finish() {
    const query = new URLSearchParams(location.search);
    const pending = takePending();
    // The code leaves the address before anything else, so that neither a reload nor a link repeats it.
    history.replaceState(null, "", location.pathname + (pending?.place || "#/"));
    if (!pending || query.get("state") !== pending.state) throw new Refused("unexpected");
    if (query.has("iss") && query.get("iss") !== pending.issuer) throw new Refused("otherIssuer", { issuer: pending.issuer });
    if (query.has("error")) {
        const words = (query.get("error_description") ?? query.get("error") ?? "").slice(0, 200);
        throw new Refused(query.get("error") === "access_denied" ? "denied" : "failed", { issuer: pending.issuer, words });
    }
    const { about, ok, content } = await requestTokens(pending, { grant_type: "authorization_code", code: query.get("code") ?? "", redirect_uri: home(), code_verifier: pending.verifier });
    if (about.authorization_response_iss_parameter_supported && !query.has("iss")) throw new Refused("otherIssuer", { issuer: pending.issuer });
    if (!ok) throw new Refused("failed", { issuer: pending.issuer, words: String(content.error_description ?? content.error ?? "").slice(0, 200) });
    checkIdToken(content.id_token, pending, pending.nonce);
    keep(pending, content);
    try {
        await ask("GET", "v1/info", { isQuiet: true });
    } catch (fault) {
        if (fault?.status !== 401) return;
        setToken(null, false);
        throw new Refused("rejected", { issuer: pending.issuer });
    }
}

/* ---- while logged in ---- */

/** @type {Promise<void>|null} */
let renewal = null;

async function renewNow() {
    const before = app.signIn;
    let answer;
    try {
        answer = await requestTokens(before.way, { grant_type: "refresh_token", refresh_token: before.refresh });
    } catch {
        return; // the token may still be good; the next request tries again
    }
    if (app.signIn !== before || answer.status >= 500 || answer.status === 429) return;
    const claims = answer.content.id_token && claimsOf(answer.content.id_token);
    const isOurs = claims && claims.iss === before.way.issuer && claims.sub === before.subject && [claims.aud ?? []].flat().includes(before.way.client_id);
    const isSame = answer.content.id_token ? isOurs : before.way.token !== "id"; // a token that was not renewed has no new end
    if (answer.ok && isSame) keep(before.way, answer.content, before);
    else keepSignIn({ ...before, refresh: undefined });
}

/** Renews the token shortly before its end, if the provider gave a refresh token. */
export function renew() {
    if (!app.signIn?.refresh || app.signIn.ends - EARLY_MS > Date.now()) return null;
    renewal ??= renewNow().catch(() => {}).finally(() => (renewal = null));
    return renewal;
}

/** Logs out here, and at the provider if it has a page for that. The ID token is not sent if the server accepts it as a credential. */
export async function signOut() {
    const { way, id, refresh } = app.signIn;
    setToken(null, false);
    const about = await discover(way);
    if (refresh && about.revocation_endpoint) await fetchJson(way, about.revocation_endpoint, { method: "POST", body: new URLSearchParams({ token: refresh, client_id: way.client_id }) }).catch(() => {});
    if (!about.end_session_endpoint) return false;
    const to = new URL(about.end_session_endpoint);
    to.searchParams.set("client_id", way.client_id);
    to.searchParams.set("post_logout_redirect_uri", home());
    if (id && way.token !== "id") to.searchParams.set("id_token_hint", id);
    location.assign(to);
    return true;
}
