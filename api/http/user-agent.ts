/** The program that made a request, from its User-Agent: shown so that people recognise their sessions, never used for decisions. */

const USER_AGENT_MAX_CHARS = 300;

/** The user-agent header in printable ASCII, bounded; null when there is none. */
export function userAgentOf(request: Request): string | null {
  const text = request.headers
    .get("user-agent")
    ?.replace(/[^\x20-\x7e]/g, "")
    .trim();
  return text ? text.slice(0, USER_AGENT_MAX_CHARS) : null;
}

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  // the order matters: most browsers also claim to be Chrome and Safari
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Chrome|CriOS)\//, "Chrome"],
  [/\bVersion\/[\d.]+.*\bSafari\//, "Safari"],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:iPhone|iPad|iPod)\b/, "iOS"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bMacintosh\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
];
const OTHER_MAX_CHARS = 60;

/** "Firefox on Linux"; for unknown programs, the beginning of the header. */
export function describeUserAgent(userAgent: string | null): string | null {
  if (userAgent === null) return null;
  const browser = BROWSERS.find(([pattern]) => pattern.test(userAgent))?.[1];
  const system = SYSTEMS.find(([pattern]) => pattern.test(userAgent))?.[1];
  if (!browser) return userAgent.slice(0, OTHER_MAX_CHARS);
  return system ? `${browser} on ${system}` : browser;
}
