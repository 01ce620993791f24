/** Related origins: what the environment may say, and what browsers read at /.well-known/webauthn. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readApiConfig } from "../../api/config.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";

const strong = () => randomBytes(32).toString("hex");
const production = () => ({
  NODE_ENV: "production",
  DATABASE_URL: "postgres://user@127.0.0.1:5432/x",
  RPC_URL_BASE: "http://127.0.0.1:8545",
  RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8546",
  JWT_SECRET: strong(),
  OTP_PEPPER: strong(),
  BASE_URL: "https://pay.new.example",
});
const MOVED = { RP_ID: "pay.old.example", RP_RELATED_ORIGINS: "https://pay.new.example" };

let world: ApiWorld;
beforeAll(async () => {
  const RP_RELATED_ORIGINS = "https://pay.new.example/,https://shop.example.net:8443";
  world = await startApiWorld({ env: { RP_RELATED_ORIGINS } });
}, 120_000);
afterAll(() => world?.stop());

test("GET /.well-known/webauthn lists the related origins as JSON", async () => {
  const { status, body, headers } = await openClient(world.baseUrl).get("/.well-known/webauthn");
  expect(status).toBe(200);
  expect(headers.get("content-type")).toStartWith("application/json");
  expect(body).toEqual({ origins: ["https://pay.new.example", "https://shop.example.net:8443"] });
});

describe("RP_RELATED_ORIGINS", () => {
  test("an earlier domain stays the RP id after a move, when it lists the origin of BASE_URL", () => {
    expect(readApiConfig({ ...production(), ...MOVED }).passkey).toMatchObject({
      rpId: "pay.old.example",
      origins: ["https://pay.new.example"],
      relatedOrigins: ["https://pay.new.example"],
    });
  });

  test.each([
    ["no related origin", { RP_RELATED_ORIGINS: undefined }],
    ["another origin only", { RP_RELATED_ORIGINS: "https://new.example" }],
    ["the origin with another port", { RP_RELATED_ORIGINS: "https://pay.new.example:8443" }],
    ["an RP id that is a public suffix", { RP_ID: "example" }],
    ["an RP id that is a URL", { RP_ID: "https://pay.old.example" }],
    ["an RP id with a port", { RP_ID: "pay.old.example:443" }],
  ])("error: production refuses a foreign RP_ID with %s", (_name, changed) => {
    expect(() => readApiConfig({ ...production(), ...MOVED, ...changed })).toThrow(/RP_ID: ".*" is neither/);
  });

  test("error: must be https in production", () => {
    const env = { ...production(), RP_RELATED_ORIGINS: "http://pay.new.example" };
    expect(() => readApiConfig(env)).toThrow(
      /RP_RELATED_ORIGINS: must be https in production \(http:\/\/pay\.new\.example\)/,
    );
  });

  test("five different names are accepted, a sixth is refused; subdomains and other endings count once", () => {
    const names = ["a", "b", "c", "d", "e"].map((label) => `https://pay.${label}.example`);
    const withOrigins = (...origins: string[]) =>
      readApiConfig({ ...production(), RP_RELATED_ORIGINS: [...names, ...origins].join(",") });
    expect(withOrigins("https://shop.a.example", "https://a.co.uk").passkey.relatedOrigins).toHaveLength(7);
    expect(() => withOrigins("https://f.example")).toThrow(
      /RP_RELATED_ORIGINS: 6 different registrable names/,
    );
  });
});
