/** Owners who send and refund while the service fails around them. Every request is repeated as it was until it is answered. */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { TestChain } from "../support/chain.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { randomAddress, until } from "../support/indexer-lab.ts";
import { makeSender } from "../support/indexer-lab-reorgs.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

/** `baseUrl` is asked anew for each attempt. `chain` is the true one, whatever the service sees of it. */
export type Stage = { sql: Sql; chain: TestChain; baseUrl: () => string; random: () => number };

/** Holds FUNDS and what its link was paid; refunds are parts of that. */
export type Owner = { merchant: Merchant; linkId: string };

export type Order = {
  owner: Owner;
  kind: "SEND" | "REFUND";
  id: string;
  /** An address that no other order pays. */
  to: Hex;
  units: bigint;
  outcome: "CONFIRMED" | "FAILED" | "CANCELLED" | "REJECTED";
};

export type Load = {
  orders: Order[];
  /** Voids of what had FAILED and was still possible. */
  voids: number;
  /** Answers that nobody may get, however the service fails. */
  wrong: string[];
};

export const FUNDS = 1_000_000_000n;
export const LINK_UNITS = 1_000_000_000n;
const CANCEL_SHARE = 0.05;
const REFUND_SHARE = 0.4;
/** Both APIs get the same confirmation at once. */
const TWICE_SHARE = 0.1;
const UNITS_MIN = 10_000;
const UNITS_SPAN = 1_000_000;
const PAUSE_MS = 100;
const ANSWER_TIMEOUT_MS = 120_000;
const ENDED = ["CONFIRMED", "FAILED"];

/** A merchant with money and a paid link, made while nothing fails. */
export async function makeOwner({ sql, chain, baseUrl }: Stage): Promise<Owner> {
  const merchant = await signUp(baseUrl());
  const wallet = merchant.walletAddress as Hex;
  await fundUsdc(chain.rpcUrl, wallet, FUNDS);
  const link = await merchant.client.post("/v1/payment-links", {
    ...{ amount: Number(LINK_UNITS) / 1_000_000, description: "Refunded bit by bit" },
  });
  const linkId: string = link.body.id;
  const { body } = await merchant.client.get(`/api/v1/public/payment-links/${linkId}/data`);
  const payer = await makeSender({ chain });
  const { txHash } = await payer.call(`${encodeTransfer(wallet, LINK_UNITS)}${body.tag.slice(2)}`);
  await until("the link is paid", async () => {
    const [row] = await sql`
      select from transfers where tx_hash = ${txHash} and link_id = ${linkId} and status = 'CONFIRMED'`;
    return row !== undefined;
  });
  return { merchant, linkId };
}

/** One owner after another operation, until `mayGoOn` says no. */
export async function moveMoney(
  stage: Stage,
  owner: Owner,
  load: Load,
  mayGoOn: () => boolean,
): Promise<void> {
  while (mayGoOn()) load.orders.push(await moveOnce(stage, owner, load));
}

const CONFIRM_AGAIN_MS = 300;
const ROUTES = {
  SEND: { idField: "sendId", show: (id: string) => `/v1/wallets/sends/${id}` },
  REFUND: { idField: "refundId", show: (id: string) => `/v1/refunds/${id}` },
} as const;

async function moveOnce(stage: Stage, owner: Owner, load: Load): Promise<Order> {
  const { random } = stage;
  const kind = random() < REFUND_SHARE ? "REFUND" : "SEND";
  const { idField, show } = ROUTES[kind];
  const to = randomAddress();
  const units = BigInt(UNITS_MIN + Math.floor(random() * UNITS_SPAN));
  const amount = (Number(units) / 1_000_000).toFixed(6);
  const headers = { "idempotency-key": crypto.randomUUID() };
  const prepared = await insist(stage, owner, { wanted: [201] }, (client) =>
    kind === "SEND"
      ? client.post("/v1/wallets/send/prepare", { to, amount }, headers)
      : client.post(`/v1/payment-links/${owner.linkId}/refunds`, { toAddress: to, amount }, headers),
  );
  const id: string = prepared.body[idField];
  const order = { owner, kind, id, to, units } as const;
  if (random() < CANCEL_SHARE) {
    await insist(stage, owner, { wanted: [200, 409] }, (client) => client.post(`${show(id)}/cancel`, {}));
    return { ...order, outcome: "CANCELLED" };
  }
  let confirmed = await confirm(stage, owner, kind, prepared.body);
  // as its message asks for: the indexer has not read as far as the node had when this was prepared
  while (issueOf(confirmed) === "ledger_behind") {
    await Bun.sleep(CONFIRM_AGAIN_MS);
    confirmed = await confirm(stage, owner, kind, prepared.body);
  }
  if (confirmed.status !== 202) {
    if (issueOf(confirmed) !== "nonce_taken")
      load.wrong.push(`confirm ${id}: ${confirmed.status} ${confirmed.text}`);
    return { ...order, outcome: "REJECTED" };
  }
  const ended = await waitForEnd(stage, owner, show(id));
  if (ended.status === "FAILED" && ended.stillPossible) {
    await voidOperation(stage, owner, show(id));
    load.voids += 1;
  }
  return { ...order, outcome: ended.status };
}

