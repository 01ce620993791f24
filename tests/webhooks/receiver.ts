/** A merchant's webhook server: records messages, checks signatures by the standard, and misbehaves on request. */
import { createHmac, timingSafeEqual } from "node:crypto";

export type Received = {
  id: string;
  timestampS: number;
  signatures: string[];
  body: string;
  // the shape is what is under test
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects to be there
  json: any;
  headers: Headers;
};

export type Receiver = {
  url: string;
  received: Received[];
  /** Its responses from now on. */
  answer: (respond: (message: Received) => Response | Promise<Response>) => void;
  /** Requests in progress, and their maximum. */
  inFlight: () => { now: number; most: number };
  stop: () => Promise<void>;
};

export function startReceiver(port = 0): Receiver {
  const received: Received[] = [];
  let respond: (message: Received) => Response | Promise<Response> = () => new Response("ok");
  let now = 0;
  let most = 0;
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    fetch: async (request) => {
      now += 1;
      most = Math.max(most, now);
      let isOver = false;
      const end = () => {
        if (!isOver) now -= 1;
        isOver = true;
      };
      // a sender that has given up has its place free, whatever is answered in the end
      request.signal.addEventListener("abort", end);
      try {
        const body = await request.text();
        const message = {
          id: request.headers.get("webhook-id") ?? "",
          timestampS: Number(request.headers.get("webhook-timestamp")),
          signatures: (request.headers.get("webhook-signature") ?? "").split(" "),
          body,
          json: JSON.parse(body),
          headers: request.headers,
        };
        received.push(message);
        return await respond(message);
      } finally {
        end();
      }
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/hook?x=1`,
    received,
    answer: (next) => {
      respond = next;
    },
    inFlight: () => ({ now, most }),
    stop: async () => {
      await server.stop(true);
    },
  };
}

/** Whether a request begins with this piece: it may come in several. */
export const begins = (piece: Buffer): boolean => piece.toString("latin1").startsWith("POST ");

/** Standard Webhooks 1.0.0, "Verifying signatures". */
export function isSigned(message: Received, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key)
    .update(`${message.id}.${message.timestampS}.${message.body}`)
    .digest();
  const isFresh = Math.abs(Date.now() / 1000 - message.timestampS) < 300;
  return (
    isFresh &&
    message.signatures.some((signature) => {
      const [version, encoded = ""] = signature.split(",");
      const given = Buffer.from(encoded, "base64");
      return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
    })
  );
}
