/** Accounts on a network where gas costs money: deployed by their first send only, and not for a wallet that holds next to nothing. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { expectRefusal } from "../support/sends.ts";
import { newPasskey, verifiedUser } from "../support/sign-up.ts";

setDefaultTimeout(120_000);
const SEND = "/v1/wallets/send/prepare";

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({ networks: ["base"], env: { WALLET_DEPLOYMENT: "eager" } });
});
afterAll(() => world?.stop());

async function walletOnBase() {
  const { client, userId } = await verifiedUser(world.baseUrl);
  const passkey = await newPasskey(world.baseUrl);
  const started = await client.post("/v1/wallets/setup/start", { network: "base" });
  const completed = await client.post("/v1/wallets/setup/complete", {
    ...{ network: "base", challengeId: started.body.challengeId },
    passkeyResponse: await passkey.register(started.body.passkeyChallenge),
  });
  if (completed.status !== 200) throw new Error(completed.text);
  return { client, userId, address: completed.body.wallet.address as Hex };
}

test("no job deploys a wallet on base, whatever WALLET_DEPLOYMENT says", async () => {
  const { userId } = await walletOnBase();
  const [wallet] = await world.sql<{ id: string }[]>`select id from wallets where user_id = ${userId}`;
  const jobs = await world.sql`
    select from graphile_worker.jobs where key = ${`deploy_wallet:${wallet?.id}`}`;
  expect(jobs).toHaveLength(0);
});

test("error: a first send requires ten times SEND_MIN in the wallet; a micro-USDC less is below_minimum", async () => {
  const { client, address } = await walletOnBase();
  const prepare = () => client.post(SEND, { network: "base", to: randomAddress(), amount: "0.05" });
  const { rpcUrl } = world.chainOf("base");
  await fundUsdc(rpcUrl, address, 99_999n);
  expectRefusal(await prepare(), 400, { field: "amount", issue: "below_minimum" });
  await fundUsdc(rpcUrl, address, 100_000n);
  const prepared = await prepare();
  expect(prepared.status).toBe(201);
  expect(prepared.body.summary.deploysWallet).toBe(true);
});
