/** Reads the environment once, at startup. Reports all errors together and never prints a secret. */
import { accessSync, constants } from "node:fs";
import { isIP } from "node:net";
import { z } from "zod";
import { readFileVariables } from "./file-variables.ts";

export class EnvError extends Error {
  /** One sentence each, starting with the variable's name. */
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`the environment has ${countOf(faults)}:\n${faults.map((fault) => `  - ${fault}`).join("\n")}`);
    this.name = "EnvError";
    this.faults = faults;
  }
}

const countOf = ({ length }: readonly string[]) => (length === 1 ? "1 fault" : `${length} faults`);

type Environment = Record<string, string | undefined>;
type Parsed<Shape extends z.ZodRawShape> = z.infer<z.ZodObject<Shape>>;

/**
 * Parses `source` (by default the process's environment) by a flat zod schema; an empty variable counts as absent, and `NAME_FILE` names
 * a file with the value of `NAME`. `findFaults` checks variables together; those that failed to parse are absent there, and named in
 * `broken`. Throws EnvError naming all faults.
 */
export function readEnv<Shape extends z.ZodRawShape>(
  shape: Shape,
  source: Environment = process.env,
  findFaults: (env: Partial<Parsed<Shape>>, broken: ReadonlySet<string>) => readonly string[] = () => [],
): Parsed<Shape> {
  const { values: given, ...files } = readFileVariables(Object.keys(shape), source);
  const parsed = z.object(shape).safeParse(given);
  const broken = new Set(files.broken);
  const faults = [...files.faults];
  for (const issue of parsed.success ? [] : parsed.error.issues) {
    const name = String(issue.path[0]);
    // one sentence for a variable: its first fault, or that its file could not be read
    if (!broken.has(name)) faults.push(describeIssue(issue, given));
    broken.add(name);
  }
  faults.push(...findFaults(parsed.success ? parsed.data : parseEach(shape, given), broken));
  if (faults.length > 0 || !parsed.success) throw new EnvError(faults);
  return parsed.data;
}

function describeIssue(issue: z.core.$ZodIssue, given: Environment): string {
  const [name = ""] = issue.path.map(String);
  if (issue.code === "invalid_value") return `${name}: must be one of ${issue.values.join(", ")}`;
  return given[name] === undefined ? `${name} is not set; ${issue.message}` : `${name}: ${issue.message}`;
}

/** The variables that parse, when some do not. */
function parseEach<Shape extends z.ZodRawShape>(shape: Shape, given: Environment): Partial<Parsed<Shape>> {
  const entries = Object.keys(shape).flatMap((name) => {
    const parsed = z.object({ [name]: shape[name] as z.ZodType }).safeParse(given);
    return parsed.success ? Object.entries(parsed.data) : [];
  });
  return Object.fromEntries(entries) as Partial<Parsed<Shape>>;
}

export const flag = z.enum(["0", "1", "true", "false"]).transform((text) => text === "1" || text === "true");

/** "a, b" as ["a", "b"]. */
export const commaList = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

/** Of a list that must have an item. */
export const EMPTY_LIST = "must have at least one item, and has only commas";

export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be between ${min} and ${max}`);

const SECRET_MIN_CHARS = 32;
const KEYS_MAX = 10;

/** Secrets of at least 32 bytes, newest first, for rotation. `use` describes their purpose: "it signs session tokens". */
export const secretList = (use: string) =>
  z
    .string({ error: `${use}. Make one with \`openssl rand -hex 32\`` })
    .pipe(commaList)
    .refine(
      (keys) => keys.length > 0 && keys.every((key) => key.length >= SECRET_MIN_CHARS),
      "must be at least 32 bytes, and so must each item of a comma-separated list; make one with `openssl rand -hex 32`",
    )
    .refine((keys) => keys.length <= KEYS_MAX, `must be at most ${KEYS_MAX} keys`)
    .transform((keys) => keys as [string, ...string[]]);

