// Server-sent events, read by fetch, which unlike EventSource can send credentials. Closed while the page is hidden, opened again
// when it is visible, and after a cut with waits that grow.
import { credentials, Problem, queryOf } from "./api.js";

const WAIT_MS = [500, 1000, 2000, 4000, 8000, 15000, 30000];
const SILENCE_MS = 45_000; // the server sends something every 15 s

/** Takes the events out of text as it comes. @param {(event: string, data: string) => void} on */
function reader(on) {
    let rest = "", event = "", data = [];
    return (text) => {
        const lines = (rest + text).split(/\r\n|\n|\r/);
        rest = lines.pop() ?? "";
        for (const line of lines) {
            if (line === "") {
                if (data.length) on(event || "message", data.join("\n"));
                event = "";
                data = [];
            } else if (line.startsWith("event:")) event = line.slice(6).trim();
            else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        }
    };
}

/**
 * @param {string} where @param {object} query
 * @param {Record<string, (data: any) => void>} on by the event's name
 * @param {(state: "opening"|"live"|"lost"|"hidden"|"refused", problem?: Problem) => void} changed
 * @param {AbortSignal} signal its end
 */
export function listen(where, query, on, changed, signal) {
    /** @type {AbortController|null} */
    let under = null;
    let timer = 0, silence = 0, fails = 0;

    function stop() {
        clearTimeout(timer);
        clearTimeout(silence);
        under?.abort();
        under = null;
    }

    function again() {
        stop();
        if (signal.aborted || document.hidden) return;
        changed("lost");
        timer = setTimeout(open, WAIT_MS[Math.min(fails++, WAIT_MS.length - 1)] * (0.8 + Math.random() * 0.4));
    }

    async function open() {
        stop();
        const mine = (under = new AbortController());
        if (!fails) changed("opening");
        try {
            const answer = await fetch(new URL(where + queryOf(query), new URL("../", document.baseURI)), {
                headers: { Accept: "text/event-stream", ...(await credentials()) }, cache: "no-store", redirect: "error", signal: mine.signal });
            if (!answer.ok || !answer.body) {
                const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
                if (answer.status === 401) document.dispatchEvent(new Event("tarry:login"));
                if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) return changed("refused", problem);
                throw problem;
            }
            const take = reader((event, data) => {
                if (mine !== under) return;
                fails = 0;
                on[event]?.(JSON.parse(data));
            });
            const words = new TextDecoder();
            const bytes = answer.body.getReader();
            changed("live");
            for (;;) {
                clearTimeout(silence);
                silence = setTimeout(() => mine === under && again(), SILENCE_MS);
                const { done, value } = await bytes.read();
                if (done || mine !== under) break;
                take(words.decode(value, { stream: true }));
            }
        } catch (fault) {
            if (!(fault instanceof Problem) && !(fault instanceof TypeError) && fault?.name !== "AbortError") console.error(fault);
        }
        if (mine === under) again();
    }

    function look() {
        if (document.hidden) {
            stop();
            changed("hidden");
        } else if (!under) {
            fails = 0;
            open();
        }
    }

    document.addEventListener("visibilitychange", look, { signal });
    window.addEventListener("online", () => !document.hidden && fails && open(), { signal });
    signal.addEventListener("abort", stop);
    look();
}
