/** Liveness, readiness and component health. Public, unlimited and cheap: the checks are shared. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { ApiDeps } from "../http/deps.ts";
import { errorBody, errorResponses, isoTime } from "../http/envelope.ts";
import { requestContext } from "../http/request-context.ts";
import { openHealth } from "./report.ts";

const status = z.enum(["healthy", "unhealthy"]);

const report = z
  .object({
    status,
    timestamp: isoTime,
    service: z.string(),
    version: z.string(),
    checks: z.record(
      z.string(),
      z.object({
        status,
        error: z.string().optional(),
        details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
      }),
    ),
  })
  .meta({ id: "HealthReport" });

const tags = ["Health"];

export const healthRoutes = (deps: ApiDeps) => {
  const examine = openHealth(deps);
  return new Elysia({ name: "health-routes" })
    .use(requestContext(deps))
    .get("/health", async () => examine(), {
      response: { 200: report, ...errorResponses() },
      detail: { operationId: "getHealth", summary: "The state of every component", tags },
    })
    .get(
      "/health/ready",
      async ({ requestId, status: answer }) => {
        if (deps.drain.isDraining)
          return answer(
            500,
            errorBody(requestId, "INTERNAL_ERROR", "Not ready: stopping", { unhealthy: [] }),
          );
        const { status: state, timestamp, checks } = await examine();
        if (state === "healthy") return { status: "ready" as const, timestamp };
        const unhealthy = Object.keys(checks).filter((name) => checks[name]?.status === "unhealthy");
        const message = `Not ready: ${unhealthy.join(", ")}`;
        return answer(500, errorBody(requestId, "INTERNAL_ERROR", message, { unhealthy }));
      },
      {
        response: { 200: z.object({ status: z.literal("ready"), timestamp: isoTime }), ...errorResponses() },
        detail: {
          operationId: "getReadiness",
          summary: "Readiness: 500 when a critical component is unavailable or the process is stopping",
          tags,
        },
      },
    )
    .get(
      "/health/live",
      () => ({ status: "alive" as const, timestamp: new Date().toISOString(), uptime: process.uptime() }),
      {
        response: {
          200: z.object({ status: z.literal("alive"), timestamp: isoTime, uptime: z.number() }),
          ...errorResponses(),
        },
        detail: { operationId: "getLiveness", summary: "Liveness of the process", tags },
      },
    );
};
