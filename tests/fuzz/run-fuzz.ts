/** Sends seeded malformed requests to a running API and collects what was wrong with the answers. */
import { z } from "zod";
import { checkAnswer, type Seen } from "./check-answer.ts";
import { type FuzzRequest, type JsonSchema, makeRequest, type Route } from "./make-request.ts";

const CONNECTIONS = 16;
const REQUEST_TIMEOUT_MS = 30_000;
const FAULTS_KEPT = 50;

export type FuzzReport = {
  requests: number;
  statuses: Record<number, number>;
  p99Ms: number;
  maxMs: number;
  faults: { request: FuzzRequest; fault: string; answer: string }[];
};

const documentSchema = z.object({
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.object({
        requestBody: z
          .object({ content: z.record(z.string(), z.object({ schema: z.custom<JsonSchema>() })) })
          .optional(),
      }),
    ),
  ),
});

/** The documented routes with the schemas of their bodies. */
export async function readRoutes(baseUrl: string): Promise<Route[]> {
  const { paths } = documentSchema.parse(await (await fetch(`${baseUrl}/openapi-full.json`)).json());
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      method,
      path,
      body: operation.requestBody?.content["application/json"]?.schema,
    })),
  );
}

export async function runFuzz(
  target: { baseUrl: string; cookie: string; ids: readonly string[] },
  { count, random }: { count: number; random: () => number },
): Promise<FuzzReport> {
  const routes = await readRoutes(target.baseUrl);
  const requests = Array.from({ length: count }, () => makeRequest(routes, target.ids, random));
  const report: FuzzReport = { requests: 0, statuses: {}, p99Ms: 0, maxMs: 0, faults: [] };
  const times: number[] = [];
  const next = requests.values();
  const work = async () => {
    for (const request of next) {
      const seen = await send(target, request);
      report.requests += 1;
      report.statuses[seen.status] = (report.statuses[seen.status] ?? 0) + 1;
      times.push(seen.ms);
      for (const fault of checkAnswer(request.path, seen))
        if (report.faults.length < FAULTS_KEPT)
          report.faults.push({ request: shorten(request), fault, answer: seen.text.slice(0, 300) });
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  times.sort((a, b) => a - b);
  report.p99Ms = times[Math.floor(times.length * 0.99)] ?? 0;
  report.maxMs = times.at(-1) ?? 0;
  return report;
}

async function send(target: { baseUrl: string; cookie: string }, request: FuzzRequest): Promise<Seen> {
  const started = performance.now();
  const headers = new Headers(request.headers);
  if (request.isSignedIn && !headers.has("cookie")) headers.set("cookie", target.cookie);
  try {
    const response = await fetch(`${target.baseUrl}${request.path}`, {
      method: request.method,
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      ...(request.body === undefined ? {} : { body: request.body }),
    });
    // An event stream stays open on purpose; its head is all there is to check.
    const isStream = response.headers.get("content-type")?.includes("event-stream");
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await response.text();
    return { status: response.status, text, headers: response.headers, ms: performance.now() - started };
  } catch (error) {
    const text = `no answer: ${error instanceof Error ? error.message : String(error)}`;
    return { status: 599, text, headers: new Headers(), ms: performance.now() - started };
  }
}

function shorten(request: FuzzRequest): FuzzRequest {
  const headers = Object.entries(request.headers).map(([name, value]) => [name, value.slice(0, 100)]);
  return {
    ...request,
    path: request.path.slice(0, 200),
    headers: Object.fromEntries(headers),
    body: request.body?.slice(0, 300),
  };
}
