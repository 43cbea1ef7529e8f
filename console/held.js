// Why a ready job, or a group, is not delivered, in words.
import { timeOf } from "./format.js";
import { t } from "./words.js";

const REASONS = { limit: "held.limit", rate: "held.rate", group_limit: "held.group_limit", group_rate: "held.group_rate", group_paused: "held.group_paused", group_order: "held.group_order", hold: "held.hold" };
const WITH_LIMIT = { limit: "held.limitOf", rate: "held.rateOf", group_limit: "held.group_limitOf", group_rate: "held.group_rateOf" };

/**
 * @param {{held_by?: string, held_until?: string}} one a job or a group
 * @param {any} topic its settings and counts; null if they are unknown
 * @param {any} group its settings and counts; null if they are unknown
 */
export function heldWords({ held_by: by, held_until: until }, topic, group) {
    if (!by) return null;
    const settings = topic?.settings ?? {}, own = group?.settings ?? {};
    const limit = { limit: settings.limit, rate: settings.rate, group_limit: group && (own.limit ?? settings.group_limit), group_rate: group && (own.rate ?? settings.group_rate) }[by];
    const leased = by === "limit" ? topic?.counts?.leased : group?.leased;
    const text = limit && WITH_LIMIT[by] ? t(WITH_LIMIT[by], { limit, leased: leased ?? 0 }) : REASONS[by] ? t(REASONS[by]) : by;
    return until ? [text, ", ", t("held.until"), " ", timeOf(until, { isRelative: true })] : text;
}
