/** Reads payments by id; reads asked for in the same turn of the event loop share one query. */

import { findPaymentViews, type PaymentView } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";

export type PaymentReader = (id: string) => Promise<PaymentView | undefined>;

type Batch = { ids: Set<string>; rows: Promise<Map<string, PaymentView>> };

export function openPaymentReader(sql: Sql): PaymentReader {
  let gathering: Batch | undefined;

  function open(): Batch {
    const ids = new Set<string>();
    const rows = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      gathering = undefined;
      const found = await findPaymentViews(sql, [...ids]);
      return new Map(found.map((row) => [row.id, row]));
    });
    return { ids, rows };
  }

  return async (id) => {
    gathering ??= open();
    gathering.ids.add(id);
    return (await gathering.rows).get(id);
  };
}
