/** `links create`, `links list`, `links cancel`. */
import type { Operations, PaymentLink } from "../sdk/wire.ts";
import { parseCount, parseUsdc, UsageError } from "./arguments.ts";
import { formatTime, formatUsdc, printFacts, printTable } from "./output.ts";
import { type Command, parseLink } from "./settings.ts";

type NewLink = Operations["createPaymentLink"]["body"];
type Query = Operations["listPaymentLinks"]["query"];

const LISTED_DEFAULT = 20;
const LISTED_MAX = 1_000;
const PAGE_MAX = 100;
const EXPIRES_MAX_HOURS = 2_160;

export const createLink: Command = async (given, { service }, output) => {
  const expires = given.text("expires-in");
  const pairs = given.all("metadata").map(parsePair);
  const metadata = Object.fromEntries(pairs);
  const twice = pairs.find(([key], at) => pairs.findIndex(([first]) => first === key) < at);
  if (twice) throw new UsageError(`--metadata gives the key ${twice[0]} twice`);
  const body = {
    amount: parseUsdc(given.need("amount"), "amount"),
    description: given.need("description"),
    ...optional("reference", given.text("reference")),
    ...optional("network", given.text("network")),
    ...optional("customerEmail", given.text("email")),
    ...(expires === undefined
      ? {}
      : { expiresInHours: parseCount(expires, "expires-in", EXPIRES_MAX_HOURS) }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  } as NewLink;
  const link = await service.links.create(body, { idempotencyKey: parseKey(given.text("idempotency-key")) });
  output.value(link, () => facts(link));
  return 0;
};

export const listLinks: Command = async (given, { service }, output) => {
  const limit = parseCount(given.text("limit") ?? String(LISTED_DEFAULT), "limit", LISTED_MAX);
  const query = {
    ...optional("status", given.text("status")?.toUpperCase()),
    ...optional("reference", given.text("reference")),
    limit: Math.min(limit, PAGE_MAX),
  } as Query;
  const links: PaymentLink[] = [];
  for await (const link of service.links.list(query)) {
    links.push(link);
    if (links.length >= limit) break;
  }
  output.value(links, () =>
    links.length === 0
      ? "No links."
      : printTable(links, [
          { title: "LINK", read: ({ id }) => id },
          { title: "STATUS", read: ({ status }) => status },
          { title: "USDC", read: amountOf, isRight: true },
          { title: "CREATED", read: ({ createdAt }) => formatTime(createdAt).slice(0, 10) },
          { title: "DESCRIPTION", read: nameOf, isFlexible: true },
        ]),
  );
  return 0;
};

export const cancelLink: Command = async (given, settings, output) => {
  const link = await settings.service.links.cancel(parseLink(given.positionals[0] ?? "", settings));
  output.value(link, () => facts(link));
  return 0;
};

function facts(link: PaymentLink): string {
  return printFacts([
    ["Link", link.id],
    ["Status", statusOf(link)],
    ["Amount", `${amountOf(link)} USDC on ${link.network}`],
    ["For", link.description],
    ["Reference", link.reference],
    ["Expires", formatTime(link.expiresAt)],
    ["People pay at", link.url],
    ["Agents pay at", link.aiUrl],
  ]);
}

const statusOf = ({ status, exception }: PaymentLink) =>
  exception === "NONE" ? status : `${status} (${exception})`;

function amountOf({ amount, minAmount, maxAmount }: PaymentLink): string {
  if (amount !== null) return formatUsdc(amount);
  const [from, to] = [minAmount, maxAmount].map((one) => (one === null ? "" : formatUsdc(one)));
  return `${from}–${to}`;
}

/** What needs attention comes first, since the end may be truncated. */
const nameOf = ({ description, reference, exception }: PaymentLink) =>
  [exception === "NONE" ? "" : `${exception}!`, reference ?? "", description].filter(Boolean).join(" ");

function optional<Name extends string>(name: Name, value: string | undefined) {
  return value === undefined ? {} : { [name]: value };
}

/** A header cannot hold other characters: without this check the service would seem unreachable. */
function parseKey(text: string | undefined): string | undefined {
  if (text === undefined || /^[\x20-\x7e]{1,255}$/.test(text)) return text;
  throw new UsageError("--idempotency-key must be 1 to 255 printable ASCII characters");
}

function parsePair(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`--metadata must be KEY=VALUE, not ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}
