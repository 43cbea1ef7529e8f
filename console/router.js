// Addresses behind the '#': #/topics/T/jobs/ID?name=value, each part escaped.

/** @typedef {{parts: string[], query: URLSearchParams}} Place */

/** @param {string[]} parts @param {Record<string, string|undefined>} [query] */
export function href(parts, query = {}) {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value) words.set(name, value);
    const text = words.toString();
    return "#/" + parts.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

/** @returns {Place} */
export function place() {
    const [where, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    let parts;
    try {
        parts = where.split("/").filter((part) => part !== "").map(decodeURIComponent);
    } catch {
        parts = ["?"]; // no address of ours
    }
    return { parts, query: new URLSearchParams(query) };
}

/** Another address, by a click of the page's own. */
export function go(parts, query) {
    location.hash = href(parts, query);
}

/** Changes the query of the page's address without a redraw. */
export function note(parts, query) {
    history.replaceState(null, "", href(parts, query));
}
