/** `listen --forward URL`: the account's events to a program on this machine, signed like webhooks. Nothing is stored and nothing is retried. */
import type { Event } from "../sdk/wire.ts";
import { parseCount, UsageError } from "./arguments.ts";
import { formatTime, type Output } from "./output.ts";
import { plain } from "./plain-text.ts";
import type { Command } from "./settings.ts";
import { newSecret, parseSecret, signMessage } from "./sign-message.ts";

const FORWARD_TIMEOUT_MS = 15_000;
/** The form only: a later version of the service has more types. */
const EVENT_TYPE = /^[a-z_]+\.[a-z_]+$/;

type Delivery = {
  eventId: string;
  type: string;
  subjectId: string;
  status?: number;
  error?: string;
  ms: number;
};

export const listen: Command = async (given, { service, url }, output) => {
  const target = given.text("forward");
  if (target !== undefined && !(/^https?:\/\//.test(target) && URL.canParse(target)))
    throw new UsageError(`--forward must be a URL that begins with http:// or https://, not ${target}`);
  const types = given
    .text("events")
    ?.split(",")
    .map((type) => type.trim());
  const unknown = types?.find((type) => !EVENT_TYPE.test(type));
  if (unknown !== undefined)
    throw new UsageError(`--events must be types such as payment_link.paid, not ${unknown || "nothing"}`);
  const count = given.text("count");
  const cursor = given.text("cursor");
  const secretGiven = given.text("secret");
  const secret = secretGiven === undefined ? newSecret() : parseSecret(secretGiven);
  let left =
    count === undefined ? Number.POSITIVE_INFINITY : parseCount(count, "count", Number.MAX_SAFE_INTEGER);
  // the stream reconnects silently: a wrong address or key is reported at the start
  await service.events.page({ limit: 1 });
  const stop = new AbortController();
  const end = () => stop.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
  announce(output, { url, target, secret: secretGiven === undefined ? secret : undefined });
  try {
    const stream = service.events.stream({
      signal: stop.signal,
      cursor,
    });
    for await (const { event, cursor: position } of stream) {
      if (types && !types.includes(event.type)) continue;
      const delivery = await deliver(event, { target, secret, signal: stop.signal });
      print(output, event, delivery, position);
      left -= 1;
      if (left === 0) break;
    }
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, end);
    stop.abort();
  }
  return 0;
};

function announce(
  output: Output,
  { url, target, secret }: { url: string; target: string | undefined; secret: string | undefined },
): void {
  output.note(`Events of ${url}${target === undefined ? "" : ` go to ${target}`}. Ctrl-C ends.`);
  if (secret !== undefined && target !== undefined) output.note(`Signed with ${secret}`);
}

async function deliver(
  event: Event,
  { target, secret, signal }: { target: string | undefined; secret: string; signal: AbortSignal },
): Promise<Delivery> {
  const startedMs = performance.now();
  const facts = { eventId: event.id, type: event.type, subjectId: event.subjectId };
  const elapsed = () => Math.round(performance.now() - startedMs);
  if (target === undefined) return { ...facts, ms: 0 };
  try {
    const answer = await fetch(target, {
      method: "POST",
      ...signMessage(event, { secret }),
      // redirects are not followed, as with webhooks
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(FORWARD_TIMEOUT_MS)]),
    });
    await answer.body?.cancel();
    return { ...facts, status: answer.status, ms: elapsed() };
  } catch (error) {
    return { ...facts, error: error instanceof Error ? error.message : String(error), ms: elapsed() };
  }
}

function print(output: Output, event: Event, delivery: Delivery, cursor: string | undefined): void {
  // one event per line, for programs that read them as they arrive
  if (output.isJson) {
    output.line(JSON.stringify({ ...delivery, cursor, event }));
    return;
  }
  const { status, error, ms } = delivery;
  const outcome = status === undefined ? (error ?? "") : `${status} in ${ms} ms`;
  const time = formatTime(event.createdAt).slice(11);
  output.line(plain(`${time}  ${event.type.padEnd(24)}  ${event.subjectId}  ${outcome}`).trimEnd());
}
