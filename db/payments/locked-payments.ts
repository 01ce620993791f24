import type { PendingQuery, Row } from "postgres";
import type { Tx } from "../postgres/client.ts";

/** SQL for `with`: `locked`, the payments of these ids (`text[]`), locked in the order of their ids (ARCHITECTURE.md, lock order). */
export function lockedPayments(tx: Tx, ids: PendingQuery<Row[]>) {
  return tx`locked as (
      select id
      from payments
      where id = any(${ids})
      order by id
      for update
    )`;
}
