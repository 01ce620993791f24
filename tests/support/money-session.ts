/** A person's sends and refunds as far as they go without worker and indexer, for the recorded session of the OpenAPI tests. */
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import type { Client } from "./http-client.ts";
import { randomAddress } from "./indexer-lab.ts";

type Given = { client: Client; passkey: SoftwarePasskey; sql: Sql; rpcUrl: string };

export async function moveMoney({ client, passkey, sql, rpcUrl }: Given): Promise<void> {
  const { body: holding } = await client.get("/v1/wallets/balance");
  const wallet: Hex = holding.wallet.address;
  await fundUsdc(rpcUrl, wallet, 5_000_000n);
  const linkId = await bookedLink(client, sql, wallet);
  const prepare = async (body: unknown) => (await client.post("/v1/wallets/send/prepare", body)).body;
  const sign = async ({ challengeId, passkeyChallenge }: Awaited<ReturnType<typeof prepare>>) => ({
    challengeId,
    passkeyResponse: await passkey.authenticate(passkeyChallenge),
  });
  const one = { to: randomAddress(), amount: "1", note: "Rent" };
  await prepare({ to: "nonsense", amount: "1" });
  await prepare({ ...one, amount: "6" });
  const cancelled = await prepare(one);
  await client.post(`/v1/wallets/sends/${cancelled.sendId}/cancel`, {});
  await client.post(`/v1/wallets/sends/${cancelled.sendId}/cancel`, {});
  await client.post(`/v1/wallets/sends/${cancelled.sendId}/void`, {});
  const refund = (await client.post(`/v1/payment-links/${linkId}/refunds`, { amount: "0.4" })).body;
  await client.post(`/v1/payment-links/${linkId}/refunds`, { amount: "0.7" });
  await client.get(`/v1/payment-links/${linkId}/refunds`);
  await client.get(`/v1/refunds/${refund.refundId}`);
  await client.post(`/v1/refunds/${refund.refundId}/cancel`, {});
  await client.post(`/v1/refunds/${refund.refundId}/void`, {});
  const requests = `/v1/payment-links/${linkId}/refund-requests`;
  const asked = (await client.post(requests, { amount: "0.1", reason: "Sold out" })).body;
  await client.post(requests, { amount: "0.7" });
  await client.get(`/v1/refunds/${asked.refundId}`);
  await client.get("/v1/refunds?limit=2");
  await client.post(`/v1/refunds/${asked.refundId}/prepare`, {});
  await client.post(`/v1/refunds/${asked.refundId}/cancel`, {});
  await client.post(`/v1/refunds/${asked.refundId}/prepare`, {});
  const payout = await prepare({ payments: [one, { ...one, to: randomAddress() }] });
  await client.post("/v1/wallets/send/confirm", { sendId: payout.sendId, ...(await sign(payout)) });
  await client.get(`/v1/wallets/sends/${payout.sendId}`);
  await client.get("/v1/wallets/sends/nonsense");
  await client.get("/v1/wallets/sends?limit=2");
  await prepare(one);
  // the payout ends without its nonce, so that the refund can be confirmed
  await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${payout.sendId}`;
  const again = (await client.post(`/v1/payment-links/${linkId}/refunds`, { toAddress: randomAddress() }))
    .body;
  await client.post(`/v1/refunds/${again.refundId}/confirm`, await sign(again));
}

/** A link with a transfer booked on it, as the indexer does. */
async function bookedLink(client: Client, sql: Sql, wallet: Hex): Promise<string> {
  const { body } = await client.post("/v1/payment-links", { amount: 1, description: "Booked" });
  await sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status,
      link_id, pays
    )
    values (
      'base-sepolia', 1, ${`0x${"1".repeat(64)}`}, now(), ${`0x${"2".repeat(64)}`}, 0, ${randomAddress()}, ${wallet},
      600000, 'CONFIRMED', ${body.id}, false
    )`;
  return body.id;
}
