/** A send from the browser's prompt to the block, through the three real processes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let sql: Sql;

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 2 });
}, 120_000);
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

async function funded(units: bigint): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, units);
  return merchant;
}

describe("a send", () => {
  test("moves the money once, and every record shows it", async () => {
    const merchant = await funded(10_000_000n);
    const to = randomAddress();
    const prepared = await prepareSend(merchant, { to, amount: "2.5", note: "Invoice 7" });
    expect(prepared).toMatchObject({
      success: true,
      status: "AWAITING_SIGNATURE",
      chainId: 84532,
      passkeyChallenge: {
        challenge: Buffer.from(prepared.userOpHash.slice(2), "hex").toString("base64url"),
        timeout: 60_000,
        rpId: "localhost",
        userVerification: "required",
        allowCredentials: [{ id: merchant.passkey.credentialId, type: "public-key" }],
      },
      summary: {
        network: "base-sepolia",
        from: merchant.walletAddress,
        payments: [{ to, amount: "2.500000", note: "Invoice 7" }],
        total: "2.500000",
        fee: "0.000000",
        balanceAfter: "7.500000",
      },
    });
    expect(prepared.sendId).toMatch(/^snd_[0-9a-f]{44}$/);
    const confirmed = await confirmSend(merchant, prepared);
    expect(confirmed.status).toBe(202);
    expect(confirmed.body).toMatchObject({
      success: true,
      sendId: prepared.sendId,
      userOpHash: prepared.userOpHash,
      statusUrl: `${world.baseUrl}/v1/wallets/sends/${prepared.sendId}`,
      transaction: { type: "SEND", amount: "2.500000", clientWalletAddress: to, description: "Invoice 7" },
    });

    const done = await waitForSend(merchant, prepared.sendId);
    expect(done).toMatchObject({ reason: null, stillPossible: false, total: "2.500000" });
    expect(done.transactionHash).toMatch(/^0x[0-9a-f]{64}$/);
    expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(2_500_000n);
    expect(await readUsdcBalance(world.chain.rpcUrl, merchant.walletAddress as Hex)).toBe(7_500_000n);

    const { body } = await merchant.client.get("/v1/transactions?types=SEND");
    expect(body.data.transactions).toHaveLength(1);
    expect(body.data.transactions[0]).toMatchObject({
      id: confirmed.body.transaction.id,
      status: "CONFIRMED",
      amount: "2.500000",
      transactionHash: done.transactionHash,
      metadata: { kind: "SEND", sendId: prepared.sendId },
    });
    const relays = await sql`select state from relays where kind = 'OPERATIONS'`;
    expect(relays).toHaveLength(1);
    const events = await sql<{ type: string }[]>`
      select type from events where user_id = ${merchant.userId} and subject_id = ${prepared.sendId} order by id`;
    expect(events.map(({ type }) => type)).toEqual(["wallet.send_queued", "wallet.send_confirmed"]);
  }, 120_000);
});
