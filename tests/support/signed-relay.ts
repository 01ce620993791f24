/** A relay that is signed and stored for payments, without a worker. */

import { expect } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { markSigned } from "../../db/payments/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertRelay } from "../../db/relays/relays.ts";
import { asLeased } from "./as-leased.ts";
import { NETWORK, randomHash } from "./ledger-lab.ts";
import { randomAddress } from "./seed.ts";

let lastNonce = 0n;

export async function relayOf(
  sql: Sql,
  ...all: readonly Pick<NewPayment, "id">[]
): Promise<{ relayId: bigint; txHash: Hex }> {
  const [relayer, txHash] = [randomAddress(), randomHash()];
  const ids = all.map(({ id }) => id);
  const lane = { network: NETWORK, relayer } as const;
  let relayId = 0n;
  await sql.begin(async (tx) => {
    await ensureLane(tx, lane, 0n);
    relayId = await insertRelay(tx, {
      ...{
        ...lane,
        nonce: lastNonce++,
        kind: "PAYMENTS",
        callTo: randomAddress(),
        callData: "0x",
        gasLimit: 1n,
      },
      attempt: { txHash, raw: "0x", maxFeePerGas: 2n, maxPriorityFeePerGas: 1n },
    });
    expect((await markSigned(tx, relayId, await asLeased(tx, all))).sort()).toEqual(ids.toSorted());
  });
  return { relayId, txHash };
}
