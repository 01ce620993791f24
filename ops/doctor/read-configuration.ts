/** The environment as all three processes read it: every fault of every process at once, each once. */
import { type ApiConfig, readApiConfig } from "../../api/config.ts";
import { EnvError } from "../../core/runtime/env.ts";
import { type IndexerConfig, readIndexerConfig } from "../../indexer/config.ts";
import { readWorkerConfig, type WorkerConfig } from "../../worker/config.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import { findMisspeltSettings } from "./misspelt-settings.ts";

type Environment = Record<string, string | undefined>;

export type Configuration = {
  /** Undefined where the process's environment has faults. */
  readonly api: ApiConfig | undefined;
  readonly worker: WorkerConfig | undefined;
  readonly indexer: IndexerConfig | undefined;
  readonly findings: Finding[];
};

export function readConfiguration(env: Environment): Configuration {
  const reported: { processes: string[]; text: string }[] = [];
  const read = <Config>(name: string, reader: (source: Environment) => Config): Config | undefined => {
    try {
      return reader(env);
    } catch (error) {
      if (!(error instanceof EnvError)) throw error;
      for (const text of error.faults) {
        const known = reported.find((one) => subjectOf(one.text) === subjectOf(text));
        if (known && !known.processes.includes(name)) known.processes.push(name);
        else reported.push({ processes: [name], text });
      }
      return undefined;
    }
  };
  const api = read("api", readApiConfig);
  const worker = read("worker", readWorkerConfig);
  const indexer = read("indexer", readIndexerConfig);
  const faults = reported.map(({ processes, text }) =>
    fault("configuration", `${text} (${processes.join(", ")})`),
  );
  const risks = [...new Set([...(api?.risks ?? []), ...(worker?.risks ?? [])])];
  const findings = [
    ...faults,
    ...risks.map((risk) => advice("configuration", risk)),
    ...findMisspeltSettings(env),
  ];
  const isUnset = faults.length > 0 && faults.every(({ text }) => text.includes(" is not set"));
  if (isUnset && !env.DATABASE_URL && !env.DATABASE_URL_FILE)
    findings.push(
      advice(
        "configuration",
        "this shell has none of the settings of a deployment: run the command with the environment of its processes. `npm start` creates its own settings and needs no check",
      ),
    );
  if (env.NODE_ENV !== "production")
    findings.push(
      advice(
        "configuration",
        `NODE_ENV is ${env.NODE_ENV ?? "not set"}: production needs NODE_ENV=production`,
      ),
    );
  else if (api && !api.offerSigningKeys)
    findings.push(
      advice(
        "configuration",
        "OFFER_SIGNING_KEYS is not set: x402 offers and receipts are not signed (docs/KEYS.md; `openssl rand -hex 32` makes a key)",
      ),
    );
  if (faults.length === 0)
    findings.push(good("configuration", "api, worker and indexer accept the environment"));
  return { api, worker, indexer, findings };
}

/** Two processes describe the use of one variable in their own words; a relayer's keys are missed once a network. */
function subjectOf(text: string): string {
  return /^(?!RELAYER_)[A-Z][A-Z0-9_]+( is not set)?/.exec(text)?.[0] ?? text;
}
