/** The program a request comes from, as it names itself: nothing is decided by it, a person recognises a session by it. */

const USER_AGENT_MAX_CHARS = 300;

/** What the caller's program says it is, in printable ASCII and bounded; null when it says nothing. */
export function userAgentOf(request: Request): string | null {
  const text = request.headers
    .get("user-agent")
    ?.replace(/[^\x20-\x7e]/g, "")
    .trim();
  return text ? text.slice(0, USER_AGENT_MAX_CHARS) : null;
}
