import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Merchant, signUp } from "../api/sign-up.ts";
import { type MerchantWorld, startMerchantWorld } from "./merchant-world.ts";

let world: MerchantWorld;
let ann: Merchant;
let _bob: Merchant;

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api"] });
  [ann, _bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
}, 60_000);
afterAll(() => world?.stop());

describe("making a link", () => {
  test("answers 201 with the documented fields and no updatedAt", async () => {
    const { status, body, headers } = await ann.client.post("/v1/payment-links", {
      userId: ann.userId,
      amount: 12.34,
      description: "Coffee beans",
      expiresInHours: 2,
    });
    expect(status).toBe(201);
    expect(headers.get("x-api-version")).toBe("v1");
    expect(body).toMatchObject({
      amount: 12.34,
      currency: "USDC",
      description: "Coffee beans",
      status: "ACTIVE",
      network: "base-sepolia",
    });
    expect(body.id).toMatch(/^link_[A-Za-z0-9_-]{22}$/);
    expect(body.url).toBe(`${world.baseUrl}/pay/${body.id}`);
    expect(body.aiUrl).toBe(`${world.baseUrl}/v1/x402/${body.id}`);
    expect(body.updatedAt).toBeUndefined();
    expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(2 * 3_600_000);
  });
});
