/** Merchants who send, refund and change owners while the service fails; and a stranger who executes what a merchant has cancelled. */
import { formatUnits } from "../../core/domain/money.ts";
import { executeCancelled } from "../support/execute-cancelled.ts";
import type { Answer } from "../support/http-client.ts";
import { confirmChange, newPasskeyOwner } from "../support/owners.ts";
import { randomAddress } from "../support/seed.ts";
import { drawOne, drawWeighted } from "../support/seeded-random.ts";
import type { Merchant } from "../support/sign-up.ts";
import { type CampaignChain, takeTurn } from "./campaign-chain.ts";
import { count, type Link, type Operation, type Stage } from "./stage.ts";

type Deed = (stage: Stage, merchant: Merchant, chain: CampaignChain) => Promise<unknown>;

const DEEDS: readonly (readonly [weight: number, Deed])[] = [
  [35, sendMoney],
  [40, refundLink],
  [15, addOwner],
  [7, removeOwner],
  [3, executeCancelledSend],
];
const PAUSE_MIN_MS = 100;
const PAUSE_SPAN_MS = 600;
const UNITS_MAX = 300_000;
const CANCELLED_UNITS = 10_000n;
/** A younger link is rarely paid yet. */
const REFUND_AFTER_MS = 8_000;
const NEWEST_LINK_SHARE = 0.5;
const WHOLE_REFUND_SHARE = 0.5;
/** Of owners who are added: those for every network at once. */
const ANY_CHAIN_SHARE = 0.5;

/** One deed after another of one merchant, until `mayGoOn` says no. */
export async function useWallet(stage: Stage, merchant: Merchant, mayGoOn: () => boolean): Promise<void> {
  while (mayGoOn()) {
    await Bun.sleep(PAUSE_MIN_MS + stage.random() * PAUSE_SPAN_MS);
    const chain = drawOne(stage.random, stage.chains);
    const deed = drawWeighted(stage.random, DEEDS);
    await deed(stage, merchant, chain).catch((error: unknown) => {
      stage.unexpected.push(`${deed.name}: ${error}`);
    });
  }
}

/** Undefined when it could not be prepared. */
export async function sendMoney(
  stage: Stage,
  merchant: Merchant,
  { network }: CampaignChain,
): Promise<Operation | undefined> {
  const [to, units] = [randomAddress(), drawUnits(stage)];
  const prepared = await merchant.client.post(
    "/v1/wallets/send/prepare",
    { network, to, amount: formatUnits(units) },
    { "idempotency-key": crypto.randomUUID() },
  );
  return confirmOperation(stage, prepared, {
    ...{ id: prepared.body?.sendId, kind: "SEND", network, merchant, to, units },
    ...{ linkId: undefined, isConfirmed: false },
  });
}

/** A part of a link, all of it, or more than it has left. */
async function refundLink(stage: Stage, merchant: Merchant, { network }: CampaignChain): Promise<void> {
  const link = drawOwnLink(stage, merchant, network);
  if (!link) return;
  const to = randomAddress();
  const units = stage.random() < WHOLE_REFUND_SHARE ? link.amountUnits : drawUnits(stage);
  const prepared = await merchant.client.post(
    `/v1/payment-links/${link.id}/refunds`,
    { toAddress: to, amount: formatUnits(units) },
    { "idempotency-key": crypto.randomUUID() },
  );
  await confirmOperation(stage, prepared, {
    ...{ id: prepared.body?.refundId, kind: "REFUND", network, merchant, to, units },
    ...{ linkId: link.id, isConfirmed: false },
  });
}

function drawUnits({ random }: Stage): bigint {
  return BigInt(1 + Math.floor(random() * UNITS_MAX));
}

function drawOwnLink({ random, links }: Stage, { userId }: Merchant, network: string): Link | undefined {
  const own = links.filter(
    (link) =>
      link.merchantId === userId && link.network === network && Date.now() - link.madeAtMs > REFUND_AFTER_MS,
  );
  return random() < NEWEST_LINK_SHARE ? own.at(-1) : drawOne(random, own);
}