function issueOf({ body }: Awaited<ReturnType<typeof confirm>>): string | undefined {
  return body?.error?.details?.issue;
}

/** Prepares and confirms an empty operation of the same nonce until the ended one is impossible. */
async function voidOperation(stage: Stage, owner: Owner, path: string): Promise<void> {
  for (;;) {
    const prepared = await insist(stage, owner, { wanted: [201, 409] }, (client) =>
      client.post(`${path}/void`, {}),
    );
    if (prepared.status === 201) {
      const confirmed = await confirm(stage, owner, "SEND", prepared.body);
      if (confirmed.status === 202) await waitForEnd(stage, owner, ROUTES.SEND.show(prepared.body.sendId));
    }
    const { body } = await insist(stage, owner, { wanted: [200] }, (client) => client.get(path));
    if (!body.stillPossible) return;
  }
}

async function confirm(
  stage: Stage,
  owner: Owner,
  kind: Order["kind"],
  prepared: Answer["body"],
): Promise<Answer> {
  const passkeyResponse = await owner.merchant.passkey.authenticate(prepared.passkeyChallenge);
  const signed = { challengeId: prepared.challengeId, passkeyResponse };
  const ask = (client: Client) =>
    kind === "SEND"
      ? client.post("/v1/wallets/send/confirm", { sendId: prepared.sendId, ...signed })
      : client.post(`/v1/refunds/${prepared.refundId}/confirm`, signed);
  const wanted = { wanted: [202, 400, 409] };
  const answers = await Promise.all([
    insist(stage, owner, wanted, ask),
    ...(stage.random() < TWICE_SHARE ? [insist(stage, owner, wanted, ask)] : []),
  ]);
  const [first, second] = answers as [Answer, Answer | undefined];
  if (second && second.status !== first.status)
    throw new Error(`one confirmation, two answers: ${first.text} and ${second.text}`);
  return first;
}

async function waitForEnd(stage: Stage, owner: Owner, path: string): Promise<Answer["body"]> {
  const isDone = ({ body }: Answer) => ENDED.includes(body.status);
  return (await insist(stage, owner, { wanted: [200], isDone }, (client) => client.get(path))).body;
}

type Wanted = { wanted: readonly number[]; isDone?: (answer: Answer) => boolean };

/**
 * Connections break while processes die, and the answer is 500 while a node or the database is unavailable. 409 means that the wallet's
 * last operation is not known to be over yet, where it is not a wanted answer.
 */
async function insist(
  stage: Stage,
  { merchant }: Owner,
  { wanted, isDone = () => true }: Wanted,
  ask: (client: Client) => Promise<Answer>,
): Promise<Answer> {
  const deadline = Date.now() + ANSWER_TIMEOUT_MS;
  for (let last = "no answer"; ; ) {
    const client = openClient(stage.baseUrl());
    for (const [key, value] of merchant.client.cookies) client.cookies.set(key, value);
    const answer = await ask(client).catch((error: unknown) => {
      last = String(error);
      return undefined;
    });
    if (answer) last = `${answer.status} ${answer.text}`;
    if (answer && wanted.includes(answer.status) && isDone(answer)) return answer;
    const isFinal = answer && answer.status >= 400 && answer.status < 500 && answer.status !== 409;
    if (isFinal) throw new Error(`refused: ${last}`);
    if (Date.now() > deadline) throw new Error(`no answer ${wanted.join(" or ")} in time: ${last}`);
    await Bun.sleep(PAUSE_MS);
  }
}
