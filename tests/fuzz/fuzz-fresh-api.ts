/** A fuzz run against an API of its own, with a signed-in merchant who has a link and a key. */
import { startApiWorld } from "../support/api-world.ts";
import { signUp } from "../support/sign-up.ts";
import { type FuzzReport, runFuzz } from "./run-fuzz.ts";

/** `isAlive`, `isSignedIn`: the process and the session were still there afterwards. */
export async function fuzzFreshApi(how: {
  count: number;
  random: () => number;
}): Promise<FuzzReport & { isAlive: boolean; isSignedIn: boolean }> {
  const world = await startApiWorld({ env: { EXPORT_WAIT_MS: "0", PAY_WAIT_MS: "0", LOG_LEVEL: "error" } });
  try {
    const { client } = await signUp(world.baseUrl);
    const link = await client.post("/v1/payment-links", { amount: 1.5, description: "to be fuzzed" });
    const key = await client.post("/v1/api-keys", { name: "to be fuzzed", scopes: ["links:read"] });
    const ids = [link.body.id, key.body.data.id, "exp_AAAAAAAAAAAAAAAAAAAAAA", "pay_AAAAAAAAAAAAAAAAAAAAAA"];
    const cookie = `authToken=${client.cookies.get("authToken")}`;
    const report = await runFuzz({ baseUrl: world.baseUrl, cookie, ids }, how);
    const isAlive = (await client.get("/health/live")).status === 200;
    const isSignedIn = (await client.get("/v1/auth/me")).status === 200;
    return { ...report, isAlive, isSignedIn };
  } finally {
    await world.stop();
  }
}
