/** Options of each command, parsed strictly: an unknown one is an error, so a typo never goes unnoticed. */
import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

export class UsageError extends Error {
  override readonly name = "UsageError";
}

export type Given = {
  positionals: readonly string[];
  text: (name: string) => string | undefined;
  /** Throws UsageError when it is missing. */
  need: (name: string) => string;
  all: (name: string) => readonly string[];
  has: (name: string) => boolean;
};

const text = { type: "string" } as const;
const texts = { type: "string", multiple: true } as const;
const yes = { type: "boolean" } as const;
const COMMON = { json: yes, url: text } satisfies ParseArgsOptionsConfig;

const OPTIONS: Readonly<Record<string, ParseArgsOptionsConfig>> = {
  "links create": {
    amount: text,
    description: text,
    reference: text,
    network: text,
    email: text,
    "expires-in": text,
    metadata: texts,
    "idempotency-key": text,
  },
  "links list": { status: text, reference: text, limit: text },
  "links cancel": {},
  pay: { test: yes, max: text, amount: text },
  listen: { forward: text, events: text, secret: text, cursor: text, count: text },
  export: {
    format: text,
    out: text,
    profile: text,
    from: text,
    to: text,
    status: texts,
    "time-zone": text,
  },
  doctor: {},
  send: { prepare: yes, to: text, amount: text, note: text, network: text },
  mcp: {},
};
/** Commands that take exactly one argument. */
const ARGUMENTS: Readonly<Record<string, string>> = { "links cancel": "LINK", pay: "LINK" };

export function parseCommand(name: string, args: readonly string[]): Given {
  const { values, positionals } = parse(name, args);
  const wanted = ARGUMENTS[name] === undefined ? 0 : 1;
  if (positionals.length < wanted) throw new UsageError(`${name} needs ${ARGUMENTS[name]}`);
  if (positionals.length > wanted)
    throw new UsageError(`${name} takes no more arguments: ${positionals[wanted]}`);
  const one = (option: string) => values[option];
  return {
    positionals,
    text: (option) => toText(one(option)),
    need(option) {
      const value = toText(one(option));
      if (value === undefined || value === "") throw new UsageError(`${name} needs --${option}`);
      return value;
    },
    all: (option) => [one(option) ?? []].flat().map(String),
    has: (option) => one(option) === true,
  };
}

function parse(name: string, args: readonly string[]) {
  const options: ParseArgsOptionsConfig = { ...COMMON, ...OPTIONS[name] };
  const { tokens, ...parsed } = parseStrictly(args, options);
  // the last of two would win: of two limits of a payment, say, the higher one
  const given = tokens.flatMap((token) => (token.kind === "option" ? [token.name] : []));
  const twice = given.find((one, at) => options[one]?.multiple !== true && given.indexOf(one) < at);
  if (twice !== undefined) throw new UsageError(`--${twice} is given twice`);
  return parsed;
}

function parseStrictly(args: readonly string[], options: ParseArgsOptionsConfig) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true, tokens: true });
  } catch (cause) {
    throw new UsageError((cause as Error).message.split(". To specify")[0] ?? "", { cause });
  }
}

function toText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

const USDC = /^\d{1,12}(\.\d{1,6})?$/;

/** USDC in the service's format. */
export function parseUsdc(given: string, option: string): number {
  if (!USDC.test(given) || Number(given) === 0)
    throw new UsageError(`--${option} must be an amount in USDC, for example 12.50, not ${given}`);
  return Number(given);
}

/** `max` has at most 15 digits. */
export function parseCount(given: string, option: string, max: number): number {
  if (/^[1-9]\d{0,14}$/.test(given) && Number(given) <= max) return Number(given);
  throw new UsageError(`--${option} must be a whole number from 1 to ${max}, not ${given}`);
}
