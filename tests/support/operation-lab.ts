/** Operations as rows, without API, worker and chain: for the conditions of the statements that move them. */
import { newSendId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { insertOperation, type NewOperation, queueOperation } from "../../db/wallet-ops/operations.ts";
import { markOperationsSigned } from "../../db/wallet-ops/queue.ts";
import type { WalletOperation } from "../../db/wallet-ops/schema.ts";
import type { OperationEvent } from "../../db/wallet-ops/settlement.ts";
import { NETWORK, randomAddress } from "./indexer-lab.ts";
import { createTestDatabase, TEST_POOL } from "./postgres.ts";
import { seedMerchant } from "./seed.ts";

export type Made = { id: string; userId: string; walletId: string; address: Hex; userOpHash: Hex };

export type OperationLab = {
  sql: Sql;
  insert: (
    owner: Made | undefined,
    nonce: bigint,
    renewed?: Made,
    given?: Partial<NewOperation>,
  ) => Promise<{ row: WalletOperation | undefined; made: Made }>;
  /** AWAITING_SIGNATURE; of a new user's wallet, or of another operation's. */
  makeOperation: (owner?: Made, nonce?: bigint, given?: Partial<NewOperation>) => Promise<Made>;
  queue: (made: Made) => Promise<WalletOperation | undefined>;
  queued: (owner?: Made, nonce?: bigint, given?: Partial<NewOperation>) => Promise<Made>;
  makeRelay: (state: string, blockNumber?: number | null) => Promise<bigint>;
  /** SIGNED in a relay of this state. */
  relayed: (state: string, blockNumber?: number | null) => Promise<Made>;
  rowOf: (made: Made) => Promise<WalletOperation>;
  stop: () => Promise<void>;
};

/** The cursor stands on block 100. */
export async function openOperationLab(): Promise<OperationLab> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
  const relayer = randomAddress();
  await sql`insert into relayers (network, address, next_nonce) values (${NETWORK}, ${relayer}, 0)`;
  await sql`
    insert into cursors (network, number, hash, head_number) values (${NETWORK}, 100, ${randomHash()}, 100)`;
  let relayNonce = 0;

  /** `renewed`: the operation that is prepared again. */
  async function insert(
    owner: Made | undefined,
    nonce: bigint,
    renewed?: Made,
    given: Partial<NewOperation> = {},
  ) {
    const { userId, address } = owner ?? (await seedMerchant(sql));
    const [wallet] = await sql<{ id: string }[]>`select id from wallets where user_id = ${userId}`;
    const id = given.id ?? renewed?.id ?? newSendId(new Date());
    const userOpHash = randomHash();
    const row = await insertOperation(sql, {
      ...{ id, userId, walletId: wallet?.id ?? "", network: NETWORK, kind: "SEND", userOpHash },
      ...{ accountNonce: nonce, callData: "0x", callGas: 1n, verificationGas: 1n, challengeId: "ch_1" },
      ...{ idempotencyKey: undefined, request: id, requestId: "req_1", lifeMs: 600_000, items: [] },
      terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
      renews: renewed !== undefined,
      ...given,
    });
    return { row, made: { id, userId, walletId: wallet?.id ?? "", address, userOpHash } };
  }

  async function makeOperation(owner?: Made, nonce = 0n, given?: Partial<NewOperation>): Promise<Made> {
    return (await insert(owner, nonce, undefined, given)).made;
  }

  async function queue({ id, userId, userOpHash }: Made) {
    const [passkey] = await sql<{ id: string }[]>`select id from passkeys where user_id = ${userId}`;
    const signed = { passkeyId: passkey?.id ?? "", ownerIndex: 0, signature: "0x01" as Hex };
    return queueOperation(sql, { id, userId, userOpHash, ...signed, assertionHash: Buffer.from([1]) });
  }

  async function queued(owner?: Made, nonce = 0n, given?: Partial<NewOperation>): Promise<Made> {
    const made = await makeOperation(owner, nonce, given);
    if (!(await queue(made))) throw new Error("not queued");
    return made;
  }

  async function makeRelay(state: string, blockNumber: number | null = null): Promise<bigint> {
    relayNonce += 1;
    const [row] = await sql<{ id: bigint }[]>`
      insert into relays (
        network, relayer, nonce, kind, state, call_to, call_data_start, call_data_bytes, gas_limit, block_number,
        block_hash, succeeded
      )
      values (
        ${NETWORK}, ${relayer}, ${relayNonce}, 'OPERATIONS', ${state}, '0x', 0, 0, 1, ${blockNumber},
        ${blockNumber === null ? null : randomHash()}, ${blockNumber === null ? null : true}
      )
      returning id`;
    return row?.id ?? 0n;
  }

  async function relayed(state: string, blockNumber: number | null = null): Promise<Made> {
    const made = await queued();
    await markOperationsSigned(sql, await makeRelay(state, blockNumber), [made.id]);
    return made;
  }

  async function rowOf({ id }: Made): Promise<WalletOperation> {
    const [row] = await sql<WalletOperation[]>`select * from wallet_operations where id = ${id}`;
    if (!row) throw new Error(`no operation ${id}`);
    return row;
  }

  const stop = async () => {
    await sql.end();
    await db.drop();
  };
  return { sql, insert, makeOperation, queue, queued, makeRelay, relayed, rowOf, stop };
}

export function randomHash(): Hex {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
}

/** Of block 100, nonce 0, with success, unless given otherwise. */
export function eventOf(made: Made, given: Partial<OperationEvent> = {}): OperationEvent {
  return {
    ...{ blockNumber: 100, blockHash: randomHash(), txHash: randomHash(), logIndex: 1 },
    ...{ userOpHash: made.userOpHash, sender: made.address, nonce: 0n, succeeded: true, gasUsed: 1n },
    failure: undefined,
    ...given,
  };
}
