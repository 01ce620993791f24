/** A chain, a database and indexers for tests: users, wallets, links and money made in one line each. */
import { randomBytes } from "node:crypto";
import { Registry } from "prom-client";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { newClaimId, newLinkId, newTransactionId, newUserId, newWalletId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { type Log, openLog } from "../../core/runtime/log.ts";
import { openClaim, type StoredClaim } from "../../db/links/claims.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import type { PaymentLink } from "../../db/schema.ts";
import { beginLeaderTerm } from "../../indexer/follow/begin-leader-term.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { openIndexerMetrics } from "../../indexer/metrics.ts";
import { runNetwork } from "../../indexer/run-network.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { startTestChain, type TestChain } from "./chain.ts";
import { openPauses } from "./poll.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "./postgres.ts";

export const NETWORK = "base-sepolia";
/** RELAY_MIN_AMOUNT as it is by default. */
const MISMATCH_MIN_UNITS = 1_000n;
const ACCOUNT_LOGS_EVERY_MS = 2_000;
export const USDC = NETWORKS[NETWORK].usdc.address;
const WAIT_MS = 90_000;
/** As indexer/main.ts has it: a busy machine's node takes longer than a second now and then. */
const RPC_TIMEOUT_MS = 5_000;

export type Merchant = { userId: string; address: Hex };
export type RunningIndexer = {
  /** What Prometheus would read, by name, of this network. */
  metric: (name: string) => Promise<number | undefined>;
  stop: () => Promise<void>;
};

export type Lab = {
  db: TestDatabase;
  chain: TestChain;
  sql: Sql;
  stop: () => Promise<void>;
};

export async function openLab(options: { blockTimeS?: number } = {}): Promise<Lab> {
  const [db, chain] = await Promise.all([createTestDatabase(), startTestChain(options)]);
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 5 });
  await callRpc(chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  const stop = async () => {
    await sql.end({ timeout: 5 });
    await Promise.all([db.drop(), chain.stop()]);
  };
  return { db, chain, sql, stop };
}

/** An indexer as `indexer/main.ts` runs it, in this process. `databaseUrl`: another way to the database. */
export function startIndexer(
  lab: Lab,
  options: {
    urls?: readonly string[];
    confirmations?: number;
    logLevel?: string;
    /** Instead of the process's own output. */
    log?: Log;
    databaseUrl?: string;
    silenceTimeoutS?: number;
    rpcTimeoutMs?: number;
  } = {},
): RunningIndexer {
  const stop = new AbortController();
  const registry = new Registry();
  const { databaseUrl = lab.db.url, silenceTimeoutS } = options;
  const sql = openDatabase(databaseUrl, {
    name: "indexer",
    maxConnections: 3,
    ...(silenceTimeoutS ? { silenceTimeoutS } : {}),
  });
  const { urls = [lab.chain.rpcUrl], rpcTimeoutMs = RPC_TIMEOUT_MS } = options;
  const chain = openChain({ network: NETWORK, urls, timeoutMs: rpcTimeoutMs });
  const run = runNetwork({
    ...{ network: NETWORK, confirmations: options.confirmations ?? 1, chain, sql, databaseUrl },
    mismatchMinUnits: MISMATCH_MIN_UNITS,
    accountLogsEveryMs: ACCOUNT_LOGS_EVERY_MS,
    log: options.log ?? openLog("indexer", options.logLevel ?? process.env.TEST_LOG_LEVEL ?? "silent"),
    metrics: openIndexerMetrics(registry),
    stop: stop.signal,
  });
  return {
    async metric(name) {
      const line = (await registry.metrics())
        .split("\n")
        .find((text) => text.startsWith(`${name}{`) && text.includes(`"${NETWORK}"`));
      return line === undefined ? undefined : Number(line.split(" ").at(-1));
    },
    async stop() {
      stop.abort();
      await run;
      chain.close();
      await sql.end({ timeout: 5 });
    },
  };
}

