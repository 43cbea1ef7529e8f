// The frame around the pages: head, log-in, language, colours, and which page the address names.
import { app } from "./app.js";
import { el, fill, mark, setText } from "./dom.js";
import { tick } from "./format.js";
import { icon } from "./icons.js";
import { notice, reason } from "./notice.js";
import { href, go, place } from "./router.js";
import { has, learn, restore, setToken } from "./session.js";
import { languageOf, t } from "./words.js";

const PAGES = {
    overview: () => import("./overview.js"),
    events: () => import("./events.js"),
    runbook: () => import("./runbook.js"),
    topics: () => import("./topics.js"),
    search: () => import("./search.js"),
    topic: () => import("./topic.js"),
    jobs: () => import("./jobs.js"),
    job: () => import("./job.js"),
    groups: () => import("./groups.js"),
    settings: () => import("./settings.js"),
    delivery: () => import("./delivery.js"),
    schedules: () => import("./schedules.js"),
    schedule: () => import("./schedule.js"),
    server: () => import("./server.js"),
};

/** @type {AbortController|null} */
let shown = null;
let isFirst = true;
const main = el("main", { id: "main", tabindex: "-1" });
const live = el("span", { id: "live", class: "live", role: "status" });

/** The page of an address, and the words of its query. */
function pageOf({ parts, query }) {
    const [a, topic, b, id] = parts;
    if (!parts.length) return { name: "overview" };
    if (a === "runbooks" && parts.length <= 2) return { name: "runbook", runbook: topic ?? "", query };
    if (a === "events" && parts.length === 1) return { name: "events", query };
    if (a === "server" && parts.length === 1) return { name: "server" };
    if (a === "schedules" && parts.length === 1) return { name: "schedules", query };
    if (a === "schedules" && parts.length === 2) return { name: "schedule", schedule: topic };
    if (a === "search" && parts.length === 1) return { name: "search", query };
    if (a === "topics" && parts.length === 1) return { name: "topics" };
    if (a === "topics" && parts.length === 2) return { name: "topic", topic };
    if (a === "topics" && parts.length === 3 && ["jobs", "groups", "settings", "delivery"].includes(b)) return { name: b, topic, query };
    if (a === "topics" && parts.length === 4 && b === "jobs") return { name: "job", topic, id };
    return null;
}

/** Shows the state of the page's stream in the head. @param {"opening"|"live"|"lost"|"hidden"|"refused"|"none"} state */
function showLive(state) {
    mark(live, "data-state", state);
    setText(live, state === "none" || state === "hidden" ? "" : t(`live.${state}`));
}

async function show() {
    shown?.abort();
    const end = (shown = new AbortController());
    const where = place(), page = pageOf(where);
    showLive("none");
    for (const link of document.querySelectorAll("header nav a")) {
        const parts = link.getAttribute("data-page") === "overview" ? !where.parts.length : where.parts[0] === link.getAttribute("data-page");
        mark(link, "aria-current", parts ? "page" : null);
    }
    document.querySelectorAll("dialog[open]").forEach((dialog) => /** @type {any} */ (dialog).close());
    if (!page) {
        fill(main, el("h1", { tabindex: "-1" }, t("page.nowhere")), el("p", {}, el("a", { href: "#/" }, t("nav.overview"))));
        return arrive(t("page.nowhere"));
    }
    mark(main, "aria-busy", "true");
    try {
        const [module] = await Promise.all([PAGES[page.name](), app.info ?? (page.name === "runbook" ? null : learn(end.signal))]);
        drawCaller();
        if (end.signal.aborted) return;
        const next = el("div", { class: `page page-${page.name}` });
        const title = await module.show({ ...page, node: next, signal: end.signal, showLive });
        if (end.signal.aborted) return;
        fill(main, app.info?.test_clock && el("p", { class: "band warning" }, icon("warning"), t("clock.isTest")), next);
        arrive(title);
    } catch (fault) {
        if (end.signal.aborted) return;
        if (fault?.status === 401) return showLogin("login.title", t("login.why"));
        const isUnknown = fault?.status === 404;
        fill(main, el("h1", { tabindex: "-1" }, t(isUnknown ? "page.nothing" : "page.failed")), el("p", { class: "form-error" }, reason(fault)),
            el("p", {}, el("button", { type: "button", on: { click: show } }, t("do.again")), " ", el("a", { href: "#/" }, t("nav.overview"))));
        arrive(t("page.failed"));
    } finally {
        if (!end.signal.aborted) mark(main, "aria-busy", null);
    }
}

/** The new page is there: its heading gets the focus, but for the first one. */
function arrive(title) {
    document.title = `${title} \u00b7 tarry`;
    if (!isFirst && !document.querySelector("dialog[open]")) {
        window.scrollTo(0, 0);
        /** @type {any} */ (main.querySelector("h1") ?? main).focus({ preventScroll: true });
    }
    isFirst = false;
}

/** The first page, or the end of a log-in at an identity provider. */
async function begin() {
    if (/[?&](code|error)=/.test(location.search)) {
        const { finish } = await import("./sign_in.js");
        try {
            await finish();
        } catch (fault) {
            return showLogin("signin.title", reason(fault));
        }
    }
    show();
}

