/** The public origin: its name resolves, its certificate is trusted and fresh, and what answers there is this service. */
import { resolve4, resolve6 } from "node:dns/promises";
import { connect } from "node:tls";
import { isOnThisMachine } from "../../core/runtime/public-url.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import type { Configuration } from "./read-configuration.ts";

const TIMEOUT_MS = 5_000;
/** Of a certificate's life. Caddy and certbot renew it when a third is left. */
const CERTIFICATE_LIFE_MIN = 0.2;
const DAY_MS = 86_400_000;
const CLOCK_SKEW_MAX_MS = 5_000;

export async function checkDomain({ api }: Configuration): Promise<Finding[]> {
  if (api?.nodeEnv !== "production") return [];
  const url = new URL(api.baseUrl);
  const rp = good("domain", `passkeys are permanently bound to "${api.passkey.rpId}"; keep that domain`);
  if (!isOnThisMachine(url.href) && !(await resolves(url.hostname)))
    return [
      rp,
      fault(
        "domain",
        `the name ${url.hostname} does not resolve: add an A or AAAA record with this server's address`,
      ),
    ];
  if (url.protocol !== "https:") return [rp];
  const certificate = await readCertificate(url);
  if (certificate.kind === "unreachable")
    return [
      rp,
      advice(
        "domain",
        `nothing responds at ${url.origin} yet (${certificate.reason}): start the reverse proxy; browsers reach the service through it`,
      ),
    ];
  if (certificate.kind === "untrusted")
    return [
      rp,
      fault(
        "domain",
        `browsers will refuse the certificate of ${url.host}: ${certificate.reason}; get one for this name (Caddy does so automatically)`,
      ),
    ];
  const { leftMs, lifeMs } = certificate;
  const left =
    leftMs < 2 * DAY_MS ? `${Math.floor(leftMs / 3_600_000)} hours` : `${Math.floor(leftMs / DAY_MS)} days`;
  const term =
    leftMs < CERTIFICATE_LIFE_MIN * lifeMs
      ? advice("domain", `the certificate of ${url.host} expires in ${left}: find out why it is not renewed`)
      : good("domain", `the certificate of ${url.host} is valid for ${left}`);
  return [rp, term, ...(await checkAnswer(url))];
}

async function resolves(hostname: string): Promise<boolean> {
  const found = await Promise.allSettled([resolve4(hostname), resolve6(hostname)]);
  return found.some(({ status }) => status === "fulfilled");
}

type Certificate =
  | { kind: "unreachable"; reason: string }
  | { kind: "untrusted"; reason: string }
  | { kind: "valid"; leftMs: number; lifeMs: number };

function readCertificate({ hostname, port }: URL): Promise<Certificate> {
  return new Promise((resolve) => {
    const socket = connect(
      { host: hostname, port: Number(port || 443), servername: hostname, rejectUnauthorized: false },
      () => {
        const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
        const reason = socket.authorizationError;
        socket.destroy();
        if (reason) return resolve({ kind: "untrusted", reason: String(reason) });
        const endMs = Date.parse(to);
        resolve({ kind: "valid", leftMs: endMs - Date.now(), lifeMs: endMs - Date.parse(from) });
      },
    );
    socket.setTimeout(TIMEOUT_MS, () => {
      socket.destroy();
      resolve({ kind: "unreachable", reason: `no answer within ${TIMEOUT_MS / 1000} s` });
    });
    socket.on("error", (error: NodeJS.ErrnoException) =>
      resolve({ kind: "unreachable", reason: error.code ?? error.message }),
    );
  });
}

async function checkAnswer({ origin }: URL): Promise<Finding[]> {
  const beganMs = Date.now();
  try {
    const response = await fetch(`${origin}/health/live`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = (await response.json().catch(() => undefined)) as { status?: unknown } | undefined;
    if (body?.status !== "alive")
      return [
        response.status >= 502
          ? advice(
              "domain",
              `${origin} responds, but the api behind it does not (${response.status}): start the api`,
            )
          : fault(
              "domain",
              `${origin} is answered by something else: make the proxy pass every path to the api`,
            ),
      ];
    return [good("domain", `${origin} leads to this service`), ...clockOf(response, beganMs)];
  } catch (error) {
    return [advice("domain", `${origin}/health/live did not answer: ${String(error)}`)];
  }
}

/** The Date header has whole seconds. */
function clockOf(response: Response, beganMs: number): Finding[] {
  const dateMs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(dateMs)) return [];
  const skewMs = dateMs - beganMs;
  if (Math.abs(skewMs) < CLOCK_SKEW_MAX_MS + TIMEOUT_MS) return [];
  return [
    fault(
      "clock",
      `the proxy's clock differs from this machine's by ${Math.round(Math.abs(skewMs) / 1000)} s: synchronise both with NTP`,
    ),
  ];
}
