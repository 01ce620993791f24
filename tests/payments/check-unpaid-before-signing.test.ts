/** The unpaid check before signing, in the database: what each of its conditions lets through, and what it stops, side by side. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { saveAssignment } from "../../db/ledger/assignments.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import {
  checkUnpaidBeforeSigning,
  lockForSigning,
  type SimulationHead,
} from "../../db/payments/check-unpaid-before-signing.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  acceptFacilitated,
  type BooksLab,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paidBy,
  randomHash,
  read,
  readUpTo,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";
import { relayOf } from "../support/signed-relay.ts";
import { untilBlocked } from "../support/until-blocked.ts";

/** Where the ledger's cursor stands. */
const READ = 100n;
let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks();
});

afterAll(() => lab?.stop());

beforeEach(async () => {
  await lab.sql`update wallets set backfilled_at = now()`;
  await readUpTo(lab, Number(READ));
  linkId = await seedLink(lab.sql, lab.merchant);
  payment = await accepted(linkId);
});

async function accepted(id: string): Promise<NewPayment> {
  const taken = await accept(lab, id);
  if (!taken) throw new Error("the payment was not accepted");
  return taken;
}

/** The verdict about `payment`, at a head that the ledger has read unless said otherwise. */
async function judge(
  simulationHead: Partial<SimulationHead> = {},
  state: "QUEUED" | "SIGNED" = "QUEUED",
): Promise<unknown> {
  const { hash: headHash } = lab.term.cursor;
  const asked = {
    network: NETWORK,
    headNumber: READ,
    headHash,
    unread: undefined,
    ...simulationHead,
  } as const;
  const paymentIds = [payment.id];
  const [, verdicts] = await lab.sql.begin((tx) =>
    Promise.all([lockForSigning(tx, paymentIds), checkUnpaidBeforeSigning(tx, asked, { paymentIds, state })]),
  );
  return verdicts.get(payment.id);
}

const book = (booked: BookedTransfer, sql = lab.sql) =>
  bookTransfer({ ...lab, sql }, { link: linkId, ...booked });

describe("transfers of the link", () => {
  test("a link without transfers: free", async () => {
    expect(await judge()).toBe("free");
  });

  test("a transfer that pays it: paid; one that pays another link: free", async () => {
    await book({ pays: true, link: await seedLink(lab.sql, lab.merchant) });
    expect(await judge()).toBe("free");
    await book({ pays: true });
    expect(await judge()).toBe("paid");
  });

  test("a transfer that paid it before a reorganisation: early, until the ledger is 15 blocks above it", async () => {
    await book({ pays: true, status: "ORPHANED" });
    expect(await judge()).toBe("early");
    await readUpTo(lab, 99 + 14);
    expect(await judge({ headNumber: 99n + 14n })).toBe("early");
    await readUpTo(lab, 99 + 15);
    expect(await judge({ headNumber: 99n + 15n })).toBe("free");
  });

  test("one that returned and pays another link, or paid another link before a reorganisation: free; another transfer like it: early", async () => {
    const elsewhere = await seedLink(lab.sql, lab.merchant);
    await book({ pays: true, status: "ORPHANED", link: elsewhere });
    expect(await judge()).toBe("free");
    const [from, txHash, nonce] = [randomAddress(), randomHash(), randomHash()];
    for (const same of [{ txHash }, { nonce }]) {
      await book({ pays: true, status: "ORPHANED", from, ...same });
      expect(await judge()).toBe("early");
      const others: BookedTransfer[] = [
        { units: UNITS + 1n },
        { network: "base" },
        { from: randomAddress() },
        { to: randomAddress() },
      ];
      for (const other of others) await book({ from, ...same, link: null, ...other });
      expect(await judge()).toBe("early");
      await book({ from, ...same, link: null });
      expect(await judge()).toBe("free");
    }
  });

  test.each(["without authorizations", "by authorizations"])(
    "equal ones of one transaction paid it and another link, %s: early, until both have returned",
    async (how) => {
      const other = await seedLink(lab.sql, lab.merchant);
      const first = makeTransfer(lab, 101, { logIndex: 3 });
      const nonce = () => (how === "by authorizations" ? { authorizationNonce: randomHash() } : {});
      const both = [
        { ...first, ...nonce() },
        { ...first, ...nonce(), logIndex: 4 },
      ];
      for (const [logIndex, assigned] of [
        [3, other],
        [4, linkId],
      ] as const) {
        const { userId } = lab.merchant;
        const { txHash } = first;
        await saveAssignment(lab.sql, {
          ...{ network: NETWORK, txHash, logIndex, userId, linkId: assigned, accept: true },
        });
      }
      await read(lab, both);
      expect(await judge()).toBe("paid");
      await undoAbove(lab, 100);
      expect(await judge()).toBe("early");
      const block = makeBlock(101);
      const [one, two] = both.map((transfer) => ({ ...transfer, block }));
      if (!one || !two) throw new Error("two transfers");
      await read(lab, [one]);
      expect(await paidBy(lab)).toMatchObject({ [other]: 3 });
      expect(await judge()).toBe("early");
      await read(lab, [two], [], { booked: [one] });
      expect(await judge()).toBe("paid");
    },
  );

  test("a payment by its own authorization before a reorganisation: free", async () => {
    await book({ pays: true, status: "ORPHANED", from: payment.payer, nonce: payment.nonce });
    expect(await judge()).toBe("free");
  });

  test("a transfer of another amount that pays it anyway: paid", async () => {
    await book({ pays: true, units: UNITS + 7n });
    expect(await judge()).toBe("paid");
  });

  test("the transfer of the payment's own authorization: free; with its nonce from another payer: paid", async () => {
    await book({ from: payment.payer, nonce: payment.nonce, pays: true });
    expect(await judge()).toBe("free");
    await book({ from: randomAddress(), nonce: payment.nonce });
    expect(await judge()).toBe("paid");
  });

  test("a transfer of its amount that does not pay it yet: paid; of another amount and deep: free", async () => {
    await book({ units: UNITS - 1n });
    await book({ status: "ORPHANED" });
    expect(await judge()).toBe("free");
    await book({});
    expect(await judge()).toBe("paid");
  });

  test("a transfer of another amount that is not deep yet: early, until it is", async () => {
    await book({ units: UNITS - 1n, status: "DETECTED" });
    expect(await judge()).toBe("early");
    await lab.sql`update transfers set status = 'CONFIRMED' where link_id = ${linkId}`;
    expect(await judge()).toBe("free");
  });

  test("own transfer of its amount that does not pay it yet: free", async () => {
    await book({ from: payment.payer, nonce: payment.nonce });
    expect(await judge()).toBe("free");
  });

  test("own transfer of another amount that is not deep yet: free", async () => {
    await book({ units: UNITS - 1n, status: "DETECTED", from: payment.payer, nonce: payment.nonce });
    expect(await judge()).toBe("free");
  });

  test("a transfer that another transaction attributes while the link is locked is seen: paid", async () => {
    const attributed = Promise.withResolvers<void>();
    const isWaitedFor = Promise.withResolvers<void>();
    const booking = lab.sql.begin(async (tx) => {
      await lockLinks(tx, [linkId]);
      attributed.resolve();
      await isWaitedFor.promise;
      await book({ pays: true }, tx as unknown as typeof lab.sql);
    });
    await attributed.promise;
    const judging = judge();
    await untilBlocked(lab.sql, judging);
    isWaitedFor.resolve();
    await booking;
    expect(await judging).toBe("paid");
  });
});

