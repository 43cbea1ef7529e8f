// The consumers of a topic: who holds how many jobs, and who asked for jobs lately.
import { get, path } from "./api.js";
import { bdi, el, fill } from "./dom.js";
import { number, timeOf } from "./format.js";
import { reason } from "./notice.js";
import { href } from "./router.js";
import { t } from "./words.js";

const AGAIN_MS = 10_000;

function draw(topic, delivers, found) {
    const { consumers, unnamed, waiting, waiting_unnamed: nameless, pushers, complete } = found;
    const pushed = pushers.length ? el("p", { class: "help", id: "pushers" }, t("consumers.pushers"), " ", pushers.map((one, at) => [at ? ", " : null, bdi(one.caller), " (", timeOf(one.seen_at, { isRelative: true }), ")"])) : null;
    if (!consumers.length && !unnamed && !waiting) return [el("p", { class: "help" }, delivers ? [t("consumers.delivers"), " ", el("a", { href: href(["topics", topic, "delivery"]) }, t("topic.delivery"))] : t("consumers.none")), pushed];
    const head = ["name", "leased", "taken", "seen"].map((name, at) => el("th", { scope: "col", class: at ? "n" : "" }, t(`consumers.${name}`)));
    return [
        consumers.length ? el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("consumers.title") }, el("table", { class: "consumers" },
            el("thead", {}, el("tr", {}, head)),
            el("tbody", {}, consumers.map((one) => el("tr", {},
                el("th", { scope: "row" }, bdi(one.consumer)),
                el("td", { class: "n" }, one.leased ? el("a", { href: href(["topics", topic, "jobs"], { state: "leased" }) }, number(one.leased)) : number(0)),
                el("td", { class: "n" }, number(one.taken)),
                el("td", { class: "n" }, timeOf(one.seen_at, { isRelative: true }))))))) : null,
        unnamed ? el("p", { class: "help" }, el("a", { href: href(["topics", topic, "jobs"], { state: "leased" }) }, t("consumers.unnamed", { n: unnamed }))) : null,
        waiting ? el("p", { class: "help" }, t("consumers.waiting", { n: waiting }), nameless ? t("consumers.waitingUnnamed", { n: nameless }) : null) : null,
        pushed,
        complete ? null : el("p", { class: "help" }, t("consumers.more")),
    ];
}

/** A card of them. @param {string} topic @param {boolean} delivers to a target @param {AbortSignal} signal */
export function consumersCard(topic, delivers, signal) {
    let timer = 0;
    const body = el("div", { class: "card-body" }, el("p", { class: "help" }, t("page.wait")));
    async function look() {
        clearTimeout(timer);
        if (signal.aborted) return;
        // The table stays unchanged while the user holds something in it.
        if (!document.hidden && !(body.contains(document.activeElement) && document.activeElement?.tagName === "A")) {
            try {
                fill(body, draw(topic, delivers, await get(path("v1", "topics", topic, "consumers"), {}, signal)));
            } catch (fault) {
                if (signal.aborted) return;
                fill(body, el("p", { class: "help" }, reason(fault)));
                if (fault.status >= 400 && fault.status < 500) return;
            }
        }
        timer = setTimeout(look, AGAIN_MS);
    }
    signal.addEventListener("abort", () => clearTimeout(timer));
    document.addEventListener("visibilitychange", () => !document.hidden && look(), { signal });
    look();
    return el("section", { class: "card", "aria-labelledby": "consumers-title" }, el("div", { class: "card-head" }, el("h2", { id: "consumers-title" }, t("consumers.title"))), body);
}