/** Signs what was prepared, and records it before the service may have it. */
async function confirmOperation(
  stage: Stage,
  prepared: Answer,
  operation: Operation,
): Promise<Operation | undefined> {
  const { id, kind, merchant } = operation;
  if (prepared.status !== 201) {
    count(stage, `${kind} prepared: ${describe(prepared)}`);
    return undefined;
  }
  stage.operations.push(operation);
  const signed = {
    challengeId: prepared.body.challengeId,
    passkeyResponse: await merchant.passkey.authenticate(prepared.body.passkeyChallenge),
  };
  const confirmed = await (kind === "SEND"
    ? merchant.client.post("/v1/wallets/send/confirm", { sendId: id, ...signed })
    : merchant.client.post(`/v1/refunds/${id}/confirm`, signed));
  count(stage, `${kind} confirmed: ${describe(confirmed)}`);
  operation.isConfirmed = confirmed.status === 202;
  return operation;
}

/** A further passkey, on one network or on all. */
export async function addOwner(stage: Stage, merchant: Merchant, { network }: CampaignChain): Promise<void> {
  const { add } = await newPasskeyOwner(merchant.client);
  const isAnyChain = stage.random() < ANY_CHAIN_SHARE;
  await changeOwners(stage, merchant, isAnyChain ? { add } : { network, add });
}

/** Any owner except the passkey that the merchant signs with. */
async function removeOwner(stage: Stage, merchant: Merchant, { network }: CampaignChain): Promise<void> {
  const { body } = await merchant.client.get(`/v1/wallets/owners?network=${network}`);
  const owners: readonly { ownerId: string; credentialId: string }[] = body?.owners ?? [];
  const others = owners.filter(({ credentialId }) => credentialId !== merchant.passkey.credentialId);
  if (others.length === 0) return;
  const { ownerId } = drawOne(stage.random, others);
  await changeOwners(stage, merchant, { network, remove: { ownerId } });
}

async function changeOwners(stage: Stage, merchant: Merchant, wanted: object): Promise<void> {
  const prepared = await merchant.client.post("/v1/wallets/owners/prepare", wanted);
  if (prepared.status !== 201) return count(stage, `owner change prepared: ${describe(prepared)}`);
  const change = { id: prepared.body.ownerChangeId as string, merchant, isConfirmed: false };
  stage.ownerChanges.push(change);
  const confirmed = await confirmChange(merchant, prepared.body);
  count(stage, `owner change confirmed: ${describe(confirmed)}`);
  change.isConfirmed = confirmed.status === 202;
}

/** The signature of a cancelled send is public, and the EntryPoint takes it from anybody. */
async function executeCancelledSend(stage: Stage, merchant: Merchant, chain: CampaignChain): Promise<void> {
  const { network, node } = chain;
  const to = randomAddress();
  const prepared = await merchant.client.post("/v1/wallets/send/prepare", {
    ...{ network, to, amount: formatUnits(CANCELLED_UNITS) },
  });
  if (prepared.status !== 201) return;
  stage.operations.push({
    ...{ id: prepared.body.sendId, kind: "SEND", network, merchant, to, units: CANCELLED_UNITS },
    ...{ linkId: undefined, isConfirmed: false },
  });
  await takeTurn(chain, () => executeCancelled(merchant, prepared.body, [node.rpcUrl])).then(
    () => count(stage, "cancelled send executed by a stranger"),
    (error: unknown) => count(stage, `cancelled send not executed: ${String(error).slice(0, 60)}`),
  );
}

/** The status, and what a refusal is about. */
function describe({ status, body }: Answer): string {
  const reason = body?.error?.details?.issue ?? body?.error?.code;
  return reason === undefined ? String(status) : `${status} ${reason}`;
}
