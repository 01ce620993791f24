/** An owner among the members, through the three real processes: becomes one on the chain, sends, and is removed there before in the books. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { actingFor, newMember } from "../support/members.ts";
import { changeOwner, ownersOn } from "../support/owners.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
}, 120_000);
afterAll(() => world?.stop());

const DEADLINE_MS = 90_000;

async function until(ask: () => Promise<Answer>, isDone: (answer: Answer) => boolean): Promise<Answer> {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const answer = await ask();
    if (isDone(answer)) return answer;
    if (Date.now() > deadline) throw new Error(`still ${answer.status} ${answer.text}`);
    await Bun.sleep(50);
  }
}

function acting({ client, passkey }: Merchant, merchant: Merchant) {
  const headers = actingFor(merchant);
  const acted: Client = {
    ...client,
    get: (path, more) => client.get(path, { ...headers, ...more }),
    post: (path, body, more) => client.post(path, body, { ...headers, ...more }),
  };
  return { client: acted, passkey };
}

test("a member becomes an owner on the chain, sends money, and is removed from the chain before the membership ends", async () => {
  const merchant = await signUp(world.baseUrl);
  const person = await newMember(merchant, "owner");
  const member = acting(person, merchant);
  const roleOf = async () => (await person.client.get("/v1/auth/me")).body.merchants[0].role;
  expect(await roleOf()).toBe("operator");
  const payment = { to: randomAddress(), amount: "1.25" };
  expectRefusal(await member.client.post("/v1/wallets/send/prepare", payment), 403, {
    issue: "role_not_allowed",
  });

  await changeOwner(merchant, { add: { type: "member", userId: person.userId } });
  await until(
    () => person.client.get("/v1/auth/me"),
    ({ body }) => body.merchants[0].role === "owner",
  );
  const { owners } = await ownersOn(merchant.client);
  const own = owners.find(
    ({ credentialId }: { credentialId: string | null }) => credentialId === person.passkey.credentialId,
  );
  expect(own).toBeDefined();

  const { rpcUrl } = world.chain;
  await fundUsdc(rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  const prepared = await prepareSend(member, payment);
  expect((await confirmSend(member, prepared)).status).toBe(202);
  await waitForSend(member, prepared.sendId);
  expect(await readUsdcBalance(rpcUrl, payment.to)).toBe(1_250_000n);

  const made = await member.client.post("/v1/api-keys", { name: "exporter", scopes: ["exports"] });
  const useKey = () =>
    openClient(world.baseUrl).get("/v1/transactions/exports", {
      authorization: `Bearer ${made.body.data.key}`,
    });
  expect((await useKey()).status).toBe(200);

  const remove = () => merchant.client.delete(`/v1/members/${person.userId}`);
  expectRefusal(await remove(), 409, { issue: "owner_on_chain" });
  const removal = { network: "base-sepolia", remove: { ownerId: own.ownerId } };
  await changeOwner(merchant, removal);
  expect(await roleOf()).toBe("operator");
  expectRefusal(await member.client.post("/v1/wallets/send/prepare", payment), 403, {
    issue: "role_not_allowed",
  });
  // at the removal's depth, whether or not the membership is ended
  expect((await until(useKey, ({ status }) => status !== 200)).status).toBe(401);
  expect((await until(remove, ({ status }) => status !== 409)).status).toBe(200);
  expect((await member.client.get("/v1/transactions")).status).toBe(401);
});
