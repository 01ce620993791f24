/** What no API key may do, whatever its scopes: routes that would let one in do not start. */
import { expect, test } from "bun:test";
import { Elysia } from "elysia";
import { type AuthRule, access } from "../../api/http/access.ts";
import { SESSION_ONLY } from "../../core/domain/api-key-scopes.ts";
import { depsOfRoutes, listAppRoutes } from "../support/app-routes.ts";

const deps = await depsOfRoutes();

function mount(rule: AuthRule) {
  return new Elysia().use(access(deps)).get("/", () => "in", { auth: rule });
}

test.each([...SESSION_ONLY])("an app with a route that admits API keys to %s is not built", (needs) => {
  const rule: AuthRule = { allow: ["session", "apiKey"], scope: "any", needs };
  expect(() => mount(rule)).toThrow(`a route that needs ${needs} admits API keys`);
  expect(() => mount({ allow: ["session"], needs })).not.toThrow();
});

test("routes that move money, change owners or create keys need permissions that no API key has", async () => {
  const routes = await listAppRoutes();
  const needed = (method: string, path: string) =>
    routes.find((route) => route.method === method && route.path === path)?.needs;
  expect([
    needed("POST", "/v1/wallets/send/confirm"),
    needed("POST", "/v1/refunds/:id/confirm"),
    needed("POST", "/v1/wallets/owners/confirm"),
    needed("POST", "/v1/api-keys"),
  ]).toEqual(["money:send", "money:send", "owners:manage", "keys:manage"]);
});
