/** Every code sample of the guides runs against the started service, with real payments. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { renderErrors } from "../../api/guides/errors-page.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { findFreePort } from "../../local/free-port.ts";
import { createClient } from "../../sdk/client.ts";
import { payLink } from "../../sdk/pay-link.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { randomAddress } from "../support/seed.ts";
import { signUp } from "../support/sign-up.ts";
import { findFaults, readSamples, runSamples } from "./samples.ts";

const FOLDER = join(import.meta.dir, "../../docs/guides");
const FUNDS = 20_000_000n;
const guides = [
  ...readdirSync(FOLDER).map((file) => ({ name: file, text: readFileSync(join(FOLDER, file), "utf8") })),
  { name: "errors.md", text: renderErrors() },
];

let world: MerchantWorld;
let variables: Record<string, string>;
let values: Record<string, string>;

beforeAll(async () => {
  world = await startMerchantWorld({ env: { WEBHOOK_PRIVATE_TARGETS: "1", FACILITATOR: "1" } });
  const ann = await signUp(world.baseUrl);
  const scopes = [
    ...["links:read", "links:write", "transactions:read", "exports", "webhooks"],
    ...["refunds:request", "facilitator"],
  ];
  const { body } = await ann.client.post("/v1/api-keys", { name: "Guides", scopes });
  const { body: settings } = await ann.client.get("/v1/settings/return-secret");
  const payer = generatePrivateKey();
  await fundUsdc(world.chain.rpcUrl, privateKeyToAccount(payer).address, FUNDS);
  const port = await findFreePort();
  values = {
    "https://pay.example.com": world.baseUrl,
    "https://shop.example.com/hooks": `http://127.0.0.1:${port}/hooks`,
    "PORT=8080": `PORT=${port}`,
    sk_your_key: body.data.key,
    "merchant@example.com": ann.email,
  };
  variables = {
    BASE_URL: world.baseUrl,
    API_KEY: body.data.key,
    PAYER_KEY: payer,
    PAY_TO: randomAddress(),
    SHOP_PORT: String(await findFreePort()),
    RETURN_SECRET: settings.returnSecret,
    RETURN_URL: await returnFromPaidLink(body.data.key, payer),
  };
}, 120_000);
afterAll(() => world?.stop());

/** Where a payer returns to after paying. */
async function returnFromPaidLink(apiKey: string, payer: `0x${string}`): Promise<string> {
  const { links } = createClient({ baseUrl: world.baseUrl, apiKey });
  const successUrl = "https://shop.example/thanks?cart=1";
  const { id, aiUrl } = await links.create({ amount: 0.5, description: "Mug", reference: "m-1", successUrl });
  await payLink(aiUrl, privateKeyToAccount(payer), { maxAmount: 1 });
  await links.waitForEnd(id, { timeoutMs: 90_000 });
  const answer = await fetch(`${world.baseUrl}/api/v1/public/payment-links/${id}/data`);
  return ((await answer.json()) as { returnUrl: string }).returnUrl;
}

test("every guide's samples are of a kind that is run", () => {
  expect(guides.length).toBeGreaterThan(12);
  const faults = guides.flatMap(({ name, text }) =>
    findFaults(readSamples(text)).map((fault) => `${name}: ${fault}`),
  );
  expect(faults).toEqual([]);
});

test("a failing sample is detected, and so is one that no command runs", async () => {
  const failing = readSamples("```sh\ntrue\n```\n<!-- test: test 1 = 2 -->\n");
  await expect(runSamples(failing, { values, variables })).rejects.toThrow("the samples ended with 1");
  expect(findFaults(readSamples("```ts lost.ts\nlet a;\n```\n"))).toEqual(["no command runs lost.ts"]);
  expect(findFaults(readSamples("```php a.php\n```\n"))).toEqual(["no test runs php"]);
});

describe("the samples run:", () => {
  test.each(guides.map(({ name, text }) => [name, text] as const))(
    "%s",
    async (_name, text) => {
      await runSamples(readSamples(text), { values, variables });
    },
    110_000,
  );
});
