// Elements and text. The console never turns text into markup or code: text from jobs, names and
// errors only goes into text nodes and attributes with fixed names.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node|string|number|null|undefined|false|Child[]} Child
 * @typedef {Record<string, any>} Props `on` holds listeners by event, the rest are attributes; false, null and undefined leave one out.
 */

/** @param {Element} node @param {Props} props */
function dress(node, props) {
    for (const [name, value] of Object.entries(props)) {
        if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
        else if (name === "value") /** @type {any} */ (node).value = value;
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
    }
}

/** @param {Child[]} children @returns {(Node|string)[]} */
function flat(children) {
    return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => (child instanceof Node ? child : String(child)));
}

/** An element of HTML. @param {string} tag @param {Props} [props] @param {...Child} children @returns {any} */
export function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    node.append(...flat(children));
    dress(node, props); // behind the children: the value of a select needs its options
    return node;
}

/** An element of SVG. @param {string} tag @param {Props} [props] @param {...Child} children @returns {any} */
export function svg(tag, props = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    dress(node, props);
    node.append(...flat(children));
    return node;
}

/** Replaces the content of a node. @param {Element} node @param {...Child} children */
export function fill(node, ...children) {
    node.replaceChildren(...flat(children));
    return node;
}

/** The node's text; left alone where it is that already, so nothing is drawn or read aloud twice. */
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
    return node;
}

/** An attribute; null takes it away. */
export function mark(node, name, value) {
    if (value === null || value === false || value === undefined) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : String(value));
    return node;
}

// Characters that are not seen, or turn the order of those around them, so that a text could pass for another one.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu;

/** Text of strangers as it may be shown: what cannot be seen is written out. @param {string} text */
export function seen(text) {
    return String(text).replace(HIDDEN, (char) => `\u27e8U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** Text of strangers as an element of its own, which keeps its direction to itself. @param {string} text @param {Props} [props] */
export function bdi(text, props = {}) {
    return el("bdi", props, seen(text));
}
