/**
 * The data of an event as readers and webhooks receive it: the fields it was recorded with, and the whole link or transaction in
 * its current state. Pure.
 */
import { type LinkRow, presentSingleLink } from "./present-link.ts";
import { sampleEvent } from "./sample-event.ts";
import { type HistoryRow, presentTransaction } from "./transaction.ts";

export function presentEventData(
  recorded: Record<string, unknown>,
  subject: { link: LinkRow | undefined; transaction: HistoryRow | undefined },
  addresses: { baseUrl: string },
) {
  const { link, transaction } = subject;
  return {
    ...recorded,
    ...(typeof recorded.sampleType === "string"
      ? { sample: sampleEvent(recorded.sampleType, addresses) }
      : {}),
    ...(link ? { link: presentSingleLink(link, addresses) } : {}),
    ...(transaction ? { transaction: presentTransaction(transaction) } : {}),
  };
}