test("the payments to be signed are locked with their links, and no others", async () => {
  const other = await accepted(await seedLink(lab.sql, lab.merchant));
  const free = async () => {
    const ids = [payment.id, other.id, payment.linkId, other.linkId];
    const [payments, links] = await Promise.all([
      lab.sql`select id from payments where id = any(${ids}) for update skip locked`,
      lab.sql`select id from payment_links where id = any(${ids}) for update skip locked`,
    ]);
    return [...payments, ...links].map(({ id }) => id).sort();
  };
  await lab.sql.begin(async (tx) => {
    await lockForSigning(tx, [payment.id]);
    expect(await free()).toEqual([other.id, other.linkId].sort());
  });
});

describe("how far the ledger has been read", () => {
  test("a ledger read up to the head: free; one block less: early", async () => {
    expect(await judge({ headNumber: READ })).toBe("free");
    expect(await judge({ headNumber: READ + 1n })).toBe("early");
    const ahead = { number: Number(READ) + 1, hash: randomHash(), parentHash: randomHash(), timeS: 1 };
    await insertBlocks(lab.sql, NETWORK, [ahead]);
    expect(await judge({ headNumber: READ + 1n, headHash: ahead.hash })).toBe("early");
    await lab.sql`delete from blocks`;
  });

  test("a head of another branch than the ledger's cursor: early; of its height and branch: free", async () => {
    expect(await judge({ headHash: randomHash() })).toBe("early");
    const block = { number: Number(READ) - 1, hash: randomHash(), parentHash: randomHash(), timeS: 1 };
    await insertBlocks(lab.sql, NETWORK, [block]);
    const headNumber = READ - 1n;
    expect(await judge({ headNumber, headHash: randomHash() })).toBe("early");
    expect(await judge({ headNumber, headHash: block.hash })).toBe("free");
  });

  test("a head below the cursor whose block is not stored: early, since it may belong to any branch", async () => {
    const block = { number: Number(READ) - 2, hash: randomHash(), parentHash: randomHash(), timeS: 1 };
    await insertBlocks(lab.sql, "base", [block]);
    expect(await judge({ headNumber: READ - 2n, headHash: block.hash })).toBe("early");
    await insertBlocks(lab.sql, NETWORK, [block]);
    expect(await judge({ headNumber: READ - 2n, headHash: block.hash })).toBe("free");
  });

  test("a wallet that is not back-filled: early", async () => {
    const { address } = lab.merchant;
    await Promise.all([seedMerchant(lab.sql), seedMerchant(lab.sql, { network: "base", address })]);
    await lab.sql`
      update wallets set backfilled_at = case when id = ${lab.merchant.walletId} then null else now() end`;
    expect(await judge()).toBe("early");
  });

  test("a payment in another state: gone; a query for signed payments: free", async () => {
    expect(await judge({}, "SIGNED")).toBe("gone");
    await signedFor(payment);
    expect(await judge()).toBe("gone");
    expect(await judge({}, "SIGNED")).toBe("free");
  });

  test("a facilitated payment is free, however far the ledger has been read", async () => {
    const facilitated = await acceptFacilitated(lab);
    payment = { ...facilitated, linkId: "" };
    expect(await judge({ headNumber: READ + 50n })).toBe("free");
  });
});

