/** Receivers over TLS with certificates of tests/webhooks/certificates, two of which the worker trusts. Their keys are public. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

const folder = join(import.meta.dir, "certificates");
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const scratch = mkdtempSync(join(tmpdir(), "test-tls-"));
let world: MerchantWorld;
let ann: Merchant;

beforeAll(async () => {
  const trusted = join(scratch, "ca.pem");
  writeFileSync(trusted, read("trusted.cert.pem") + read("other-name.cert.pem"));
  world = await startMerchantWorld({
    processes: ["api", "worker"],
    env: { WEBHOOK_PRIVATE_TARGETS: "1", NODE_EXTRA_CA_CERTS: trusted },
  });
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(async () => {
  rmSync(scratch, { recursive: true });
  await world?.stop();
});

/** Sends one event to a server with this certificate, or without TLS, and returns its delivery. */
async function deliverTo(
  certificate: string | undefined,
): Promise<{ state: string; lastError: string | null; received: number }> {
  let received = 0;
  const server = Bun.serve({
    port: 0,
    ...(certificate
      ? { tls: { cert: read(`${certificate}.cert.pem`), key: read(`${certificate}.key.pem`) } }
      : {}),
    fetch: () => {
      received += 1;
      return new Response("ok");
    },
  });
  const { body } = await ann.client.post("/v1/webhook-endpoints", {
    url: `https://localhost:${server.port}/hook`,
    eventTypes: ["payment_link.created"],
  });
  await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
  const delivery = await waitFor("a try", async () => {
    const { body: log } = await ann.client.get(`/v1/webhook-endpoints/${body.data.id}/deliveries`);
    return log.data[0]?.state === "DELIVERED" || log.data[0]?.lastError ? log.data[0] : undefined;
  });
  await ann.client.delete(`/v1/webhook-endpoints/${body.data.id}`);
  await server.stop(true);
  return { state: delivery.state, lastError: delivery.lastError, received };
}

test("a trusted certificate for the name is accepted", async () => {
  expect(await deliverTo("trusted")).toEqual({ state: "DELIVERED", lastError: null, received: 1 });
}, 120_000);

test("error: a receiver without TLS gets no message, and its certificate is not blamed", async () => {
  const { state, lastError, received } = await deliverTo(undefined);
  expect([state, received]).toEqual(["PENDING", 0]);
  expect(lastError).toContain("offered no TLS connection we can use");
}, 120_000);

test("error: an untrusted certificate gets no message", async () => {
  const { state, lastError, received } = await deliverTo("stranger");
  expect([state, received]).toEqual(["PENDING", 0]);
  expect(lastError).toContain("certificate was refused");
}, 120_000);

test("error: a trusted certificate for another name gets no message", async () => {
  const { state, lastError, received } = await deliverTo("other-name");
  expect([state, received]).toEqual(["PENDING", 0]);
  expect(lastError).toContain("certificate was refused");
}, 120_000);
