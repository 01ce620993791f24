/** `GET /v1/wallets/recovery`: what it holds, and who gets it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { accountAddress } from "../../core/chain/passkey-account.ts";
import { buildWalletFiles } from "../../core/domain/wallet-file.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signUp, verifiedUser } from "../support/sign-up.ts";

const FILE = "/v1/wallets/recovery";
const BASE = {
  network: "base",
  chainId: 8453,
  entryPoint: "0x5ff137d4b0fdcd49dca30c7cf57e578a026d2789",
  usdc: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
  rpcUrl: "https://mainnet.base.org",
};
const BASE_SEPOLIA = {
  ...BASE,
  network: "base-sepolia",
  chainId: 84532,
  usdc: "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
  rpcUrl: "https://sepolia.base.org",
};

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ networks: ["base", "base-sepolia"], env: { NETWORKS: "base,base-sepolia" } });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

async function addNetwork({ client, passkey }: Merchant, network: string): Promise<void> {
  const { body } = await client.post("/v1/wallets/setup/start", { network });
  const passkeyResponse = await passkey.authenticate(body.passkeyRequest);
  await client.post("/v1/wallets/setup/complete", { challengeId: body.challengeId, passkeyResponse });
}

describe("GET /v1/wallets/recovery", () => {
  test("answers the wallet file as a download", async () => {
    const { status, body, headers } = await merchant.client.get(FILE);
    const { x, y } = merchant.passkey.publicKey;
    expect(status).toBe(200);
    expect(body).toEqual({
      version: 1,
      rpId: "localhost",
      credentials: [{ id: merchant.passkey.credentialId, x, y, transports: ["internal"] }],
      factory: "0xba5ed110efdba3d005bfc882d75358acbbb85842",
      implementation: "0x00000110dcdedc9581cb5ecb8467282f2926534d",
      owners: [`${x}${y.slice(2)}`],
      saltNonce: "0",
      address: merchant.walletAddress,
      networks: [BASE_SEPOLIA],
    });
    expect(headers.get("content-type")).toStartWith("application/json");
    expect(headers.get("content-disposition")).toBe(
      `attachment; filename="wallet-${merchant.walletAddress}.json"`,
    );
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("the file alone gives the wallet's address", async () => {
    const { factory, implementation, owners, saltNonce } = (await merchant.client.get(FILE)).body;
    expect(accountAddress({ factory, implementation, owners, saltNonce: BigInt(saltNonce) })).toBe(
      merchant.walletAddress as `0x${string}`,
    );
  });

  test("names public nodes only, never the operator's", async () => {
    const { text } = await merchant.client.get(FILE);
    for (const network of ["base", "base-sepolia"] as const)
      expect(text).not.toContain(new URL(world.chainOf(network).rpcUrl).host);
  });

  test("names every network of the wallet, and each can be asked for", async () => {
    const other = await signUp(world.baseUrl);
    expect((await other.client.get(`${FILE}?network=base`)).status).toBe(404);
    await addNetwork(other, "base");
    const { body } = await other.client.get(`${FILE}?network=base`);
    expect(body.networks).toEqual([BASE_SEPOLIA, BASE]);
    expect((await other.client.get(FILE)).body).toEqual(body);
  });

  test("error: 400 for an unknown network", async () => {
    expect((await merchant.client.get(`${FILE}?network=ethereum`)).status).toBe(400);
  });

  test("error: 401 without a session, 403 for an API key and before the wallet is set up", async () => {
    const stranger = openClient(world.baseUrl);
    expect((await stranger.get(FILE)).status).toBe(401);
    const key = await keyOf(merchant.client);
    expect((await stranger.get("/v1/payment-links", key)).status).toBe(200);
    expect((await stranger.get(FILE, key)).status).toBe(403);
    const { client } = await verifiedUser(world.baseUrl);
    expect((await client.get(FILE)).status).toBe(403);
  });
});

test("without related origins there is no /.well-known/webauthn", async () => {
  expect((await openClient(world.baseUrl).get("/.well-known/webauthn")).status).toBe(404);
});

describe("GET /leave", () => {
  test("shows the page for leaving, in no frame, also compressed", async () => {
    for (const encoding of ["identity", "gzip", "br"]) {
      const answer = await fetch(`${world.baseUrl}/leave`, { headers: { "accept-encoding": encoding } });
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(answer.headers.get("content-disposition")).toBeNull();
      expect(answer.headers.get("content-security-policy")).toBe("frame-ancestors 'none'");
      expect(answer.headers.get("permissions-policy")).toContain("publickey-credentials-get=(self)");
      expect(await answer.text()).toBe(
        readFileSync(join(import.meta.dir, "../../web/dist/leave.html"), "utf8"),
      );
    }
  });

  test("?download saves it as a file", async () => {
    const answer = await fetch(`${world.baseUrl}/leave?download`);
    expect(answer.headers.get("content-disposition")).toBe('attachment; filename="leave.html"');
  });
});

/** Headers of an API key with every scope that keys can have. */
async function keyOf(client: Client): Promise<Record<string, string>> {
  const scopes = ["links:read", "links:write", "transactions:read", "exports", "webhooks"];
  const { body } = await client.post("/v1/api-keys", { name: "Shop", scopes });
  return { authorization: `Bearer ${body.data.key}` };
}

test("wallets of two addresses are two files, each with the credentials of its RP id", () => {
  const [one, other] = [`0x${"1".repeat(40)}`, `0x${"2".repeat(40)}`] as const;
  const wallet = { factory: one, owners: [], saltNonce: 0n };
  const passkey = { publicKeyX: new Uint8Array(32), publicKeyY: new Uint8Array(32), transports: [] };
  const files = buildWalletFiles(
    [
      { ...wallet, network: "base", address: one, rpId: "a.example" },
      { ...wallet, network: "base-sepolia", address: other, rpId: "b.example" },
    ],
    [
      { ...passkey, id: "A", rpId: "a.example" },
      { ...passkey, id: "B", rpId: "b.example" },
    ],
  );
  expect(files.map(({ address, credentials }) => [address, credentials.map(({ id }) => id)])).toEqual([
    [one, ["A"]],
    [other, ["B"]],
  ]);
});
