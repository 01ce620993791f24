/** A replacement at the same nonce: what it offers, what it contains, and when there is none. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { parseTransaction, recoverTransactionAddress } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import type { InFlightRelay } from "../../db/relays/relays.ts";
import type { LocalKey } from "../../worker/relayer-keys-env.ts";
import type { RelayKind } from "../../worker/sender/relay-kind.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { raiseAttempt } from "../../worker/sender/replace-relay.ts";
import { HEAD_VALID_MS } from "../../worker/sender/send-relay.ts";
import {
  CALL,
  FEES,
  inFlight,
  newKey,
  openSenderLab,
  reservedWei,
  type SenderLab,
  send,
  stateOf,
} from "../support/sender-lab.ts";

/** The handler's own content: another authorization than the first attempt's. */
const REVISED = { call: { ...CALL, data: `${CALL.data.slice(0, -2)}01` as Hex }, isNoop: false };
let lab: SenderLab;
let key: LocalKey;

beforeAll(async () => {
  lab = await openSenderLab();
});
beforeEach(async () => {
  await lab.sql`truncate relays, relay_budgets cascade`;
  key = await newKey(lab);
});
afterAll(() => lab?.stop());

type Attempt = {
  maxFeePerGas: bigint;
  data: Hex;
  to: Hex | null | undefined;
  nonce: number;
  from: Hex;
  sends: number;
};

/** Newest last. */
async function attemptsOf({ id }: Pick<InFlightRelay, "id">): Promise<Attempt[]> {
  const rows = await lab.sql<{ raw: Hex; sends: number }[]>`
    select '0x' || encode(raw, 'hex') as raw, sends
    from relay_attempts where relay_id = ${id} order by max_fee_per_gas`;
  return Promise.all(
    rows.map(async ({ raw, sends }) => {
      const { maxFeePerGas = 0n, data = "0x", to, nonce = 0 } = parseTransaction(raw as `0x02${string}`);
      const from = await recoverTransactionAddress({ serializedTransaction: raw as `0x02${string}` });
      return { maxFeePerGas, data, to, nonce, from: from.toLowerCase() as Hex, sends };
    }),
  );
}

const raisesOf = async ({ metrics }: RelayNetwork) =>
  Object.fromEntries((await metrics.raises.get()).values.map(({ labels, value }) => [labels.outcome, value]));

/** `askedMsAgo`: how old the head is that the contents are checked against. */
async function raise(
  network: RelayNetwork,
  relay: InFlightRelay,
  { isObsolete = false, isReplaced = false, askedMsAgo = 0, headsAhead = 0n } = {},
): Promise<boolean> {
  const read = await network.lanes.readMarket();
  const market = {
    ...read,
    askedAtMs: read.askedAtMs - askedMsAgo,
    headNumber: read.headNumber + headsAhead,
  };
  return raiseAttempt(network, relay, { market, isObsolete, isReplaced });
}

const revising = (revised: Awaited<ReturnType<NonNullable<RelayKind["revise"]>>>): RelayKind => ({
  revise: async () => revised,
});

test("a raise offers at least an eighth more for the same call at the same nonce, once, and a node gets it", async () => {
  const network = lab.openNetwork({ keys: [await newKey(lab), key] });
  const relay = await inFlight(lab, await send(network, key));
  expect(await raise(network, relay)).toBe(true);
  const [first, second, ...more] = await attemptsOf(relay);
  expect(more).toEqual([]);
  expect(second).toMatchObject({ data: CALL.data, nonce: first?.nonce, from: key.address, sends: 1 });
  expect(second?.maxFeePerGas).toBeGreaterThanOrEqual((FEES.maxFeePerGas * 9n) / 8n);
  expect(await reservedWei(lab)).toBe(CALL.gas * (second?.maxFeePerGas ?? 0n));
  expect(await raisesOf(network)).toEqual({ raised: 1 });
});

test("a transaction of a key that this worker does not have is not raised", async () => {
  const relay = await inFlight(lab, await send(lab.openNetwork({ keys: [key] }), key));
  const network = lab.openNetwork({ keys: [await newKey(lab)] });
  expect(await raise(network, relay)).toBe(false);
  expect(await attemptsOf(relay)).toHaveLength(1);
});

test("an obsolete transaction, and one that is a no-op already, is replaced by a no-op of its key", async () => {
  const network = lab.openNetwork({ keys: [key], payments: revising(REVISED) });
  const sent = await send(network, key);
  expect(await raise(network, await inFlight(lab, sent), { isObsolete: true })).toBe(true);
  expect(await raise(network, await inFlight(lab, sent))).toBe(true);
  expect((await attemptsOf(sent)).map(({ to }) => to)).toEqual([CALL.to, key.address, key.address]);
});

test("the contents of a replacement are what its kind decides now", async () => {
  const network = lab.openNetwork({ keys: [key], payments: revising(REVISED) });
  const sent = await send(network, key);
  expect(await raise(network, await inFlight(lab, sent))).toBe(true);
  expect((await attemptsOf(sent)).map(({ data }) => data)).toEqual([CALL.data, REVISED.call.data]);
});

test("while its kind can't decide, and while it fails to, nothing is signed", async () => {
  const undecided = lab.openNetwork({ keys: [key], payments: revising(undefined) });
  const relay = await inFlight(lab, await send(undecided, key));
  expect(await raise(undecided, relay)).toBe(false);
  expect(await raisesOf(undecided)).toEqual({ early: 1 });
  const failing = lab.openNetwork({
    keys: [key],
    payments: { revise: () => Promise.reject(new Error("the database is gone")) },
  });
  await expect(raise(failing, relay)).rejects.toThrow("the database is gone");
  expect(await attemptsOf(relay)).toHaveLength(1);
});

