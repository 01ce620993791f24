/** A merchant who owns one thing of every kind whose id is in a path of the API, made without worker and indexer. */
import type { Hex } from "../../core/domain/networks.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { insertHistory } from "../transactions/history.ts";
import type { Answer } from "./http-client.ts";
import { newMember } from "./members.ts";
import { addressOwner, prepareChange } from "./owners.ts";
import { randomAddress } from "./seed.ts";
import { prepareSend } from "./sends.ts";
import { type Merchant, newEmail, signIn, signUp } from "./sign-up.ts";

export const KINDS = [
  ...["link", "paidLink", "transaction", "paidTransaction", "document"],
  ...["send", "refund", "refundRequest", "ownerChange"],
  ...["session", "passkey", "google", "key"],
  ...["member", "invitation", "invitationToAccept", "invitationToDecline"],
  ...["export", "profile", "schedule", "endpoint", "delivery"],
] as const;
export type Kind = (typeof KINDS)[number];

/** `ids` by kind; `send` and `refund` as they were prepared for the passkey; `txHash` paid the link. */
export type Everything = {
  ids: Readonly<Record<Kind, string>>;
  send: Answer["body"];
  refund: Answer["body"];
  ownerChange: Answer["body"];
  txHash: Hex;
};

/** `word` is in every text of it. `account`: the local account that signs as a future owner. */
export async function ownEverything(
  merchant: Merchant,
  given: { sql: Sql; rpcUrl: string; word: string; account: number },
): Promise<Everything> {
  const { client } = merchant;
  const { sql, rpcUrl, word, account } = given;
  const make = async (path: string, body: object, headers?: Record<string, string>) => {
    const answer = await client.post(path, body, headers);
    if (answer.status < 200 || answer.status > 202)
      throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  const newLink = (reference: string) =>
    make("/v1/payment-links", {
      ...{ amount: 1, description: `${word} link`, reference, metadata: { [word]: word } },
      customerEmail: `${word}@example.com`,
    });
  const link = await newLink(`${word}-open`);
  const paidLink = await newLink(`${word}-paid`);
  const paid = await bookTransfer(merchant, { sql, word, linkId: paidLink.id });
  const free = await bookTransfer(merchant, { sql, word });
  const [documentId = ""] = (await sql.begin((tx) => refreshDocuments(tx, [paidLink.id]))).issued;

  await fundUsdc(rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  const send = await prepareSend({ client }, { to: randomAddress(), amount: "1", note: `${word} note` });
  await prepareSend({ client }, { to: randomAddress(), amount: "1.5", note: `${word} later note` });
  const refunds = `/v1/payment-links/${paidLink.id}`;
  const refund = await make(`${refunds}/refunds`, { amount: "0.2", reason: `${word} reason` });
  const asked = await make(`${refunds}/refund-requests`, { amount: "0.1", reason: `${word} request` });
  const { add } = await addressOwner(client, account);
  const ownerChange = await prepareChange(client, { add: { ...add, name: `${word} owner` } });

  const key = await make("/v1/api-keys", { name: `${word} key`, scopes: ["links:read"] });
  await sql`insert into identities (issuer, subject, user_id, email)
    values ('https://issuer.test', ${merchant.userId}, ${merchant.userId}, ${`${word}@issuer.test`})`;
  const google = await client.get("/v1/auth/google/accounts");
  const here = new Set(await sessionIds(client));
  const [session = ""] = (await sessionIds(await signIn(merchant))).filter((id) => !here.has(id));

  const member = await newMember(merchant, "viewer");
  const invitation = await make("/v1/members/invitations", { email: newEmail(), role: "viewer" });
  const invited = async () => {
    const boss = await signUp(client.baseUrl);
    const body = { email: merchant.email, role: "viewer" };
    return (await boss.client.post("/v1/members/invitations", body)).body.data.id;
  };

  const exported = await make("/v1/transactions/export", { format: "csv" }, { prefer: "respond-async" });
  const profile = await make("/v1/export-profiles", { name: `${word} profile`, format: "csv" });
  const plan = { profileId: profile.data.id, frequency: "weekly", delivery: "webhook" };
  const schedule = await make("/v1/export-schedules", plan);
  const hook = { url: `https://example.com/${word}`, description: `${word} hook` };
  const endpoint = await make("/v1/webhook-endpoints", hook);
  const delivery = await make(`/v1/webhook-endpoints/${endpoint.data.id}/test`, {});
  await make(`/v1/webhook-endpoints/${endpoint.data.id}/test`, {});

  const ids = {
    ...{ link: link.id, paidLink: paidLink.id, document: documentId },
    ...{ transaction: free.id, paidTransaction: paid.id },
    ...{ send: send.sendId, refund: refund.refundId, refundRequest: asked.refundId },
    ...{ ownerChange: ownerChange.ownerChangeId, passkey: merchant.passkey.credentialId },
    ...{ session, google: google.body.data[0].id, key: key.data.id },
    ...{ member: member.userId, invitation: invitation.data.id },
    ...{ invitationToAccept: await invited(), invitationToDecline: await invited() },
    ...{ export: exported.data.export.id, profile: profile.data.id, schedule: schedule.data.id },
    ...{ endpoint: endpoint.data.id, delivery: delivery.data.id },
  };
  for (const kind of KINDS) if (!ids[kind]) throw new Error(`no ${kind} was made`);
  return { ids, send, refund, ownerChange, txHash: paid.txHash };
}

async function sessionIds(client: Merchant["client"]): Promise<string[]> {
  return (await client.get("/v1/auth/sessions")).body.data.map(({ id }: { id: string }) => id);
}

/** A CONFIRMED transfer of 1 USDC to the merchant, as the indexer leaves it; with `linkId`, it pays the link by the merchant's own hand. */
async function bookTransfer(
  { userId, walletAddress }: Merchant,
  { sql, word, linkId = null }: { sql: Sql; word: string; linkId?: string | null },
): Promise<{ id: string; txHash: Hex }> {
  const hash = (): Hex => `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
  const [txHash, payer, settledBy] = [hash(), randomAddress(), linkId && "merchant"];
  const [transfer] = await sql<{ id: bigint }[]>`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status,
      link_id, pays, settled_by, confirmed_at
    )
    values (
      'base-sepolia', 1, ${hash()}, now(), ${txHash}, 0, ${payer}, ${walletAddress.toLowerCase()}, 1000000, 'CONFIRMED',
      ${linkId}, ${linkId !== null}, ${settledBy}, now()
    )
    returning id`;
  const type = linkId === null ? ("RECEIVE" as const) : ("PAYMENT_LINK" as const);
  const row = {
    type,
    txHash,
    linkId,
    counterparty: payer,
    description: `${word} transaction`,
    blockNumber: 1n,
  };
  const [id = ""] = await insertHistory(sql, userId, [row]);
  await sql`
    update transactions set transfer_id = ${String(transfer?.id)}::text::bigint, settled_by = ${settledBy} where id = ${id}`;
  if (linkId !== null)
    await sql`
      update payment_links
      set status = 'PAID', paid_at = now(), paid_units = 1000000, settled_by = 'merchant'
      where id = ${linkId}`;
  return { id, txHash };
}
