/** An owner's sends as a browser makes them. */
import { expect } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import type { PasskeyQuirks, SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import type { Answer, Client } from "./http-client.ts";
import { openPauses } from "./poll.ts";

const WAIT_MS = 90_000;

type Signer = { client: Client; passkey: SoftwarePasskey };

/** Prepares; throws unless it is 201. */
export async function prepareSend(
  { client }: Pick<Signer, "client">,
  body: Record<string, unknown>,
  headers?: Record<string, string>,
): Promise<Answer["body"]> {
  const answer = await client.post("/v1/wallets/send/prepare", body, headers);
  if (answer.status !== 201) throw new Error(`prepare: ${answer.status} ${answer.text}`);
  return answer.body;
}

export function expectRefusal(answer: Answer, status: number, details: Record<string, unknown>): void {
  expect({ status: answer.status, details: answer.body?.error?.details }).toMatchObject({ status, details });
}

/** Signs what was prepared, as the browser's prompt does. */
export async function confirmSend(
  { client, passkey }: Signer,
  prepared: Answer["body"],
  quirks?: PasskeyQuirks,
): Promise<Answer> {
  return client.post("/v1/wallets/send/confirm", {
    sendId: prepared.sendId,
    challengeId: prepared.challengeId,
    passkeyResponse: await passkey.authenticate(prepared.passkeyChallenge, quirks),
  });
}

/** Polls until the send has this status; throws with what it has instead. */
export async function waitForSend(
  { client }: Pick<Signer, "client">,
  sendId: string,
  status = "CONFIRMED",
): Promise<Answer["body"]> {
  const deadline = Date.now() + WAIT_MS;
  const pause = openPauses(50);
  for (;;) {
    const { body } = await client.get(`/v1/wallets/sends/${sendId}`);
    if (body.status === status) return body;
    if (Date.now() > deadline) throw new Error(`${sendId} is not ${status}: ${JSON.stringify(body)}`);
    await pause();
  }
}

/** As if the day's operations of a user had used so much more gas; negative to take it back. */
export async function countGas(sql: Sql, userId: string, gas: bigint): Promise<void> {
  await sql`
    insert into relay_budgets (network, scope, subject, day)
    values ('base-sepolia', 'SENDER', ${userId}, (now() at time zone 'utc')::date)
    on conflict do nothing`;
  await sql`
    update relay_budgets
    set used = used + ${gas}
    where network = 'base-sepolia' and scope = 'SENDER' and subject = ${userId}`;
}
