// A live list of events of jobs and topics, the newest first.
import { button } from "./button.js";
import { field } from "./dialog.js";
import { bdi, el, fill, setText } from "./dom.js";
import { moment } from "./format.js";
import { href, note } from "./router.js";
import { listen } from "./stream.js";
import { t } from "./words.js";

const SHOWN = 200, DRAW_MS = 250;
const KINDS = ["pushed", "replaced", "due", "delivered", "acked", "nacked", "extended", "progress", "returned", "lease_ended", "dead", "expired", "cancelled", "rescheduled", "run", "redriven", "purged", "deleted", "settings", "paused", "resumed", "fire_skipped"];
const OWN = ["at", "topic", "id", "schedule"];

/** @param {{query: URLSearchParams, node: Element, signal: AbortSignal, showLive: Function}} page */
export function show({ query, node, signal, showLive }) {
    let topic = query.get("topic") ?? "", kind = query.get("event") ?? "", isHeld = false, waiting = [], missed = 0, timer = 0, end = new AbortController();
    const body = el("tbody", {}), status = el("p", { class: "help", role: "status", id: "events-status" }), holder = el("span", {});
    const topicInput = el("input", { type: "search", id: "events-topic", value: topic, autocomplete: "off", spellcheck: "false" });
    const kindInput = el("select", { id: "events-kind", value: kind }, ["", "dead,nacked,lease_ended,expired", ...KINDS].map((value) => el("option", { value }, value === "" ? t("events.all") : value.includes(",") ? t("events.failures") : value)));

    const row = ([name, event]) => el("tr", { "data-event": name },
        el("td", { class: "when" }, el("time", { datetime: event.at, title: event.at }, moment(event.at))),
        el("td", {}, el("strong", {}, name)),
        el("th", { scope: "row" }, event.topic ? el("a", { href: href(["topics", event.topic]) }, bdi(event.topic)) : null, event.id ? [" / ", el("a", { class: "mono", href: href(["topics", event.topic, "jobs", event.id]) }, bdi(event.id))] : event.schedule ? [" ", bdi(event.schedule)] : null),
        el("td", { class: "wrap" }, Object.entries(event).filter(([key]) => !OWN.includes(key)).map(([key, value]) => [el("span", { class: "help" }, `${key}=`), bdi(String(value)), " "])));

    function draw() {
        timer = 0;
        body.prepend(...waiting.reverse().map(row));
        waiting = [];
        while (body.children.length > SHOWN) body.lastChild?.remove();
        setText(status, missed ? t("events.missed", { n: missed }) : body.children.length ? "" : t("events.none"));
    }

    function add(name, event) {
        if (name === "gap") missed += event.lost ?? 0;
        else if (isHeld) missed++;
        else waiting.push([name, event]);
        if (waiting.length > SHOWN) waiting.shift(); // they would not be shown
        timer ||= setTimeout(draw, DRAW_MS);
    }

    function open() {
        end.abort();
        end = new AbortController();
        fill(body);
        missed = 0;
        draw();
        const on = new Proxy({}, { get: (_, name) => (event) => add(String(name), event) });
        listen("v1/events", { topic, event: kind }, on, (state, problem) => {
            showLive(state);
            if (problem) setText(status, problem.message);
        }, AbortSignal.any([signal, end.signal]));
    }

    function choose() {
        topic = topicInput.value.trim();
        kind = kindInput.value;
        note(["events"], { topic, event: kind });
        open();
    }

    function drawHold() {
        fill(holder, button(t(isHeld ? "events.go" : "events.hold"), () => {
            isHeld = !isHeld;
            if (!isHeld) missed = 0;
            drawHold();
            draw();
            holder.querySelector("button").focus();
        }));
    }

    signal.addEventListener("abort", () => clearTimeout(timer));
    kindInput.addEventListener("change", choose);
    fill(node,
        el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, t("events.title")), el("div", { class: "row" }, holder)),
        el("form", { class: "search", role: "search", "aria-label": t("events.filter"), on: { submit: (event) => {
            event.preventDefault();
            choose();
        } } }, field(t("events.topic"), topicInput), field(t("events.kind"), kindInput), el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, t("search.do")))),
        el("section", { class: "card", "aria-label": t("events.title") }, el("div", { class: "card-body flush" }, status, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("events.title") }, el("table", { class: "events" },
            el("thead", {}, el("tr", {}, ["at", "event", "subject", "details"].map((name) => el("th", { scope: "col" }, t(`events.${name}`))))), body)))));
    drawHold();
    open();
    return t("events.title");
}
