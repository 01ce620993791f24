/** Instants in the local time of an IANA time zone. Pure. */

const DAY_MS = 86_400_000;
/** Limits of the cache: zones, and days of each zone. */
const ZONES_KEPT = 200;
const DAYS_KEPT = 1_000;
/** Outside these years the formatter's output is not ISO 8601. */
const FIRST_MS = Date.UTC(1970, 0, 1);
const LAST_MS = Date.UTC(9999, 0, 1);

type Offset = { ms: number; text: string };
type Zone = {
  formatter: Intl.DateTimeFormat;
  /** By UTC days since 1970; null: the offset changes within that day. */
  offsets: Map<number, Offset | null>;
};

const zones = new Map<string, Zone>();

/**
 * "2026-03-29T03:30:00+02:00": local time of a zone with its offset at that moment. A history has few days and many moments, and asking
 * the runtime takes 20 times as long as this addition, so a day's offset is cached when it is the same at both its ends. No
 * zone changes its offset twice in 24 hours.
 */
export function localTime(instant: Date, timeZone: string): string {
  const zone = zoneOf(timeZone);
  const ms = instant.getTime();
  if (!(FIRST_MS <= ms && ms < LAST_MS)) return formatLocal(zone, instant);
  const offset = offsetOf(zone, Math.floor(ms / DAY_MS));
  if (!offset) return formatLocal(zone, instant);
  return new Date(ms + offset.ms).toISOString().slice(0, 19) + offset.text;
}

/** Whether the runtime knows this IANA time zone. */
export function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

function zoneOf(timeZone: string): Zone {
  const known = zones.get(timeZone);
  if (known) return known;
  const formatter = new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "longOffset",
  });
  const zone = { formatter, offsets: new Map() };
  if (zones.size >= ZONES_KEPT) zones.clear();
  zones.set(timeZone, zone);
  return zone;
}

function offsetOf(zone: Zone, day: number): Offset | null {
  const known = zone.offsets.get(day);
  if (known !== undefined) return known;
  const [start, end] = [day, day + 1].map((one) => formatLocal(zone, new Date(one * DAY_MS)).slice(19));
  const offset = start === undefined || start !== end ? null : parseOffset(start);
  if (zone.offsets.size >= DAYS_KEPT) zone.offsets.clear();
  zone.offsets.set(day, offset);
  return offset;
}

/** Null for an offset of odd seconds, which no zone has had since 1972. */
function parseOffset(text: string): Offset | null {
  const [, sign, hours, minutes] = /^([+-])(\d\d):(\d\d)$/.exec(text) ?? [];
  if (!sign) return null;
  const ms = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return { ms: sign === "-" ? -ms : ms, text };
}

function formatLocal({ formatter }: Zone, instant: Date): string {
  const part = Object.fromEntries(formatter.formatToParts(instant).map(({ type, value }) => [type, value]));
  const offset = part.timeZoneName?.replace("GMT", "") || "+00:00";
  return `${part.year}-${part.month}-${part.day}T${part.hour}:${part.minute}:${part.second}${offset}`;
}
