/** Waits by the service's event streams, never by polling. */
import type { Client, WatchedLink } from "../sdk/client.ts";
import { compactLink } from "./compact-answers.ts";

type Wait = {
  id: string;
  timeoutSeconds: number;
  signal: AbortSignal;
  onProgress: (message: string) => void;
};

/** How long before the timeout the call returns, because the caller's own timeout is often the same. */
const ANSWER_MARGIN_MS = 3_000;
const PROGRESS_EVERY_MS = 10_000;

export async function waitForPayment(
  service: Client,
  { id, timeoutSeconds, signal, onProgress }: Wait,
): Promise<Record<string, unknown>> {
  const startedMs = Date.now();
  const link = await service.links.get(id);
  const waitMs = Math.max(1_000, timeoutSeconds * 1_000 - ANSWER_MARGIN_MS);
  const over = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
  let state = describe(link);
  onProgress(state);
  const beat = setInterval(
    () => onProgress(`${state}, ${Math.round((Date.now() - startedMs) / 1_000)} s`),
    PROGRESS_EVERY_MS,
  );
  try {
    if (link.maxPayments !== 1)
      return isOpen(link) ? await waitForNextUse(service, id, over) : presentEnd(link);
    for await (const seen of service.links.watch(id, { signal: over })) {
      state = describe(seen);
      onProgress(state);
    }
    return presentEnd(await service.links.get(id));
  } finally {
    clearInterval(beat);
  }
}

function describe({ status, ...link }: Pick<WatchedLink, "status"> & Partial<WatchedLink>): string {
  if (link.seen) return "seen in the block being built, not paid yet";
  const { confirmations, confirmationsNeeded } = link;
  return confirmations && status === "PENDING"
    ? `${status}, ${confirmations} of ${confirmationsNeeded} confirmations`
    : status;
}

function presentEnd(link: Awaited<ReturnType<Client["links"]["get"]>>): Record<string, unknown> {
  return { outcome: isOpen(link) ? "STILL_WAITING" : link.status, ...compactLink(link) };
}

function isOpen({ status }: Pick<WatchedLink, "status">): boolean {
  return status === "ACTIVE" || status === "PENDING";
}

/** A reusable link stays ACTIVE: its payments are separate links, named in the account's events. */
async function waitForNextUse(
  service: Client,
  id: string,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  for await (const { event } of service.events.stream({ signal })) {
    const { link } = event.data;
    if (event.type === "payment_link.paid" && link?.parentId === id)
      return { outcome: "PAID", ...compactLink(link), parentId: id };
    if (event.subjectId === id && (link?.status === "CANCELLED" || link?.status === "EXPIRED"))
      return presentEnd(link);
  }
  return presentEnd(await service.links.get(id));
}
