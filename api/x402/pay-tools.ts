/** What paying needs: the process' resources, and what is opened once and shared by all payments. */
import type { RelayLimits } from "../../core/domain/relay-budget.ts";
import { findPaymentViews, type PaymentView } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { ApiConfig } from "../config.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Acceptable, type Acceptor, openAcceptor, type Store } from "./accept.ts";

type PayDeps = Pick<ApiDeps, "sql" | "outcomes" | "log" | "chains"> & {
  readonly config: Pick<ApiConfig, "baseUrl" | "payWaitMs"> & RelayLimits;
};

export type PayTools<Payment extends Acceptable> = PayDeps & {
  readonly acceptor: Acceptor<Payment>;
  readonly readPayment: PaymentReader;
};

export function openPayTools<Payment extends Acceptable>(
  deps: PayDeps,
  store: Store<Payment>,
): PayTools<Payment> {
  const { sql, outcomes, log, chains, config } = deps;
  return {
    ...{ sql, outcomes, log, chains, config },
    acceptor: openAcceptor(sql, store),
    readPayment: openPaymentReader(sql),
  };
}

export type PaymentReader = (id: string) => Promise<PaymentView | undefined>;

type Batch = { ids: Set<string>; rows: Promise<Map<string, PaymentView>> };

/** Reads payments by id; reads asked for in the same turn of the event loop share one query. */
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
