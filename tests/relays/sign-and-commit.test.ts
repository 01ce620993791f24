/** Signing by a remote signer: no database transaction waits for it, and only the content that is committed has bytes. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { Registry } from "prom-client";
import { parseTransaction } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { buildNoopCall } from "../../core/chain/relay.ts";
import { SignerError } from "../../core/chain/remote-signer.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import type { RemoteKey } from "../../worker/relayer-keys-env.ts";
import { openRelayMetrics } from "../../worker/sender/metrics.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { storeRelay } from "../../worker/sender/send-relay.ts";
import { signAndCommit } from "../../worker/sender/sign-and-commit.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { type RemoteSigner, startRemoteSigner } from "../support/remote-signer.ts";

const FEES = { maxFeePerGas: 1_000n, maxPriorityFeePerGas: 10n };
const KEYS = Array.from({ length: 8 }, () => generatePrivateKey());
/** How long a signer that failed is not asked. */
const SIGNER_PAUSE_MS = 1_000;
let lab: BooksLab;
let chain: Chain;
let signer: RemoteSigner;
let network: RelayNetwork;
let used = 0;

beforeAll(async () => {
  [lab, signer] = await Promise.all([openBooks(), startRemoteSigner(KEYS)]);
  chain = openChain({ network: NETWORK, urls: ["http://127.0.0.1:1"], timeoutMs: 1_000 });
  const deps = { sql: lab.sql, log: { error: () => {} } };
  // signing uses nothing else of the network
  network = { deps, chain, metrics: openRelayMetrics(new Registry()) } as unknown as RelayNetwork;
});
afterAll(async () => {
  chain?.close();
  await signer?.stop();
  await lab?.stop();
});
afterEach(() => signer.behave(async () => "honest"));

/** A lane of its own, at nonce 0. Each test's signer has an own path, so that one's failure pauses no other. */
async function newKey(): Promise<RemoteKey> {
  const address = privateKeyToAccount(KEYS[used] ?? "0x").address.toLowerCase() as Hex;
  used += 1;
  await ensureLane(lab.sql, { network: NETWORK, relayer: address }, 0n);
  return { address, signerUrl: `${signer.url}/${used}`, signerVariable: "RELAYER_SIGNER_URL" };
}

const store = (key: RemoteKey) =>
  signAndCommit(network, key, (tx, signing) =>
    storeRelay(tx, chain, signing, {
      ...{ kind: "NOOP", call: buildNoopCall(key.address), fees: FEES, dailyFeeMaxWei: undefined },
    }),
  );

async function stored({ address }: RemoteKey): Promise<{ nonces: number[]; nextNonce: number }> {
  const rows = await lab.sql<{ raw: Hex }[]>`
    select '0x' || encode(attempt.raw, 'hex') as raw
    from relays
    join relay_attempts attempt on attempt.relay_id = relays.id
    where relays.relayer = ${address}
    order by relays.nonce`;
  const [lane] = await lab.sql<{ nextNonce: bigint }[]>`
    select next_nonce from relayers where address = ${address}`;
  const nonces = rows.map(({ raw }) => parseTransaction(raw).nonce ?? -1);
  return { nonces, nextNonce: Number(lane?.nextNonce) };
}

const takeNonceElsewhere = ({ address }: RemoteKey) =>
  lab.sql`update relayers set next_nonce = next_nonce + 1 where address = ${address}`;

test("stores the bytes that the signer made, and holds no transaction open while the signer works", async () => {
  const key = await newKey();
  const open: number[] = [];
  signer.behave(async () => {
    const [row] = await lab.sql<{ count: number }[]>`
      select count(*)::int as count
      from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
        and application_name not ilike '%autovacuum%' and backend_type = 'client backend'`;
    open.push(row?.count ?? -1);
    return "honest";
  });
  await store(key);
  expect(open).toEqual([0]);
  expect(await stored(key)).toEqual({ nonces: [0], nextNonce: 1 });
});

test("behavior: when a nonce is taken elsewhere while the signer works, the content is signed again and stored", async () => {
  const key = await newKey();
  const asked = signer.requests.length;
  signer.behave(async ({ nonce }) => {
    if (Number(nonce) === 0) await takeNonceElsewhere(key);
    return "honest";
  });
  await store(key);
  expect(signer.requests.slice(asked).map(({ nonce }) => Number(nonce))).toEqual([0, 1]);
  expect(await stored(key)).toEqual({ nonces: [1], nextNonce: 2 });
});

test("behavior: concurrent signatures for one key take turns, and none is wasted", async () => {
  const key = await newKey();
  const asked = signer.requests.length;
  await Promise.all([store(key), store(key), store(key)]);
  expect(signer.requests.slice(asked).map(({ nonce }) => Number(nonce))).toEqual([0, 1, 2]);
  expect(await stored(key)).toEqual({ nonces: [0, 1, 2], nextNonce: 3 });
});

test("error: content that changes at each signature is abandoned after four, with nothing stored", async () => {
  const key = await newKey();
  const asked = signer.requests.length;
  signer.behave(async () => {
    await takeNonceElsewhere(key);
    return "honest";
  });
  expect(await store(key).catch((error) => error)).toBeInstanceOf(SignerError);
  expect(signer.requests.slice(asked)).toHaveLength(4);
  expect(await stored(key)).toEqual({ nonces: [], nextNonce: 4 });
});

test("error: a signer that refuses leaves neither a nonce nor a row, and is not asked again immediately", async () => {
  const key = await newKey();
  const asked = signer.requests.length;
  signer.behave(async () => ({ error: { code: -32000, message: "locked" } }));
  for (let attempt = 0; attempt < 2; attempt++)
    expect(await store(key).catch((error) => error)).toBeInstanceOf(SignerError);
  expect(signer.requests.slice(asked)).toHaveLength(1);
  expect(await stored(key)).toEqual({ nonces: [], nextNonce: 0 });
});

test("behavior: a signer that refused once is asked again a second later, and signs", async () => {
  const key = await newKey();
  signer.behave(async () => ({ error: { code: -32000, message: "locked" } }));
  expect(await store(key).catch((error) => error)).toBeInstanceOf(SignerError);
  signer.behave(async () => "honest");
  await Bun.sleep(SIGNER_PAUSE_MS);
  await store(key);
  expect(await stored(key)).toEqual({ nonces: [0], nextNonce: 1 });
});

test("behavior: a key that the signer lacks does not keep it from signing with another", async () => {
  const [lacking, held] = [await newKey(), await newKey()];
  signer.behave(async ({ from }) =>
    from === lacking.address ? { error: { code: -32000, message: "no such key" } } : "honest",
  );
  const [first, second] = [lacking, held].map((key) => ({ ...key, signerUrl: signer.url }));
  if (!first || !second) throw new Error("two keys are needed");
  expect(await store(first).catch((error) => error)).toBeInstanceOf(SignerError);
  await store(second);
  expect(await stored(second)).toEqual({ nonces: [0], nextNonce: 1 });
});