/** A page with the reason why there is nothing to see, and the way in. */
function showLogin(title, why) {
    fill(main, el("h1", { tabindex: "-1" }, t(title)), el("p", {}, why), el("p", {}, el("button", { type: "button", class: "primary", on: { click: askLogin } }, t("login.in"))));
    arrive(t(title));
}

/* ---- the user ---- */

const caller = el("span", { class: "caller" });

function drawCaller() {
    const who = app.info?.caller;
    // The page of schedules is hidden if the server was built without them.
    mark(document.querySelector('nav a[data-page="schedules"]') ?? caller, "hidden", Boolean(app.info) && !has("schedules"));
    fill(caller, who && who.kind !== "anonymous" && el("span", { class: "who", title: t("caller.may", { scopes: who.scopes.join(", ") || "\u2014", topics: who.topics.join(", ") || "\u2014" }) }, who.name),
        app.token ? el("button", { type: "button", class: "plain", on: { click: logOut } }, t("login.out"))
            : who?.kind !== "anonymous" || document.querySelector("dialog") ? el("button", { type: "button", class: "plain", on: { click: askLogin } }, t("login.in")) : null);
}

async function logOut() {
    if (app.signIn) {
        const { signOut } = await import("./sign_in.js");
        if (await signOut().catch(() => false)) return;
        notice(t("signin.goneHere"), "warning");
    } else {
        setToken(null, false);
        notice(t("login.gone"));
    }
    show();
}

let isAsked = false;

async function askLogin() {
    if (isAsked) return;
    isAsked = true;
    const { logIn } = await import("./login.js");
    const isEnded = Boolean(app.signIn);
    if (isEnded) setToken(null, false);
    if (await logIn(isEnded)) show();
    isAsked = false;
}

/* ---- the frame ---- */

function choose(theme) {
    const root = document.documentElement;
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    try {
        if (theme) localStorage.setItem("tarry-theme", theme);
        else localStorage.removeItem("tarry-theme");
    } catch {
        // for this page only
    }
}

function speak(language) {
    app.language = language;
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    try {
        localStorage.setItem("tarry-language", language);
    } catch {
        // for this page only
    }
    frame();
    show();
}

/** Shows the only exact match itself, else all that the search finds. @param {string} text */
async function search(text) {
    if (!text) return;
    const { exact, onlyPlace } = await import("./search.js");
    const only = onlyPlace(await exact(text).catch(() => ({ topic: null, jobs: [] })));
    if (only) go(only);
    else go(["search"], { q: text });
}

function frame() {
    const link = (page, parts) => el("a", { href: href(parts), "data-page": page }, t(`nav.${page}`));
    const theme = el("select", { id: "theme", "aria-label": t("theme.label"), value: document.documentElement.dataset.theme ?? "", on: { change: () => choose(theme.value) } },
        ["", "light", "dark"].map((value) => el("option", { value }, t(`theme.${value || "auto"}`))));
    const language = el("select", { id: "language", "aria-label": t("language.label"), value: app.language, on: { change: () => {
        speak(language.value);
        document.getElementById("language")?.focus();
    } } }, el("option", { value: "en", lang: "en" }, "English"), el("option", { value: "zh", lang: "zh-CN" }, "\u4e2d\u6587"));
    const find = el("input", { type: "search", id: "find", placeholder: t("find.label"), "aria-label": t("find.label"), autocomplete: "off", spellcheck: "false", maxlength: "200" });
    fill(document.body,
        el("a", { class: "skip", href: "#main", on: { click: (event) => {
            event.preventDefault();
            /** @type {any} */ (main.querySelector("h1") ?? main).focus();
        } } }, t("nav.skip")),
        el("header", {},
            el("a", { class: "brand", href: "#/", "aria-label": t("nav.home") }, el("img", { src: "icon.svg", alt: "", width: "22", height: "22" }), el("span", { "aria-hidden": "true" }, "tarry")),
            el("nav", { "aria-label": t("nav.label") }, link("overview", []), link("topics", ["topics"]), link("schedules", ["schedules"]), link("events", ["events"]), link("server", ["server"])),
            el("form", { role: "search", class: "find", on: { submit: (event) => {
                event.preventDefault();
                search(find.value.trim());
                find.value = "";
            } } }, find),
            el("div", { class: "tools" }, live, caller, el("button", { type: "button", class: "plain keys-help", "aria-label": t("keys.title"), title: t("keys.title"), on: { click: () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "?" })) } }, "?"), language, el("span", { class: "theme" }, icon("theme"), theme))),
        main,
        el("div", { id: "notices", class: "notices", role: "status", "aria-live": "polite" }));
    drawCaller();
}

document.addEventListener("tarry:login", askLogin);
window.addEventListener("hashchange", show);
window.addEventListener("unhandledrejection", (event) => {
    // A request that was cancelled because the user left the page is not an error.
    if (event.reason?.name === "AbortError") event.preventDefault();
    else notice(reason(event.reason), "critical");
});
setInterval(tick, 1000);
import("./keys.js").then(({ listenToKeys }) => listenToKeys());
restore();
app.language = languageOf();
document.documentElement.lang = app.language === "zh" ? "zh-CN" : "en";
frame();
begin();
