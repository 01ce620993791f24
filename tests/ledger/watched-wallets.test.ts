/** Which wallets the indexer follows, and what waits for it: the conditions of the statements, one by one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newSendId } from "../../core/domain/ids.ts";
import {
  countJoinedWallets,
  findFollowedSince,
  findOldestWallet,
  findUnjoinedWallets,
  findWaiting,
  findWallets,
  joinWallets,
  readJoinedWallets,
  type Waiting,
} from "../../db/ledger/watched-wallets.ts";
import { insertOperation } from "../../db/wallet-ops/operations.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

const OTHER_NETWORK = "base";
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
  await lab.sql`
    insert into cursors (network, number, hash, head_number) values (${OTHER_NETWORK}, 500, ${randomHash()}, 500)`;
});
afterAll(() => lab?.stop());

const sinceOf = async (walletId: string) => {
  const [row] = await lab.sql<{ since: bigint | null }[]>`
    select indexed_from as since from wallets where id = ${walletId}`;
  return row?.since;
};

test("a wallet joins once, by its id, at the block after the cursor of its leader's own term and network", async () => {
  const { sql } = lab;
  const [wallet, other] = [await seedMerchant(sql), await seedMerchant(sql)];
  const ids = [wallet.walletId];
  await sql`update cursors set epoch = 7`;
  expect(await joinWallets(sql, { network: NETWORK, epoch: 6n, ids })).toBe(0);
  expect(await sinceOf(wallet.walletId)).toBeNull();
  expect(await joinWallets(sql, { network: NETWORK, epoch: 7n, ids })).toBe(1);
  expect(await sinceOf(wallet.walletId)).toBe(101n);
  const elsewhere = await seedMerchant(sql, { network: OTHER_NETWORK });
  expect(await joinWallets(sql, { network: OTHER_NETWORK, epoch: 7n, ids: [elsewhere.walletId] })).toBe(1);
  expect(await sinceOf(elsewhere.walletId)).toBe(501n);
  await sql`update cursors set number = 150 where network = ${NETWORK}`;
  expect(await joinWallets(sql, { network: NETWORK, epoch: 7n, ids })).toBe(0);
  expect(await sinceOf(wallet.walletId)).toBe(101n);
  expect(await sinceOf(other.walletId)).toBeNull();
  await sql`update cursors set number = 100, epoch = 0`;
});

test("wallets are counted, found to join and dated by whether they have joined, network by network", async () => {
  const { sql } = lab;
  await sql`update wallets set indexed_from = 1 where network = ${NETWORK}`;
  const joined = await countJoinedWallets(sql, NETWORK);
  const [followed, waiting, elsewhere, waitingElsewhere] = [
    await seedMerchant(sql),
    await seedMerchant(sql),
    await seedMerchant(sql, { network: OTHER_NETWORK }),
    await seedMerchant(sql, { network: OTHER_NETWORK }),
  ];
  await sql`
    update wallets set indexed_from = 90 where id in (${followed.walletId}, ${elsewhere.walletId})`;
  expect(await countJoinedWallets(sql, NETWORK)).toBe(joined + 1);
  let read = "";
  await sql.begin("isolation level repeatable read", async (tx) => {
    for await (const lines of readJoinedWallets(tx, NETWORK)) read += lines;
  });
  const isRead = [followed, waiting, elsewhere].map(({ address }) => read.includes(address));
  expect(isRead).toEqual([true, false, false]);
  expect(await findUnjoinedWallets(sql, NETWORK, 10)).toEqual([
    { id: waiting.walletId, address: waiting.address },
  ]);
  const addresses = [followed, waiting, elsewhere, waitingElsewhere].map(({ address }) => address);
  expect(await findFollowedSince(sql, NETWORK, addresses)).toEqual(new Map([[followed.address, 90]]));
  expect((await findWallets(sql, NETWORK, [...addresses, randomAddress()])).sort()).toEqual(
    [followed.address, waiting.address].sort(),
  );
  const [old, older, oldest] = [new Date("2024-03-01"), new Date("2024-02-01"), new Date("2024-01-01")];
  await sql`update wallets set created_at = ${old} where id = ${followed.walletId}`;
  await sql`update wallets set created_at = ${older} where id = ${waiting.walletId}`;
  await sql`update wallets set created_at = ${oldest} where id = ${elsewhere.walletId}`;
  expect(await findOldestWallet(sql, NETWORK)).toEqual(old);
  await sql`update wallets set indexed_from = 1`;
});

test("the indexer waits for what is open on its network, and not for what has ended", async () => {
  const { sql, merchant } = lab;
  const [seen, seenElsewhere]: Record<string, boolean>[] = [{}, {}];
  const none: Record<string, boolean> = {};
  const check = async (name: keyof Waiting) => {
    if (seen) seen[name] = (await findWaiting(sql, NETWORK))[name] as boolean;
    if (seenElsewhere) seenElsewhere[name] = (await findWaiting(sql, OTHER_NETWORK))[name] as boolean;
  };
  const checkNone = async (name: keyof Waiting) => {
    none[name] = !(await findWaiting(sql, NETWORK))[name];
  };
  const names = [
    ...[
      "wallets",
      "payments",
      "facilitated",
      "claims",
      "released",
      "transfers",
      "links",
      "watches",
      "operations",
    ],
  ] as (keyof Waiting)[];
  for (const name of names) await checkNone(name);

  const { walletId } = await seedMerchant(sql);
  await check("wallets");
  await sql`update wallets set indexed_from = 1 where id = ${walletId}`;

  const link = await seedLink(sql, merchant);
  await check("links");
  const transfer = makeTransfer(lab, 99);
  const claimId = await claim(lab, link, transfer);
  await check("claims");
  await sql`update claims set state = 'MATCHED' where id = ${claimId}`;
  await checkNone("claims");

  await sql`update payment_links set status = 'PENDING', exception = 'DUPLICATE' where id = ${link}`;
  await check("released");
  await sql`update payment_links set status = 'ACTIVE', exception = 'NONE' where id = ${link}`;
  await checkNone("released");

  await sql`insert into link_watches (network, watched_until) values (${NETWORK}, now() + interval '1 minute')`;
  await check("watches");
  await sql`update link_watches set watched_until = now()`;
  await checkNone("watches");

  await bookTransfer(lab, { status: "CONFIRMED" });
  await checkNone("transfers");
  await bookTransfer(lab, { status: "DETECTED" });
  await check("transfers");

  await accepted(lab, link);
  await check("payments");
  await checkNone("facilitated");
  await acceptFacilitated(lab);
  await check("facilitated");

  const { userId, walletId: senderId } = merchant;
  const [id, userOpHash] = [newSendId(new Date()), randomHash()];
  await insertOperation(sql, {
    ...{ id, userId, walletId: senderId, network: NETWORK, kind: "SEND", userOpHash },
    ...{ accountNonce: 0n, callData: "0x", callGas: 1n, verificationGas: 1n, challengeId: "ch_1" },
    ...{ idempotencyKey: undefined, request: userOpHash, requestId: "req_1", lifeMs: 600_000 },
    items: [{ to: randomAddress(), amountUnits: 1n, note: "", isFee: false }],
    terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
  });
  await checkNone("operations");
  await sql`update wallet_operations set state = 'QUEUED', signature = '0x' where id = ${id}`;
  await check("operations");

  await sql`update payment_links set status = 'CANCELLED' where id = ${link}`;
  await checkNone("links");
  const all = (value: boolean) => Object.fromEntries(names.map((name) => [name, value]));
  expect(seen).toEqual(all(true));
  expect(seenElsewhere).toEqual(all(false));
  expect(none).toEqual(all(true));
});

test("the term that the indexer waits in is its network's; a network that was never followed has the first", async () => {
  const { sql } = lab;
  await sql`update cursors set epoch = 3 where network = ${NETWORK}`;
  await sql`update cursors set epoch = 5 where network = ${OTHER_NETWORK}`;
  expect((await findWaiting(sql, NETWORK)).epoch).toBe(3n);
  expect((await findWaiting(sql, OTHER_NETWORK)).epoch).toBe(5n);
  await sql`delete from cursors where network = ${OTHER_NETWORK}`;
  expect((await findWaiting(sql, OTHER_NETWORK)).epoch).toBe(0n);
  expect(await findFollowedSince(sql, NETWORK, [randomAddress()])).toEqual(new Map());
});
