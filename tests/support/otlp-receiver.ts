/** A collector of traces: OTLP over HTTP with protobuf bodies, decoded by hand (opentelemetry-proto, trace/v1/trace.proto). */
import { findFreePort } from "../../local/free-port.ts";

export type ReceivedSpan = {
  service: string;
  traceId: string;
  spanId: string;
  parentId: string;
  name: string;
  /** 2: server, 5: consumer. */
  kind: number;
  attributes: Record<string, string | number | boolean>;
  /** 2: error. */
  status: number;
  startNs: bigint;
  endNs: bigint;
};

export type OtlpReceiver = {
  url: string;
  spans: readonly ReceivedSpan[];
  stop(): Promise<void>;
};

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const server = Bun.serve({
    port: await findFreePort(),
    hostname: "127.0.0.1",
    async fetch(request) {
      if (new URL(request.url).pathname !== "/v1/traces") return new Response("", { status: 404 });
      const sent = Buffer.from(await request.arrayBuffer());
      const body =
        request.headers.get("content-encoding") === "gzip" ? Buffer.from(Bun.gunzipSync(sent)) : sent;
      spans.push(...readSpans(body));
      return new Response(new Uint8Array(), { headers: { "content-type": "application/x-protobuf" } });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    spans,
    stop: () => server.stop(true),
  };
}

type Field = { number: number; value: bigint; bytes: Buffer };

/** Fields of a protobuf message, in order. */
function readFields(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (count: number) => {
    at += count;
    return message.subarray(at - count, at);
  };
  while (at < message.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    const none = Buffer.alloc(0);
    if (wire === 0) fields.push({ number: tag >> 3, value: varint(), bytes: none });
    else if (wire === 2) fields.push({ number: tag >> 3, value: 0n, bytes: take(Number(varint())) });
    else if (wire === 1) {
      const bytes = take(8);
      fields.push({ number: tag >> 3, value: bytes.readBigUInt64LE(), bytes });
    } else if (wire === 5) {
      const bytes = take(4);
      fields.push({ number: tag >> 3, value: BigInt(bytes.readUInt32LE()), bytes });
    } else throw new Error(`wire type ${wire} is not of protobuf`);
  }
  return fields;
}

const all = (message: Buffer, number: number) =>
  readFields(message).filter((field) => field.number === number);
const bytesOf = (message: Buffer, number: number) => all(message, number)[0]?.bytes ?? Buffer.alloc(0);
const numberOf = (message: Buffer, number: number) => all(message, number)[0]?.value ?? 0n;

function readSpans(body: Buffer): ReceivedSpan[] {
  return all(body, 1).flatMap(({ bytes: resourceSpans }) => {
    const service = String(readAttributes(bytesOf(resourceSpans, 1), 1)["service.name"]);
    return all(resourceSpans, 2).flatMap(({ bytes }) =>
      all(bytes, 2).map(({ bytes: span }) => ({
        service,
        traceId: bytesOf(span, 1).toString("hex"),
        spanId: bytesOf(span, 2).toString("hex"),
        parentId: bytesOf(span, 4).toString("hex"),
        name: bytesOf(span, 5).toString(),
        kind: Number(numberOf(span, 6)),
        startNs: numberOf(span, 7),
        endNs: numberOf(span, 8),
        attributes: readAttributes(span, 9),
        status: Number(numberOf(bytesOf(span, 15), 3)),
      })),
    );
  });
}

function readAttributes(message: Buffer, number: number): ReceivedSpan["attributes"] {
  return Object.fromEntries(
    all(message, number).map(({ bytes }) => [bytesOf(bytes, 1).toString(), readAny(bytesOf(bytes, 2))]),
  );
}

/** AnyValue: string, bool, int, double. */
function readAny(message: Buffer): string | number | boolean {
  const [field] = readFields(message);
  if (field?.number === 2) return field.value === 1n;
  if (field?.number === 3) return Number(field.value);
  if (field?.number === 4) return field.bytes.readDoubleLE();
  return field?.bytes.toString() ?? "";
}
