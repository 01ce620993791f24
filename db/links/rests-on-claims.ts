import type { Tx } from "../postgres/client.ts";
import { hasUnappliedTransfer } from "./unapplied-transfers.ts";

/** SQL: no payment and no transfer holds the row of `payment_links` that is named `link`. */
export function restsOnClaims(tx: Tx, link: "link" | "use") {
  const id = tx(`${link}.id`);
  return tx`(
    not exists (select from payments where payments.link_id = ${id} and payments.is_live)
    and not exists (
      select from transfers
      where transfers.link_id = ${id} and transfers.pays and transfers.status <> 'ORPHANED'
    )
    and not ${hasUnappliedTransfer(tx, { id: `${link}.id`, amountUnits: `${link}.amount_units`, payAmountUnits: `${link}.pay_amount_units` })}
  )`;
}
