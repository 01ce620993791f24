/** Dependencies of payments: the process's resources, and what all payments share. */

import type { PayableLink } from "../../core/domain/payment-acceptance.ts";
import type { RelayLimits } from "../../core/domain/relay-budget.ts";
import { type AskedLink, findPayableLinks } from "../../db/links/payable-links.ts";
import { findPaymentViews, type PaymentView } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { ApiConfig } from "../config.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Acceptable, type Acceptor, openAcceptor, type Store } from "./group-commit.ts";

type PayDeps = Pick<ApiDeps, "sql" | "outcomes" | "log" | "chains"> & {
  readonly config: Pick<ApiConfig, "baseUrl" | "payWaitMs"> & RelayLimits;
};

export type PayTools<Payment extends Acceptable> = PayDeps & {
  readonly acceptor: Acceptor<Payment>;
  readonly readPayment: PaymentReader;
  readonly readLink: LinkReader;
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
    readLink: readTogether((asked) => findPayableLinks(sql, asked)),
  };
}

export type PaymentReader = (id: string) => Promise<PaymentView | undefined>;

export type LinkReader = (asked: AskedLink) => Promise<PayableLink | undefined>;

export function openPaymentReader(sql: Sql): PaymentReader {
  return readTogether(async (ids) => {
    const found = await findPaymentViews(sql, [...new Set(ids)]);
    const views = new Map(found.map((view) => [view.id, view]));
    return ids.map((id) => views.get(id));
  });
}

/** Reads single rows; those requested in the same turn of the event loop share one query. `readAll` returns them in the order of the request. */
function readTogether<Asked, Found>(
  readAll: (asked: readonly Asked[]) => Promise<readonly (Found | undefined)[]>,
): (asked: Asked) => Promise<Found | undefined> {
  let gathering: { asked: Asked[]; found: Promise<readonly (Found | undefined)[]> } | undefined;

  function open() {
    const asked: Asked[] = [];
    const found = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      gathering = undefined;
      return readAll(asked);
    });
    return { asked, found };
  }

  return async (one) => {
    gathering ??= open();
    const { asked, found } = gathering;
    const place = asked.push(one) - 1;
    return (await found)[place];
  };
}
