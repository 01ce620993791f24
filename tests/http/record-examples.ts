/** `bun tests/http/record-examples.ts`: has a session with the started service and writes the examples of the OpenAPI document from it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { payLink } from "../../sdk/pay-link.ts";
import { startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { signUp } from "../support/sign-up.ts";

const FILE = join(import.meta.dir, "../../api/http/openapi-examples.json");
const ORIGIN = "https://pay.example.com";

const world = await startMerchantWorld();
try {
  const { client } = await signUp(world.baseUrl);
  const payer = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(world.chain.rpcUrl, payer.address, 10_000_000n);
  const order = { amount: 4.5, description: "Two coffees", reference: "order-1042", expiresInHours: 2 };
  const created = await client.post("/v1/payment-links", order);
  const terms = await client.get(`/v1/x402/${created.body.id}`);
  await payLink(created.body.aiUrl, payer, { maxAmount: 5 });
  const paid = await waitFor("the link to be paid", async () => {
    const { body } = await client.get(`/v1/payment-links/${created.body.id}`);
    return body.status === "PAID" ? body : undefined;
  });
  const history = await client.get("/v1/transactions?limit=1");
  const refund = { amount: "2.50", reason: "One cup was cold" };
  const requested = await client.post(`/v1/payment-links/${paid.id}/refund-requests`, refund);
  const refused = await client.post("/v1/payment-links", { amount: 0, description: "Nothing" });
  const operations = {
    createPaymentLink: { body: order, status: "201", answer: created.body },
    getPaymentRequirements: { status: "402", answer: terms.body },
    listTransactions: { status: "200", answer: history.body },
    requestRefund: { body: refund, status: String(requested.status), answer: requested.body },
    createWebhookEndpoint: {
      body: { url: "https://shop.example.com/hooks", eventTypes: ["payment_link.paid"] },
    },
    exportTransactions: { body: { format: "csv", statuses: ["CONFIRMED"], dateFrom: "2026-01-01" } },
  };
  const text = JSON.stringify({ operations, error: refused.body }, null, 2);
  writeFileSync(FILE, `${text.replaceAll(world.baseUrl, ORIGIN)}\n`);
  console.log(`${FILE} is written`);
} finally {
  await world.stop();
}
process.exit(0);
