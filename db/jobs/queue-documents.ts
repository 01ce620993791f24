/** Queues the issuing of documents for links whose payment or refund changed, in the transaction of the change. */
import type { Tx } from "../postgres/client.ts";
import { enqueue } from "./queue.ts";

/** Links per job: each is locked while their documents are numbered. */
const LINKS_A_JOB = 200;

export async function queueDocuments(tx: Tx, linkIds: readonly string[]): Promise<void> {
  for (let at = 0; at < linkIds.length; at += LINKS_A_JOB)
    await enqueue(tx, "issue_documents", { linkIds: linkIds.slice(at, at + LINKS_A_JOB) });
}
