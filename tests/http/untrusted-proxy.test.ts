/** A proxy that TRUSTED_PROXIES does not name makes all callers share one rate limit: the log says so, once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { untrustedProxyOf } from "../../api/http/client-address.ts";
import { readProxies } from "../../core/runtime/trusted-proxies.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";

let world: ApiWorld;
beforeAll(async () => {
  world = await startApiWorld({ env: { RATE_LIMITS: "1" } });
}, 120_000);
afterAll(() => world?.stop());

test("is reported with its address at the first request that it forwards, and not again", async () => {
  const ask = async (headers: Record<string, string>) =>
    (await fetch(`${world.baseUrl}/v1/networks`, { headers })).arrayBuffer();
  const reports = () => world.log().match(/TRUSTED_PROXIES does not name its sender/g)?.length ?? 0;
  await ask({});
  expect(reports()).toBe(0);
  for (const address of ["203.0.113.1", "203.0.113.2"]) await ask({ "x-forwarded-for": address });
  expect(reports()).toBe(1);
  expect(world.log()).toMatch(/"proxy":"(127\.0\.0\.1|::1)"/);
});

const proxies = readProxies(["10.0.0.0/8"]);

test.each([
  ["172.17.0.1", "203.0.113.1", "172.17.0.1"],
  ["::ffff:172.17.0.1", "203.0.113.1", "172.17.0.1"],
  ["fd00::1", "203.0.113.1", "fd00::1"],
  // a caller may send the header itself
  ["198.20.0.1", "203.0.113.1", undefined],
  ["10.1.1.1", "203.0.113.1", undefined],
  ["172.17.0.1", null, undefined],
  [undefined, "203.0.113.1", undefined],
])("a peer %p that forwards for %p is reported as %p", (peer, forwardedFor, reported) => {
  expect(untrustedProxyOf(peer, forwardedFor, proxies)).toBe(reported);
});
