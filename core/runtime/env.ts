/** Reads the environment once, at a process's door. Every fault is reported in one go, and no value of a secret is ever printed. */
import { z } from "zod";

export class EnvError extends Error {
  constructor(faults: readonly string[]) {
    super(
      `the environment has ${faults.length} fault(s):\n${faults.map((fault) => `  - ${fault}`).join("\n")}`,
    );
    this.name = "EnvError";
  }
}

type Environment = Record<string, string | undefined>;

/** Parses `source` (by default the process's) by a flat zod schema; an empty variable counts as absent. Throws EnvError naming all faults. */
export function readEnv<Shape extends z.ZodRawShape>(
  shape: Shape,
  source: Environment = process.env,
): z.infer<z.ZodObject<Shape>> {
  const given = Object.fromEntries(
    Object.keys(shape).map((key) => [key, source[key]?.trim() === "" ? undefined : source[key]]),
  );
  const parsed = z.object(shape).safeParse(given);
  if (parsed.success) return parsed.data;
  throw new EnvError(parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`));
}

export const flag = z.enum(["0", "1", "true", "false"]).transform((text) => text === "1" || text === "true");

/** "a, b" as ["a", "b"]. */
export const commaList = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be between ${min} and ${max}`);

/** A secret of at least 32 bytes. */
export const secret = z.string().min(32, "must be at least 32 bytes; make one with `openssl rand -hex 32`");

export const postgresUrl = z
  .string({ error: "is required: the Postgres to use, for example postgres://user@127.0.0.1:5432/payments" })
  .regex(/^postgres(ql)?:\/\//, "must begin with postgres://");

/** Variables every process reads. */
export const processShape = {
  NODE_ENV: z.enum(["development", "test", "production"]).default("development"),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
  DATABASE_URL: postgresUrl,
  METRICS_PORT: wholeNumber(0, 65_535).optional(),
  METRICS_HOST: z.string().default("127.0.0.1"),
} as const;

/** Ends a process whose environment is wrong with one readable message instead of a stack. */
export function readEnvOrExit<Config>(read: () => Config): Config {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EnvError)) throw error;
    console.error(error.message);
    process.exit(78); // EX_CONFIG of sysexits.h
  }
}
