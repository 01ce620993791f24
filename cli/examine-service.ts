/** Checks the service from a caller's view; each finding has its fix. */
import type { Settings } from "./settings.ts";

export type Finding = {
  /** `fault`: calls would fail, or not safely. `advice`: something may be missing. */
  level: "fault" | "advice" | "good";
  subject: "address" | "service" | "clock" | "key" | "payer";
  text: string;
  fix?: string;
};

const TIMEOUT_MS = 10_000;
/** Timestamps of webhooks and authorizations that are minutes off are refused. */
const CLOCK_MAX_S = 30;
const API_KEY = /^sk_[A-Za-z0-9_-]{20,100}$/;
const NO_LINK = "link_AAAAAAAAAAAAAAAAAAAAAA";

/** A harmless call per scope: access is checked before anything else. */
const PROBES = [
  ["links:read", "GET", "/v1/payment-links?limit=1"],
  ["links:write", "POST", "/v1/payment-links"],
  ["transactions:read", "GET", "/v1/transactions?limit=1"],
  ["exports", "GET", "/v1/transactions/exports"],
  ["webhooks", "GET", "/v1/events?limit=1"],
  ["refunds:request", "POST", `/v1/payment-links/${NO_LINK}/refund-requests`],
] as const;

export async function examineService(settings: Settings): Promise<Finding[]> {
  const address = examineAddress(settings.url);
  if (address.level === "fault") return [address];
  const reached = await reach(settings.url);
  if ("level" in reached) return [address, reached];
  return [
    ...[address, await examineHealth(reached.answer), examineClock(reached)],
    ...(await examineKey(settings)),
    ...examinePayer(settings.payerKey),
  ];
}

function examineAddress(url: string): Finding {
  const { protocol, hostname } = new URL(url);
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(hostname) || hostname.endsWith(".localhost");
  if (protocol === "https:" || isLocal) return { level: "good", subject: "address", text: url };
  return {
    ...{
      level: "fault",
      subject: "address",
      text: `${url} is not https: the API key would be sent unencrypted`,
    },
    fix: `Set SERVICE_URL to ${url.replace("http:", "https:")}`,
  };
}

type Reached = { answer: Response; sentMs: number; receivedMs: number };

async function reach(url: string): Promise<Reached | Finding> {
  const sentMs = Date.now();
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { answer, sentMs, receivedMs: Date.now() };
  } catch (error) {
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? cause.message : message;
    return {
      ...{ level: "fault", subject: "service", text: `${url} does not answer: ${reason}` },
      fix: "Start it with `npm start`, or set SERVICE_URL to its address",
    };
  }
}

async function examineHealth(answer: Response): Promise<Finding> {
  const body = (await answer.json().catch(() => undefined)) as
    | { service?: string; version?: string; checks?: Record<string, { status: string; error?: string }> }
    | undefined;
  if (!body?.checks)
    return {
      ...{
        level: "fault",
        subject: "service",
        text: `something other than the service responds there (${answer.status})`,
      },
      fix: "Set SERVICE_URL to the service's BASE_URL",
    };
  const bad = Object.entries(body.checks).filter(([, { status }]) => status !== "healthy");
  if (bad.length === 0)
    return { level: "good", subject: "service", text: `healthy, version ${body.version}` };
  const text = bad.map(([name, { error }]) => `${name}: ${error ?? "unhealthy"}`).join("; ");
  return { level: "fault", subject: "service", text, fix: "Run `npm run doctor` on the service's machine" };
}

function examineClock({ answer, sentMs, receivedMs }: Reached): Finding {
  const thereMs = Date.parse(answer.headers.get("date") ?? "");
  if (Number.isNaN(thereMs))
    return { level: "advice", subject: "clock", text: "the service sent no Date header" };
  // the header is cut to the second
  const offS = Math.max(sentMs - thereMs - 1_000, thereMs - receivedMs, 0) / 1_000;
  if (offS <= CLOCK_MAX_S) return { level: "good", subject: "clock", text: "agrees with the service's" };
  return {
    ...{ level: "fault", subject: "clock", text: `${Math.round(offS)} s away from the service's` },
    fix: "Synchronise this machine's clock (NTP): it dates signed payments and decides which webhooks are refused as too old",
  };
}

async function examineKey({ url, apiKey }: Settings): Promise<Finding[]> {
  const make = `Create one at ${url}/developers/keys and set API_KEY`;
  if (apiKey === undefined)
    return [{ level: "advice", subject: "key", text: "API_KEY is not set", fix: make }];
  if (!API_KEY.test(apiKey))
    return [
      { level: "fault", subject: "key", text: "API_KEY is not a key: a key begins with sk_", fix: make },
    ];
  const allowed: string[] = [];
  const missing: string[] = [];
  for (const [scope, method, path] of PROBES) {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      // refused by its contents, once access is granted
      ...(method === "POST" ? { body: '{"amount":0}' } : {}),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => undefined);
    const status = answer?.status;
    if (status === undefined || status === 429 || status >= 500) {
      const text = `its scopes are unknown: ${path} was answered ${status ?? "nothing"}`;
      return [{ level: "advice", subject: "key", text, fix: "Run `doctor` again in a minute" }];
    }
    if (status === 401)
      return [
        {
          level: "fault",
          subject: "key",
          text: "the service does not know API_KEY, or it was revoked",
          fix: make,
        },
      ];
    (status === 403 ? missing : allowed).push(scope);
  }
  const good: Finding = { level: "good", subject: "key", text: `may ${allowed.join(", ") || "nothing"}` };
  if (missing.length === 0) return [good];
  const text = `lacks ${missing.join(", ")}`;
  return [
    good,
    {
      level: "advice",
      subject: "key",
      text,
      fix: "A key's scopes cannot be changed: create another key for more",
    },
  ];
}

function examinePayer(key: string | undefined): Finding[] {
  if (key === undefined) return [];
  if (/^0x[0-9a-fA-F]{64}$/.test(key))
    return [{ level: "good", subject: "payer", text: "PAYER_PRIVATE_KEY is set" }];
  return [
    {
      level: "fault",
      subject: "payer",
      text: "PAYER_PRIVATE_KEY is not 0x and 64 hex digits",
      fix: "Correct it; it is never printed",
    },
  ];
}