/** Signed and stored as the only payment of a transaction; returns its hash. */
async function signedFor(one: NewPayment): Promise<Hex> {
  return (await relayOf(lab.sql, one)).txHash;
}

const release = ({ id }: NewPayment) =>
  lab.sql`update payments set state = 'QUEUED', reason = null, relay_id = null where id = ${id}`;

describe("blocks that only the node has", () => {
  type Unread = NonNullable<SimulationHead["unread"]>;
  const unread = (transfers: Unread["transfers"], change: Partial<Unread> = {}) =>
    judge({
      headNumber: READ + 3n,
      headHash: randomHash(),
      unread: {
        ...{ afterNumber: READ, afterHash: lab.term.cursor.hash },
        ...{ payees: [lab.merchant.address], transfers, ...change },
      },
    });
  const seen = (of: NewPayment, txHash: Hex) => ({
    ...{ txHash, from: of.payer, to: of.recipient, amountUnits: of.amountUnits },
  });

  test("unread blocks without a transfer to the wallet: free; if the ledger does not reach their beginning: early", async () => {
    expect(await unread([])).toBe("free");
    expect(await unread([], { afterNumber: READ + 1n })).toBe("early");
  });

  test("unread blocks that do not follow the ledger's last block: early", async () => {
    expect(await unread([], { afterHash: randomHash() })).toBe("early");
  });

  test("a wallet whose logs were not requested: early", async () => {
    expect(await unread([], { payees: [randomAddress()] })).toBe("early");
  });

  test("an external transfer to the wallet, of any amount: early; to another wallet: free", async () => {
    const external = {
      txHash: randomHash(),
      from: randomAddress(),
      to: lab.merchant.address,
      amountUnits: 1n,
    };
    expect(await unread([external])).toBe("early");
    const other = await seedMerchant(lab.sql);
    const payees = [lab.merchant.address, other.address];
    expect(await unread([{ ...external, to: other.address }], { payees })).toBe("free");
  });

  test("our relay of another link's payment: free; anything else in that transaction: early", async () => {
    const other = await accepted(await seedLink(lab.sql, lab.merchant));
    const txHash = await signedFor(other);
    const own = seen(other, txHash);
    expect(await unread([own])).toBe("free");
    expect(await unread([own, { ...own, from: randomAddress() }])).toBe("early");
    expect(await unread([{ ...own, amountUnits: UNITS + 1n }])).toBe("early");
    expect(await unread([{ ...own, txHash: randomHash() }])).toBe("early");
    expect(await unread([own, { ...own, txHash: randomHash() }])).toBe("early");
    await lab.sql`update payments set recipient = ${randomAddress()} where id = ${other.id}`;
    expect(await unread([own])).toBe("early");
  });

  test.each(["SIGNED", "BROADCAST", "MINED", "CONFIRMED"])(
    "a transfer that our relay made for a payment of another link that is %s leaves the link free",
    async (state) => {
      const other = await accepted(await seedLink(lab.sql, lab.merchant));
      const txHash = await signedFor(other);
      await lab.sql`update payments set state = ${state} where id = ${other.id}`;
      expect(await unread([seen(other, txHash)])).toBe("free");
    },
  );

  test("our relay of a payment that is no longer bound to it, or has failed: early", async () => {
    const other = await accepted(await seedLink(lab.sql, lab.merchant));
    const own = seen(other, await signedFor(other));
    await lab.sql`update payments set state = 'QUEUED' where id = ${other.id}`;
    expect(await unread([own])).toBe("early");
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${other.id}`;
    expect(await unread([own])).toBe("early");
    await release(other);
    expect(await unread([own])).toBe("early");
    const again = seen(other, await signedFor(other));
    expect(await unread([again])).toBe("free");
    expect(await unread([own])).toBe("early");
  });
});
