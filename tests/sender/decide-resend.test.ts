/** Whether the bytes of a pending transaction may be sent again, and what happens when they are no longer there. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { LocalKey } from "../../worker/relayer-keys-env.ts";
import { abandonDropped, decideResend, type ResendVerdict } from "../../worker/sender/decide-resend.ts";
import type { RelayKind, Revised } from "../../worker/sender/relay-kind.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { HEAD_VALID_MS } from "../../worker/sender/send-relay.ts";
import {
  CALL,
  inFlight,
  newKey,
  openSenderLab,
  reservedWei,
  type SenderLab,
  send,
  stateOf,
} from "../support/sender-lab.ts";

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

describe("the newest attempt", () => {
  /** `leftOut`, `isNoop`: of the attempt; `revised`: what its kind would sign now. */
  async function decide({
    revised,
    kind = "PAYMENTS",
    isNoop = false,
    leftOut = [],
    isObsolete = false,
    askedMsAgo = 0,
  }: {
    revised?: Revised | undefined;
    kind?: "PAYMENTS" | "DEPLOY";
    isNoop?: boolean;
    leftOut?: string[];
    isObsolete?: boolean;
    askedMsAgo?: number;
  }): Promise<ResendVerdict> {
    const network = lab.openNetwork({ keys: [key], payments: { revise: async () => revised } });
    const sent = await send(network, key, { kind });
    await lab.sql`update relay_attempts set is_noop = ${isNoop}, left_out = ${leftOut} where relay_id = ${sent.id}`;
    const relay = await inFlight(lab, sent);
    const [newest] = relay.attempts;
    if (!newest) throw new Error("the relay has no attempt");
    const read = await network.lanes.readMarket();
    const market = { ...read, askedAtMs: performance.now() - askedMsAgo };
    return decideResend(network, relay, { newest, isObsolete, market });
  }
  const wanted = (...leftOut: string[]): Revised => ({ call: CALL, isNoop: false, leftOut });

  test("is sent again while all that it carries is still wanted, and is not while nothing is known about that", async () => {
    expect(await decide({ revised: { call: CALL, isNoop: false } })).toBe("same");
    expect(await decide({ revised: undefined })).toBe("early");
  });

  test("is sent again when it left out what is no longer wanted, and is not when it carries some of that", async () => {
    expect(await decide({ revised: wanted("a"), leftOut: ["a", "b"] })).toBe("same");
    expect(await decide({ revised: wanted("a", "b"), leftOut: ["a"] })).toBe("less");
    expect(await decide({ revised: wanted("a") })).toBe("less");
  });

  test("is not sent again when nothing that it carries is wanted, known by its kind or without asking it", async () => {
    expect(await decide({ revised: { call: CALL, isNoop: true } })).toBe("less");
    expect(await decide({ revised: wanted(), isObsolete: true })).toBe("less");
  });

  test("is always sent again as a no-op, and so is a kind that is always wanted", async () => {
    expect(await decide({ isNoop: true, isObsolete: true })).toBe("same");
    expect(await decide({ kind: "DEPLOY" })).toBe("same");
  });

  test("is decided about only with a head that is valid", async () => {
    const askedMsAgo = HEAD_VALID_MS + 100;
    expect(await decide({ revised: wanted(), askedMsAgo })).toBe("outdated");
    expect(await decide({ revised: undefined, askedMsAgo })).toBe("outdated");
    expect(await decide({ revised: wanted(), askedMsAgo: HEAD_VALID_MS - 1_000 })).toBe("same");
  });
});

describe("a relay whose bytes were deleted before its block left the chain", () => {
  const requeued: bigint[] = [];
  const payments: RelayKind = {
    requeueLost: async (_tx, _network, relayId) => {
      requeued.push(relayId);
    },
  };
  let network: RelayNetwork;

  beforeEach(() => {
    requeued.length = 0;
    network = lab.openNetwork({ keys: [key], payments });
  });

  const dropBytes = ({ id }: { id: bigint }) =>
    lab.sql`update relay_attempts set raw = null where relay_id = ${id}`;

  test("is LOST, costs nothing, and what it carried is queued again", async () => {
    const sent = await send(network, key);
    await dropBytes(sent);
    await abandonDropped(network, await inFlight(lab, sent));
    expect(await stateOf(lab, sent)).toBe("LOST");
    expect(requeued).toEqual([sent.id]);
    expect(await reservedWei(lab)).toBe(0n);
  });

  test("is kept once it is in a block again: what it carried must not be paid twice", async () => {
    const sent = await send(network, key);
    await dropBytes(sent);
    await lab.rpc("evm_mine");
    await abandonDropped(network, await inFlight(lab, sent));
    expect(await stateOf(lab, sent)).toBe("BROADCAST");
    expect(requeued).toEqual([]);
  });

  test("is left alone when another worker has recorded its block meanwhile", async () => {
    const sent = await send(network, key);
    await dropBytes(sent);
    const relay = await inFlight(lab, sent);
    await lab.sql`update relays set state = 'MINED', block_number = 1, block_hash = '0x' where id = ${sent.id}`;
    await abandonDropped(network, relay);
    expect(await stateOf(lab, sent)).toBe("MINED");
    expect(requeued).toEqual([]);
  });
});