/** Of a standby; several hosts may be named. */
export const standbyUrl = z
  .string({ error: "it names the Postgres to use, for example postgres://user@127.0.0.1:5432/payments" })
  .regex(/^postgres(ql)?:\/\//, "must begin with postgres://")
  .refine(
    isPostgresUrl,
    "must be a URL, for example postgres://user@127.0.0.1:5432/payments; in a password, write % as %25 and / as %2F",
  )
  .refine(
    (text) => !isPostgresUrl(text) || hostOf(text) !== "",
    "must name the host, for example postgres://user@127.0.0.1:5432/payments",
  )
  .superRefine((text, context) => {
    const message = tlsFault(text);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  });

/** One host: neither the job queue's driver nor migrations read a list. */
export const postgresUrl = standbyUrl.refine(
  (text) => !isPostgresUrl(text) || namesOneHost(text),
  "must name a single host; if the primary can change, use a proxy that leads to it (deploy/ha)",
);

/** "true", "false" and "no-verify" are the drivers' own. */
const SSL_MODES = ["disable", "require", "verify-ca", "verify-full", "true", "false", "1", "0", "no-verify"];

/** What of an address's encryption cannot be used; db/postgres/address.ts reads it. */
function tlsFault(text: string): string | undefined {
  const given = new URLSearchParams(text.split(/\?(.*)/s)[1]);
  const mode = given.get("sslmode") ?? given.get("ssl") ?? "disable";
  if (!SSL_MODES.includes(mode))
    return `its sslmode must be one of ${SSL_MODES.slice(0, 4).join(", ")}, and is "${mode}"`;
  const file = ["sslrootcert", "sslcert", "sslkey"]
    .map((name) => ({ name, path: given.get(name) }))
    .find(({ path }) => path !== null && path !== "system" && !isReadable(path));
  return file && `its ${file.name} is "${file.path}", which this user cannot read`;
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** As the driver reads it: decoded, and of several hosts (`a:5432,b:5432`) only the first is part of the URL. */
function isPostgresUrl(text: string): boolean {
  try {
    decodeURIComponent(text);
  } catch {
    return false;
  }
  return hostOf(text) !== undefined;
}

/** Hosts without ports (`a,b`) are a host's name to the parser, and to the drivers a name that does not resolve. */
function namesOneHost(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && !`${url.hostname}${url.searchParams.get("host") ?? ""}`.includes(",");
}

/** The first host, or the folder of its socket (`?host=`); empty when the URL names neither, undefined when it is none. */
function hostOf(text: string): string | undefined {
  const url = URL.parse(text.replace(/,[^@/?]*(?=[/?]|$)/, ""));
  return url === null ? undefined : url.hostname || (url.searchParams.get("host") ?? "");
}

/** Where a server listens: an address, or a name of this machine. */
export const listenHost = z
  .string()
  .refine(
    (text) => isIP(text) !== 0 || (/^[a-z0-9.-]+$/i.test(text) && URL.canParse(`http://${text}`)),
    "must be an address or a host name, for example 127.0.0.1",
  );

/** Variables every process reads. */
export const processShape = {
  NODE_ENV: z.enum(["development", "test", "production"]).default("development"),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
  DATABASE_URL: postgresUrl,
  METRICS_PORT: wholeNumber(0, 65_535).optional(),
  METRICS_HOST: listenHost.default("127.0.0.1"),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .refine((text) => URL.canParse(text), "must be a URL, for example http://127.0.0.1:4318")
    .optional(),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0(\.\d+)?|1(\.0+)?)$/, "must be a number from 0 to 1, for example 0.1")
    .transform(Number)
    .default(1),
} as const;

/** Where a process exports its traces, and how many of them. */
export function tracesPlace(env: {
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
  OTEL_TRACES_SAMPLER_ARG: number;
}) {
  return { endpoint: env.OTEL_EXPORTER_OTLP_ENDPOINT, sampledShare: env.OTEL_TRACES_SAMPLER_ARG };
}

/** Ends a process with an invalid environment with one readable message instead of a stack trace. */
export function readEnvOrExit<Config>(read: () => Config): Config {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EnvError)) throw error;
    return exitMisconfigured(error.message);
  }
}

/** Ends the process for an error that only the operator can correct. */
export function exitMisconfigured(message: string): never {
  console.error(message);
  process.exit(78); // EX_CONFIG of sysexits.h
}
