/** The current state of the subjects of events: the links and history rows that they name, of their own user only. */
import type { LinkRow } from "../../core/domain/present-link.ts";
import type { HistoryRow } from "../../core/domain/transaction.ts";
import { columns } from "../links/links.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { transactions } from "../schema.ts";

type About = { userId: string; type: string; subjectId: string; data: Record<string, unknown> };
export type Subjects = {
  links: ReadonlyMap<string, LinkRow>;
  transactions: ReadonlyMap<string, HistoryRow>;
};

/** At most two statements for any number of events, none for events about neither. Deleted subjects are omitted. */
export async function findSubjects(tx: Tx, events: readonly About[]): Promise<Subjects> {
  const links = namedBy(events, linkIdOf);
  const transactions = namedBy(events, transactionIdOf);
  return {
    links: links.length > 0 ? await findLinks(tx, links) : new Map(),
    transactions: transactions.length > 0 ? await findTransactions(tx, transactions) : new Map(),
  };
}

export function subjectOf({ links, transactions }: Subjects, event: Omit<About, "userId">) {
  const linkId = linkIdOf(event);
  const transactionId = transactionIdOf(event);
  return {
    link: linkId === undefined ? undefined : links.get(linkId),
    transaction: transactionId === undefined ? undefined : transactions.get(transactionId),
  };
}

/** The link of a refund is in its data. */
function linkIdOf({ type, subjectId, data }: Omit<About, "userId">): string | undefined {
  if (type.startsWith("payment_link.")) return subjectId;
  return type.startsWith("refund.") && typeof data.linkId === "string" ? data.linkId : undefined;
}

function transactionIdOf({ type, subjectId }: Omit<About, "userId" | "data">): string | undefined {
  return type.startsWith("transaction.") ? subjectId : undefined;
}

type Named = { user_id: string; id: string };

function namedBy(events: readonly About[], idOf: (event: About) => string | undefined): Named[] {
  const named = new Map<string, Named>();
  for (const event of events) {
    const id = idOf(event);
    if (id !== undefined) named.set(id, { user_id: event.userId, id });
  }
  return [...named.values()];
}

async function findLinks(tx: Tx, named: Named[]): Promise<Map<string, LinkRow>> {
  const rows = await tx<LinkRow[]>`
    select ${columns(tx)}
    from json_to_recordset(${JSON.stringify(named)}::text::json) as given (user_id text, id text)
    join payment_links link on link.id = given.id and link.user_id = given.user_id`;
  return new Map(rows.map((row) => [row.id, row]));
}

async function findTransactions(tx: Tx, named: Named[]): Promise<Map<string, HistoryRow>> {
  const rows = await tx<HistoryRow[]>`
    select ${columnsOf(tx, transactions, "history")}
    from json_to_recordset(${JSON.stringify(named)}::text::json) as given (user_id text, id text)
    join transactions history on history.id = given.id and history.owner = owner_key(given.user_id)`;
  return new Map(rows.map((row) => [row.id, row]));
}
