// The runbooks as pages: their Markdown as headings, lists, tables, code and links.
import { origin } from "./api.js";
import { el, fill } from "./dom.js";
import { href } from "./router.js";
import { isTopicName } from "./topic_new.js";
import { t } from "./words.js";

/** The address of a link in a runbook: another runbook is a page here, other pages are those of the project. @param {string} to */
function addressOf(to) {
    const own = to.match(/^([\w-]+)\.md(#.*)?$/);
    if (own) return href(own[1] === "README" ? ["runbooks"] : ["runbooks", own[1]]);
    return /^https?:/.test(to) ? to : null;
}

/** Code, bold, emphasis and links of a line. @param {string} text @returns {any[]} */
function inline(text) {
    const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\([^)\s]+\))/);
    return parts.map((part) => {
        const link = part.match(/^\[([^\]]+)\]\(([^)\s]+)\)$/);
        if (link) {
            const to = addressOf(link[2]);
            return to ? el("a", { href: to, rel: "noopener" }, inline(link[1])) : el("span", { title: link[2] }, inline(link[1]));
        }
        if (part.startsWith("`") && part.length > 2) return el("code", {}, part.slice(1, -1));
        if (part.startsWith("**") && part.length > 4) return el("strong", {}, inline(part.slice(2, -2)));
        if (/^\*[^*]+\*$/.test(part)) return el("em", {}, part.slice(1, -1));
        return part;
    });
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

/** @param {string} text Markdown of our own runbooks @returns {any[]} */
export function markdown(text) {
    const lines = text.split("\n"), out = [];
    const isBlock = (line) => !line.trim() || /^(#+ |```|\||\s*([-*]|\d+\.) )/.test(line);
    for (let at = 0; at < lines.length; at++) {
        const line = lines[at], head = line.match(/^(#+) (.*)/), item = line.match(/^\s*([-*]|\d+\.) /);
        if (head) out.push(el(head[1].length === 1 ? "h1" : head[1].length === 2 ? "h2" : "h3", head[1].length === 1 ? { tabindex: "-1" } : {}, inline(head[2])));
        else if (line.startsWith("```")) {
            const code = [];
            for (at++; at < lines.length && !lines[at].startsWith("```"); at++) code.push(lines[at]);
            out.push(el("pre", { class: "body mono", tabindex: "0" }, code.join("\n")));
        } else if (line.startsWith("|")) {
            const rows = [];
            for (; at < lines.length && lines[at].startsWith("|"); at++) rows.push(cellsOf(lines[at]));
            at--;
            const [first, , ...rest] = rows;
            out.push(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": first.join(", ") }, el("table", {}, el("thead", {}, el("tr", {}, first.map((cell) => el("th", { scope: "col" }, inline(cell))))), el("tbody", {}, rest.map((row) => el("tr", {}, row.map((cell) => el("td", { class: "wrap" }, inline(cell)))))))));
        } else if (item) {
            const items = [];
            for (; at < lines.length && lines[at].trim(); at++) {
                const begin = lines[at].match(/^\s*(?:[-*]|\d+\.) (.*)/);
                if (begin) items.push(begin[1]);
                else items[items.length - 1] += ` ${lines[at].trim()}`;
            }
            out.push(el(/\d/.test(item[1]) ? "ol" : "ul", { class: "prose-list" }, items.map((one) => el("li", {}, inline(one)))));
        } else if (line.trim()) {
            const words = [line];
            while (at + 1 < lines.length && !isBlock(lines[at + 1])) words.push(lines[++at]);
            out.push(el("p", {}, inline(words.join(" "))));
        }
    }
    return out;
}

/** Names the topic in the commands, in place of TOPIC and of the topics of the examples. @param {string} text @param {string} topic */
function about(text, topic) {
    if (!isTopicName(topic)) return text;
    const word = /^[\w.+-]+$/.test(topic) ? topic : `'${topic}'`, segment = encodeURIComponent(topic).replaceAll("(", "%28").replaceAll(")", "%29");
    const commands = (block) => block.replace(/\b(tarry (?:groups|list|purge|redrive) )[\w.-]+/g, (_, verb) => verb + word).replace(/(\/v1\/topics\/)[\w.-]+/g, (_, way) => way + segment);
    return text.replace(/```sh\n[^]*?```/g, commands).replace(/\bTOPIC\b/g, () => word);
}

/** @param {{runbook: string, query: URLSearchParams, node: Element, signal: AbortSignal}} page */
export async function show({ runbook, query, node, signal }) {
    const answer = await fetch(`${origin}/runbooks${runbook ? `/${encodeURIComponent(runbook)}` : ""}`, { signal, headers: { Accept: "text/plain" } });
    if (!answer.ok) throw Object.assign(new Error(t("runbook.none", { name: runbook })), { status: answer.status });
    const text = await answer.text();
    fill(node, el("article", { class: "card runbook" }, el("div", { class: "card-body" }, runbook ? el("p", {}, el("a", { href: href(["runbooks"]) }, t("runbook.all"))) : null, markdown(about(text, query.get("topic") ?? "")))));
    return text.match(/^# (.*)/m)?.[1] ?? t("status.runbook");
}