/** A leader's term in hand, for what the loops do at their own pace. Ends the term of a running indexer. */
export async function openTerm(
  lab: Lab,
  urls: readonly string[] = [lab.chain.rpcUrl],
): Promise<Term & { close: () => void }> {
  const chain = openChain({ network: NETWORK, urls, timeoutMs: 10_000 });
  const end = new AbortController();
  const term = await beginLeaderTerm({
    ...{ network: NETWORK, chain, sql: lab.sql, confirmations: 1, signal: end.signal },
    mismatchMinUnits: MISMATCH_MIN_UNITS,
    ...{
      log: openLog("indexer", process.env.TEST_LOG_LEVEL ?? "silent"),
      metrics: openIndexerMetrics(new Registry()),
    },
  });
  const close = () => {
    end.abort();
    chain.close();
  };
  return Object.assign(term, { close });
}

export function randomAddress(): Hex {
  return `0x${randomBytes(20).toString("hex")}`;
}

/** A user with a wallet, as the wallet set-up leaves them. */
export async function makeMerchant(lab: Lab, address: Hex = randomAddress(), madeInS = 0): Promise<Merchant> {
  const userId = newUserId();
  const passkeyId = randomBytes(16).toString("base64url");
  await lab.sql`
    insert into users (id, email, status) values (${userId}, ${`${userId.toLowerCase()}@example.com`}, 'ACTIVE')`;
  await lab.sql`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    values (
      ${passkeyId}, ${userId}, ${Buffer.alloc(77)}, ${randomBytes(32)}, ${randomBytes(32)}, 'singleDevice', false,
      'localhost'
    )`;
  await lab.sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners, created_at)
    values (
      ${newWalletId()}, ${userId}, ${NETWORK}, ${address}, ${passkeyId}, ${randomAddress()}, ${[randomAddress()]},
      now() + make_interval(secs => ${madeInS}::float8)
    )`;
  return { userId, address };
}

/** Wallets nobody pays, in one statement. */
export async function makeManyWallets(lab: Lab, count: number): Promise<void> {
  await lab.sql`
    with people as (
      insert into users (id, email, status)
      select 'user_' || gen_random_uuid(), md5(random()::text || n) || '@example.com', 'ACTIVE'
      from generate_series(1, ${count}::int) n
      returning id
    ),
    keys as (
      insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
      select md5(id), id, '\\x00', sha256(id::bytea), sha256(id::bytea), 'singleDevice', false, 'localhost'
      from people
      returning id, user_id
    )
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    select
      'wal_' || md5(user_id), user_id, ${NETWORK}, substr(sha256(user_id::bytea), 1, 20), id,
      '0x' || repeat('1', 40), array['0x00']
    from keys`;
}

/** Times are seconds from now; by default a minute old, for a reorganised block of the test chain may be some seconds older than the first. */
export async function makeLink(
  lab: Lab,
  merchant: Merchant,
  link: { units: bigint; madeInS?: number; endsInS?: number; description?: string },
): Promise<string> {
  const id = newLinkId();
  await lab.sql`
    insert into payment_links (id, user_id, network, recipient, amount_units, description, expires_at, created_at)
    values (
      ${id}, ${merchant.userId}, ${NETWORK}, ${merchant.address}, ${link.units}, ${link.description ?? "Coffee"},
      now() + make_interval(secs => ${link.endsInS ?? 3600}::float8),
      now() + make_interval(secs => ${link.madeInS ?? -60}::float8)
    )`;
  return id;
}

export type GivenClaim = {
  linkId: string;
  txHash: Hex;
  clientAddress: Hex;
  /** How the sender proved that it made the transfer. */
  proof?: "EOA" | "CONTRACT";
};

/** A claim as `/complete` stores it, of a transaction that no node shows in a block. Undefined when the link takes none. */
export function storeClaim(lab: Lab, given: GivenClaim): Promise<StoredClaim | undefined> {
  return lab.sql.begin((tx) =>
    openClaim(tx, {
      ...{ proof: null, ...given, id: newClaimId(), network: NETWORK, requestId: null },
      ...{ transactionId: newTransactionId(), leaseS: 90, mayHaveBlock: false },
    }),
  );
}

/** The id of a claim that its link takes. */
export async function makeClaim(lab: Lab, given: GivenClaim): Promise<string> {
  const stored = await storeClaim(lab, given);
  if (!stored) throw new Error(`link ${given.linkId} takes no claim`);
  return stored.claim.id;
}

/** An address with ETH and USDC whose transactions the node signs. */
export async function makePayer(lab: Lab, units = 1_000_000_000_000n): Promise<Hex> {
  const address = randomAddress();
  await fundEth(lab.chain.rpcUrl, address, 10n ** 21n);
  await fundUsdc(lab.chain.rpcUrl, address, units);
  return address;
}

/** A plain USDC transfer; returns its hash once the node took it. */
export function pay(lab: Lab, from: Hex, to: Hex, units: bigint): Promise<Hex> {
  return send(lab, from, USDC, encodeTransfer(to, units));
}

export async function send(lab: Lab, from: Hex, to: Hex, data: Hex): Promise<Hex> {
  const gas = "0x7a1200";
  return (await callRpcText(lab.chain.rpcUrl, "eth_sendTransaction", [{ from, to, data, gas }])) as Hex;
}

export async function mine(lab: Lab, blocks = 1): Promise<void> {
  await callRpc(lab.chain.rpcUrl, "anvil_mine", [`0x${blocks.toString(16)}`, "0x0"]);
}

export async function headOf(lab: Lab): Promise<{ number: number; hash: Hex; timeS: number }> {
  const block = (await callRpc(lab.chain.rpcUrl, "eth_getBlockByNumber", ["latest", false])) as Record<
    string,
    Hex
  >;
  return { number: Number(block.number), hash: block.hash ?? "0x", timeS: Number(block.timestamp) };
}

/** Waits until everything sent is in a block and the cursor stands on the chain's head. */
export async function settled(lab: Lab): Promise<void> {
  await until("the cursor is at the head", async () => {
    const pool = (await callRpc(lab.chain.rpcUrl, "txpool_status")) as { pending: string };
    if (Number(pool.pending) > 0) return false;
    const head = await headOf(lab);
    const [row] = await lab.sql<{ hash: Hex }[]>`select hash from cursors where network = ${NETWORK}`;
    return row?.hash === head.hash;
  });
}

/** Runs an indexer until every wallet is followed, and its past is read. */
export async function followAll(lab: Lab): Promise<void> {
  const indexer = startIndexer(lab);
  await settled(lab);
  await until("every wallet is read", async () => {
    const rows = await lab.sql`select from wallets where backfilled_at is null`;
    return rows.length === 0;
  });
  await indexer.stop();
}

export async function until(
  what: string,
  isTrue: () => Promise<boolean>,
  timeoutMs = WAIT_MS,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  const pause = openPauses(10);
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await pause();
  }
}

export async function linkOf(lab: Lab, id: string): Promise<PaymentLink> {
  const [row] = await lab.sql<PaymentLink[]>`select * from payment_links where id = ${id}`;
  if (!row) throw new Error(`no link ${id}`);
  return row;
}

export type HistoryRow = {
  id: string;
  type: string;
  status: string;
  amountUnits: bigint;
  linkId: string | null;
  counterparty: Hex;
  candidates: string[] | null;
};

/** A transaction's rows in a user's history. */
export function findHistory(lab: Lab, txHash: Hex, userId: string): Promise<HistoryRow[]> {
  return lab.sql<HistoryRow[]>`
    select * from transactions where tx_hash = ${txHash} and owner = owner_key(${userId}) order by log_index, type`;
}

/** Of the events about these transactions, in the order in which they are read. */
export async function hashesOfEvents(lab: Lab, hashes: readonly Hex[]): Promise<Hex[]> {
  const rows = await lab.sql<{ hash: Hex }[]>`
    select data ->> 'txHash' as hash
    from events
    where data ->> 'txHash' = any(${[...hashes]}::text[])
    order by epoch, written_by, id`;
  return rows.map(({ hash }) => hash);
}

/** Amounts that are used once in a test file, so that no link of another test fits. */
export function amounts(): () => bigint {
  let units = 1_000_000n;
  return () => {
    units += 1_000n;
    return units;
  };
}
