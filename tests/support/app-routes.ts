/** Every route of the API, read from the app itself, without a database: for tests that must not miss one. */
import { createApp } from "../../api/app.ts";
import { readApiConfig } from "../../api/config.ts";
import type { ApiDeps } from "../../api/http/deps.ts";
import { openLog } from "../../core/runtime/log.ts";
import { openMetrics } from "../../core/runtime/metrics.ts";

export type AppRoute = { method: string; path: string; needs: string | undefined };

export async function listAppRoutes(): Promise<AppRoute[]> {
  const { app } = await mountApp({ FACILITATOR: "1", TEST_WALLET: `0x${"1".repeat(40)}` });
  return app.routes.map(({ method, path, hooks }) => ({ method, path, needs: hooks.detail?.["x-needs"] }));
}

/** The app with all its routes; they use database, chain and pages only when they are called. */
export async function mountApp(more: Record<string, string> = {}) {
  const deps = await depsOfRoutes(more);
  return { app: createApp(deps), config: deps.config };
}

/** What routes are built from; database, chain and pages are missing. */
export async function depsOfRoutes(more: Record<string, string> = {}): Promise<ApiDeps> {
  const config = readApiConfig({
    NODE_ENV: "test",
    TEST_MODE: "1",
    ...more,
    DATABASE_URL: "postgres://localhost/none",
    JWT_SECRET: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
    OTP_PEPPER: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
    RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:1",
    NETWORKS: "base-sepolia",
  });
  const metrics = openMetrics("api", config.metrics);
  const assets = { pathOf: (name: string) => `/assets/${name}` };
  const deps = { config, metrics, assets, log: openLog("routes", "fatal"), chains: new Map() };
  await metrics.close();
  return deps as unknown as ApiDeps;
}