test("a raise that another worker has stored is neither stored nor sent again, and costs nothing more", async () => {
  const network = lab.openNetwork({ keys: [key] });
  const relay = await inFlight(lab, await send(network, key));
  await raise(network, relay);
  const reserved = await reservedWei(lab);
  expect(await raise(network, relay)).toBe(false);
  expect((await attemptsOf(relay)).map(({ sends }) => sends)).toEqual([1, 1]);
  expect(await reservedWei(lab)).toBe(reserved);
  expect(await raisesOf(network)).toEqual({ raised: 1, known: 1 });
});

test("a signer that does not sign leaves the stored bytes as they are", async () => {
  const relay = await inFlight(lab, await send(lab.openNetwork({ keys: [key] }), key));
  const remote = { address: key.address, signerUrl: "http://127.0.0.1:1/raise", signerVariable: "SIGNER" };
  const network = lab.openNetwork({ keys: [remote] });
  expect(await raise(network, relay)).toBe(false);
  expect(await raisesOf(network)).toEqual({ signer: 1 });
  expect(await attemptsOf(relay)).toHaveLength(1);
});

describe("at the cap of what may be offered", () => {
  const capped = () => lab.openNetwork({ keys: [key], maxFeeWei: FEES.maxFeePerGas });

  test("nothing is raised", async () => {
    const network = capped();
    const relay = await inFlight(lab, await send(network, key));
    expect(await raise(network, relay)).toBe(false);
    expect(await attemptsOf(relay)).toHaveLength(1);
    expect(await raisesOf(network)).toEqual({ cap: 1 });
  });

  test("contents that must not be sent are replaced for one wei more", async () => {
    const network = capped();
    const relay = await inFlight(lab, await send(network, key, { isSent: false }));
    expect(await raise(network, relay, { isReplaced: true, isObsolete: true })).toBe(true);
    const [, second, ...more] = await attemptsOf(relay);
    expect(more).toEqual([]);
    expect(second).toMatchObject({ maxFeePerGas: FEES.maxFeePerGas + 1n, to: key.address, sends: 1 });
  });
});

describe("with a daily budget that the first offer has used up but for one wei a unit of gas", () => {
  const dailyFeeMaxWei = CALL.gas * (FEES.maxFeePerGas + 1n);
  const tight = () => lab.openNetwork({ keys: [key], dailyFeeMaxWei });

  test("nothing is raised: one wei more would not be mined any sooner", async () => {
    const network = tight();
    const relay = await inFlight(lab, await send(network, key));
    expect(await raise(network, relay)).toBe(false);
    expect(await attemptsOf(relay)).toHaveLength(1);
    expect(await raisesOf(network)).toEqual({ budget: 1 });
  });

  test("contents that must not be sent are replaced for one wei more", async () => {
    const network = tight();
    const relay = await inFlight(lab, await send(network, key, { isSent: false }));
    expect(await raise(network, relay, { isReplaced: true })).toBe(true);
    expect((await attemptsOf(relay)).at(-1)?.maxFeePerGas).toBe(FEES.maxFeePerGas + 1n);
    expect(await reservedWei(lab)).toBe(dailyFeeMaxWei);
  });
});

test("contents that must not be sent are replaced once, by a full raise if the budget has room", async () => {
  const network = lab.openNetwork({ keys: [key] });
  const relay = await inFlight(lab, await send(network, key, { isSent: false }));
  expect(await raise(network, relay, { isReplaced: true, isObsolete: true })).toBe(true);
  const [, second, ...more] = await attemptsOf(relay);
  expect(more).toEqual([]);
  expect(second?.maxFeePerGas).toBeGreaterThan(FEES.maxFeePerGas + 1n);
});

describe("contents checked against a head that is too old", () => {
  const askedMsAgo = HEAD_VALID_MS + 1_000;

  test("are stored and not sent, even if a node that lags has answered since", async () => {
    const network = lab.openNetwork({ keys: [key], payments: revising(REVISED) });
    const relay = await inFlight(lab, await send(network, key, { isSent: false }));
    // what was read last is newer by the clock, and a block behind
    expect(await raise(network, relay, { askedMsAgo, headsAhead: 1n })).toBe(true);
    expect((await attemptsOf(relay)).map(({ sends }) => sends)).toEqual([0, 0]);
    expect(await stateOf(lab, relay)).toBe("SIGNED");
  });

  test("are sent when they were checked against a newer answer of the same height after all", async () => {
    const network = lab.openNetwork({ keys: [key], payments: revising(REVISED) });
    const relay = await inFlight(lab, await send(network, key, { isSent: false }));
    await raise(network, relay, { askedMsAgo });
    expect((await attemptsOf(relay)).map(({ sends }) => sends)).toEqual([0, 1]);
  });

  test("are sent when they are a no-op, or of a kind that is always wanted", async () => {
    const judged = lab.openNetwork({ keys: [key], payments: revising(REVISED) });
    const obsolete = await inFlight(lab, await send(judged, key, { isSent: false }));
    await raise(judged, obsolete, { askedMsAgo, headsAhead: 1n, isObsolete: true });
    const deployed = await inFlight(lab, await send(judged, key, { isSent: false, kind: "DEPLOY" }));
    await raise(judged, deployed, { askedMsAgo, headsAhead: 1n });
    expect((await attemptsOf(obsolete)).map(({ sends }) => sends)).toEqual([0, 1]);
    expect((await attemptsOf(deployed)).map(({ sends }) => sends)).toEqual([0, 1]);
  });
});
