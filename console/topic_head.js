// The head of each page about a topic: its name and state, what can be done with it, and the way to its other pages.
import { get, path } from "./api.js";
import { button, scoped } from "./button.js";
import { bdi, el, fill } from "./dom.js";
import { go, href } from "./router.js";
import { lacks } from "./session.js";
import { menu } from "./menu.js";
import { deliversBadge, pausedBadge, STATES } from "./state.js";
import { pause, purge, redrive, remove, resume } from "./topic_actions.js";
import { createTopic, isTopicName } from "./topic_new.js";
import { t } from "./words.js";

/** @param {string} topic @param {AbortSignal} signal @returns {Promise<any>} the result of GET; null if the topic does not exist */
export async function topicOf(topic, signal) {
    try {
        return await get(path("v1", "topics", topic), {}, signal);
    } catch (fault) {
        if (fault.status === 404 && fault.code === "not_found") return null;
        // A user who may push or change the topic but not read it sees the head with its buttons.
        if (fault.status === 403 && ["push", "admin"].some((scope) => !lacks(scope, topic))) return null;
        throw fault;
    }
}

const jobsOf = (topic) => STATES.reduce((sum, state) => sum + (topic.counts?.[state] ?? 0), 0);

/** Whether there are jobs that a purge would drop, as far as the user may know. */
const canPurge = (topic) => !topic || jobsOf(topic) > (topic.counts?.leased ?? 0) || Boolean(topic.counts?.finished);

/** Breadcrumbs: links to the pages above this one. @param {[string, string[]][]} links */
export function trail(links) {
    return el("nav", { class: "trail", "aria-label": t("nav.trail") }, el("ol", {}, links.map(([text, parts]) => el("li", {}, el("a", { href: href(parts) }, bdi(text))))));
}

/**
 * @param {string} topic @param {"topic"|"jobs"|"groups"|"settings"|"delivery"} page @param {any} known the result of topicOf
 * @param {() => Promise<any>} again reads the topic again and shows it
 */
export function topicHead(topic, page, known, again) {
    const marks = el("span", { class: "marks", id: "topic-marks" }), actions = el("div", { class: "row actions", role: "group", "aria-label": t("topic.actions") });
    const then = (work) => async () => {
        if (await work()) await again();
    };
    let last = "";

    function update(now) {
        const until = now?.paused_until ?? "";
        const key = JSON.stringify([now?.paused, until, Boolean(now?.settings?.deliver), now?.breaker, Boolean(now), Boolean(now?.counts?.dead), canPurge(now)]);
        if (key === last || (last && actions.querySelector("details[open]"))) return; // an open menu stays as it is
        last = key;
        fill(marks, now && pausedBadge(now), now?.settings?.deliver && el("a", { href: href(["topics", topic, "delivery"]) }, deliversBadge(now.breaker)));
        if (!now && !lacks("read", topic)) return fill(actions); // the topic does not exist
        fill(actions,
            now?.paused ? scoped(t("pause.resume"), "admin", topic, then(() => resume(topic)), { kind: "primary" }) : scoped(t("pause.button"), "admin", topic, then(() => pause(topic)), {}),
            scoped(t("push.button"), "push", topic, then(async () => (await import("./push.js")).push(topic))),
            now?.counts?.dead ? scoped(t("redrive.button"), "admin", topic, then(() => redrive(topic))) : null,
            menu(t("topic.more"), [
                canPurge(now) ? scoped(t("purge.button"), "admin", topic, then(() => purge(topic)), { kind: "danger" }) : null,
                scoped(t("delete.button"), "admin", topic, async () => {
                    const counts = (await topicOf(topic, new AbortController().signal))?.counts ?? {};
                    if (await remove(topic, counts)) go([]);
                }, { kind: "danger" })]));
    }

    const tabs = [["topic", []], ["jobs", ["jobs"]], ["groups", ["groups"]], ["settings", ["settings"]], ["delivery", ["delivery"]]];
    update(known);
    return {
        node: el("div", { class: "topic-head" },
            trail([[t("nav.topics"), ["topics"]]]),
            el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, bdi(topic), marks), actions),
            !known && !lacks("read", topic) ? null : el("nav", { class: "tabs", "aria-label": t("topic.pages") }, tabs.map(([name, more]) => el("a", { href: href(["topics", topic, ...more]), "aria-current": name === page ? "page" : null }, t(`topic.${name}`))))),
        update,
    };
}

/** A page about a topic that is not there. */
export function noTopic(topic, again) {
    return el("section", { class: "card" }, el("div", { class: "card-body" }, el("p", {}, lacks("read", topic) || t("search.noTopic", { text: topic })), lacks("read", topic) ? null : el("p", { class: "help" }, t("topic.noneHelp")),
        el("div", { class: "row" }, isTopicName(topic) && !lacks("read", topic) ? scoped(t("topics.createNamed", { topic }), "admin", topic, () => createTopic(topic)) : null, scoped(t("push.button"), "push", topic, async () => {
            if (await (await import("./push.js")).push(topic)) await again();
        }, { kind: "primary" }), button(t("do.again"), again))));
}
