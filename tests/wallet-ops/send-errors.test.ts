/** What a send's preparation and confirmation refuse, each rule just inside and just outside. API and chain only: nothing is relayed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, getAddress, parseAbi } from "viem";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { expectRefusal, prepareSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

const PREPARE = "/v1/wallets/send/prepare";
const CONFIRM = "/v1/wallets/send/confirm";
const USDC = NETWORKS["base-sepolia"].usdc.address;
const TO: Hex = "0x52908400098527886e0f7030069857d2e4169ee7";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ env: { NETWORKS: "base-sepolia" } });
  merchant = await funded(5_000_000n);
}, 120_000);
afterAll(() => world?.stop());

async function funded(units: bigint): Promise<Merchant> {
  const made = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, made.walletAddress as Hex, units);
  return made;
}

function prepare(body: unknown, headers?: Record<string, string>): Promise<Answer> {
  return merchant.client.post(PREPARE, body, headers);
}

async function stateOf(sendId: string): Promise<string | undefined> {
  const [row] = await world.sql<
    { state: string }[]
  >`select state from wallet_operations where id = ${sendId}`;
  return row?.state;
}

describe("a recipient", () => {
  const refused: [string, string, string][] = [
    ["no address", "0x1234", "invalid"],
    ["no address, but its length", `0x${"g".repeat(40)}`, "invalid"],
    ["the zero address", `0x${"0".repeat(40)}`, "zero_address"],
    ["the token", USDC, "token_contract"],
    ["the EntryPoint", CONTRACTS.entryPointV06, "not_a_recipient"],
    ["the factory", CONTRACTS.smartWalletFactory, "not_a_recipient"],
    ["a wrong checksum", "0x52908400098527886E0F7030069857D2E4169Ee7", "bad_checksum"],
  ];
  for (const [what, to, issue] of refused) {
    test(`error: ${what} is refused as ${issue}`, async () => {
      expectRefusal(await prepare({ to, amount: "1" }), 400, { field: "to", issue });
    });
  }

  test("error: the wallet itself is refused as own_wallet", async () => {
    const answer = await prepare({ to: merchant.walletAddress, amount: "1" });
    expectRefusal(answer, 400, { field: "to", issue: "own_wallet" });
  });

  test("is accepted in lower case, in upper case and with its checksum", async () => {
    for (const to of [TO, `0x${TO.slice(2).toUpperCase()}`, getAddress(TO)]) {
      const { body } = await prepare({ to, amount: "1" });
      expect(body.summary.payments).toEqual([{ to: TO, amount: "1.000000", note: "" }]);
    }
  });

  test("error: one of several is named by its position", async () => {
    const payments = [
      { to: TO, amount: "1" },
      { to: USDC, amount: "1" },
    ];
    expectRefusal(await prepare({ payments }), 400, { field: "payments.1.to", issue: "token_contract" });
  });

  test("error: 403 payment_not_allowed names who is blocked by the token", async () => {
    const blocked = randomAddress();
    const { rpcUrl } = world.chainOf("base-sepolia");
    const data = encodeFunctionData({
      abi: parseAbi(["function blacklist(address account)"]),
      functionName: "blacklist",
      args: [blocked],
    });
    const from = localAccount(9).address;
    await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to: USDC, data, gas: "0x30d40" }]);
    const payments = [
      { to: TO, amount: "1" },
      { to: blocked, amount: "1" },
    ];
    expectRefusal(await prepare({ payments }), 403, {
      issue: "payment_not_allowed",
      position: 1,
      to: blocked,
    });
  });
});

describe("an amount", () => {
  for (const amount of [0, -1, "0", "-1", "0.0000001", 0.0000001, "1e1", "1,5", "abc", "", null, true]) {
    test(`error: ${JSON.stringify(amount)} is refused`, async () => {
      expectRefusal(await prepare({ to: TO, amount }), 400, { field: "amount" });
    });
  }

  test("error: below SEND_MIN is below_minimum, SEND_MIN itself is accepted", async () => {
    const below = await prepare({ to: TO, amount: "0.009999" });
    expectRefusal(below, 400, { field: "amount", issue: "below_minimum" });
    expect((await prepare({ to: TO, amount: "0.01" })).status).toBe(201);
  });

  test("error: a micro-USDC over the balance is insufficient_funds, the balance itself is accepted", async () => {
    const over = await prepare({ to: TO, amount: "5.000001" });
    expectRefusal(over, 409, { field: "amount", issue: "insufficient_funds" });
    const { body } = await prepare({ to: TO, amount: 5 });
    expect(body.summary).toMatchObject({ total: "5.000000", balanceAfter: "0.000000" });
  });

  test("error: the sum of a payout is compared with the balance", async () => {
    const payments = [
      { to: TO, amount: "2.5" },
      { to: randomAddress(), amount: "2.500001" },
    ];
    expectRefusal(await prepare({ payments }), 409, { issue: "insufficient_funds" });
  });

  test("error: an amount beyond every supply is insufficient_funds, not a failure and not malformed", async () => {
    for (const amount of ["999999999999999999", "1000000000000000000", "9".repeat(40)])
      expectRefusal(await prepare({ to: TO, amount }), 409, { issue: "insufficient_funds" });
  });

  test("zeros behind the sixth decimal are no further decimals, however many", async () => {
    const { body } = await prepare({ to: TO, amount: `1.5${"0".repeat(37)}` });
    expect(body.summary.total).toBe("1.500000");
  });

  test("error: an amount of more than 256 bits is insufficient_funds, not a failure", async () => {
    for (const amount of [1e72, 1e308])
      expectRefusal(await prepare({ to: TO, amount }), 409, { issue: "insufficient_funds" });
  });
});

describe("a payout", () => {
  const of = (count: number) => Array.from({ length: count }, () => ({ to: TO, amount: "0.01" }));

  test("error: 0 and 101 recipients and both forms are refused, 100 are accepted", async () => {
    expectRefusal(await prepare({ payments: [] }), 400, { field: "payments" });
    expectRefusal(await prepare({ payments: of(101) }), 400, { field: "payments" });
    expectRefusal(await prepare({ payments: of(1), to: TO, amount: "1" }), 400, { field: "payments" });
    const { body, status } = await prepare({ payments: of(100) });
    expect(status).toBe(201);
    expect(body.summary.total).toBe("1.000000");
  });

  test("error: a misspelt field is named, instead of a send on another network or without its note", async () => {
    for (const [body, field] of [
      [{ to: TO, amount: "1", netwrok: "base" }, "body"],
      [{ payments: [...of(1), { to: TO, amount: "0.01", Note: "Rent" }] }, "payments.1"],
    ] as const)
      expectRefusal(await prepare(body), 400, { field });
  });

  test("error: neither form names `to`", async () => {
    expectRefusal(await prepare({}), 400, { field: "to" });
  });
});

describe("who may send", () => {
  test("error: 404 without a wallet, 400 for a network that is not enabled", async () => {
    expectRefusal(await prepare({ network: "base", to: TO, amount: "1" }), 400, { field: "network" });
    await world.sql`update wallets set network = 'base' where user_id = ${merchant.userId}`;
    expect((await prepare({ to: TO, amount: "1" })).status).toBe(404);
    await world.sql`update wallets set network = 'base-sepolia' where user_id = ${merchant.userId}`;
    expect((await prepare({ to: TO, amount: "1" })).status).toBe(201);
  });

  test("error: an API key of any scope is refused on every route", async () => {
    const key = await merchant.client.post("/v1/api-keys", {
      name: "Shop",
      scopes: ["links:read", "links:write", "transactions:read", "exports", "webhooks"],
    });
    expect(key.status).toBe(201);
    const stranger = openClient(world.baseUrl);
    const headers = { authorization: `Bearer ${key.body.data.key}` };
    const { sendId } = await prepareSend(merchant, { to: TO, amount: "1" });
    const answers = [
      await stranger.post(PREPARE, { to: TO, amount: "1" }, headers),
      await stranger.post(CONFIRM, {}, headers),
      await stranger.get("/v1/wallets/sends", headers),
      await stranger.get(`/v1/wallets/sends/${sendId}`, headers),
      await stranger.post(`/v1/wallets/sends/${sendId}/cancel`, {}, headers),
    ];
    for (const answer of answers) expectRefusal(answer, 403, { issue: "session_required" });
  });

  test("error: another user's send is unknown on every route, and unchanged", async () => {
    const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
    const other = await funded(1_000_000n);
    const { client, passkey } = other;
    expect((await client.get(`/v1/wallets/sends/${prepared.sendId}`)).status).toBe(404);
    expect((await client.post(`/v1/wallets/sends/${prepared.sendId}/cancel`, {})).status).toBe(404);
    const passkeyResponse = await passkey.authenticate({ challenge: prepared.passkeyChallenge.challenge });
    const { sendId, challengeId } = prepared;
    expect((await client.post(CONFIRM, { sendId, challengeId, passkeyResponse })).status).toBe(404);
    const own = await prepareSend(other, { to: TO, amount: "1" });
    const swapped = { sendId: own.sendId, challengeId, passkeyResponse };
    expectRefusal(await client.post(CONFIRM, swapped), 400, { field: "challengeId" });
    expect((await client.get("/v1/wallets/sends")).body.sends).toHaveLength(1);
    expect(await stateOf(sendId)).toBe("AWAITING_SIGNATURE");
  });
});

describe("an Idempotency-Key", () => {
  test("returns the same send, in its current state, and is free once that was cancelled", async () => {
    const headers = { "idempotency-key": "key-1" };
    const body = { to: TO, amount: "1", note: "Rent" };
    const first = await prepare(body, headers);
    const again = await prepare(body, headers);
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const other = await prepare({ ...body, amount: "1.01" }, headers);
    expectRefusal(other, 409, { field: "Idempotency-Key" });
    await merchant.client.post(`/v1/wallets/sends/${first.body.sendId}/cancel`, {});
    const fresh = await prepare(body, headers);
    expect(fresh.body.sendId).not.toBe(first.body.sendId);
  });

  test("sent sixteen times concurrently prepares one send", async () => {
    const headers = { "idempotency-key": "key-2" };
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => prepare({ to: TO, amount: "1" }, headers)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => body.sendId)).size).toBe(1);
  });
});

describe("the list of sends", () => {
  test("is newest first, page by page", async () => {
    const user = await funded(2_000_000n);
    const made: string[] = [];
    for (let count = 0; count < 3; count++) {
      made.unshift((await prepareSend(user, { to: TO, amount: "1" })).sendId);
    }
    const first = (await user.client.get("/v1/wallets/sends?limit=2")).body;
    const second = (await user.client.get(`/v1/wallets/sends?limit=2&cursor=${first.nextCursor}`)).body;
    const ids = [...first.sends, ...second.sends].map(({ sendId }) => sendId);
    expect(ids).toEqual(made);
    expect([first.pagination.hasNextPage, second.pagination.hasNextPage]).toEqual([true, false]);
    expect(second.nextCursor).toBeNull();
    const broken = await user.client.get("/v1/wallets/sends?cursor=nonsense");
    expectRefusal(broken, 400, { field: "cursor" });
  });
});

describe("warnings", () => {
  test("name a recipient that was never paid, one that resembles a known one, and a contract", async () => {
    const user = await funded(2_000_000n);
    const known: Hex = `0xabcd${"1".repeat(32)}1234`;
    await world.sql`
      insert into transactions (id, owner, network, type, status, amount_units, counterparty, detected_at)
      values (${`txn_${Bun.randomUUIDv7()}`}, owner_key(${user.userId}), 'base-sepolia', 'SEND', 'CONFIRMED', 1, ${known}, now())`;
    const codesFor = async (to: Hex) =>
      (await prepareSend(user, { to, amount: "1" })).warnings.map(({ code }: { code: string }) => code);
    expect(await codesFor(known)).toEqual(["single_owner"]);
    expect(await codesFor(`0xabcd${"2".repeat(32)}1234`)).toEqual([
      ...["new_recipient", "resembles_known_recipient", "single_owner"],
    ]);
    expect(await codesFor(`0xabce${"1".repeat(32)}1234`)).toEqual(["new_recipient", "single_owner"]);
    expect(await codesFor(deterministicDeployer())).toContain("recipient_is_contract");
  });
});

/** A contract that is none of the wallet's infrastructure: the deterministic deployer. */
function deterministicDeployer(): Hex {
  return "0x4e59b44847b379578588920ca78fbf26c0b4956c";
}

test("error: 500 network_unreachable, retryable, while no node answers", async () => {
  await world.chainOf("base-sepolia").stop();
  const answer = await prepare({ to: TO, amount: "1" });
  expectRefusal(answer, 500, { issue: "network_unreachable", retryable: true });
});
