/** A transfer as the ledger holds it, put there directly: for statements whose condition is about such a row. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import { type BooksLab, NETWORK, randomHash, UNITS } from "./ledger-lab.ts";
import { randomAddress } from "./seed.ts";

export type BookedTransfer = {
  link?: string | null;
  units?: bigint;
  status?: "DETECTED" | "CONFIRMED" | "ORPHANED";
  pays?: boolean;
  from?: Hex;
  to?: Hex;
  nonce?: Hex | null;
  txHash?: Hex;
  network?: NetworkId;
  blockNumber?: number;
  settledBy?: SettledBy | null;
};

/** To the lab's merchant and counted for no link, unless said otherwise. */
export async function bookTransfer(
  { merchant, sql }: Pick<BooksLab, "merchant" | "sql">,
  {
    link = null,
    units = UNITS,
    status = "CONFIRMED",
    pays = false,
    from = randomAddress(),
    to = merchant.address,
    nonce = null,
    txHash = randomHash(),
    network = NETWORK,
    blockNumber = 99,
    settledBy = null,
  }: BookedTransfer = {},
): Promise<void> {
  await sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
      authorization_nonce, status, link_id, pays, settled_by
    )
    values (
      ${network}, ${blockNumber}, ${randomHash()}, now(), ${txHash}, 1, ${from}, ${to}, ${units}, ${nonce}, ${status}, ${link},
      ${pays}, ${settledBy}
    )`;
}
