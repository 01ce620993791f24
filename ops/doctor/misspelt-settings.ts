/** Variables that look like a setting of this service under a wrong name: a process ignores them and uses its default, without a word. */
import { API_SETTINGS } from "../../api/config.ts";
import { INDEXER_SETTINGS } from "../../indexer/config.ts";
import { WORKER_SETTINGS } from "../../worker/config.ts";
import { BACKUP_SETTINGS } from "../backup/configuration.ts";
import { advice, type Finding } from "./finding.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const SETTINGS = [
  ...new Set([...API_SETTINGS, ...WORKER_SETTINGS, ...INDEXER_SETTINGS, ...BACKUP_SETTINGS]),
  ...["DATA_DIR", "CHAIN_PORT", "BLOCK_TIME_S", "WALLET_CODE_RPC_URL"],
];
/** Shorter names are too often near another one. */
const NAME_MIN_CHARS = 7;
/** Settings of the exporter, of which we read only some. */
const OF_OTHERS = /^OTEL_/;

export function findMisspeltSettings(env: Environment): Finding[] {
  return Object.keys(env).flatMap((given) => {
    const name = given.replace(/_FILE$/, "");
    if (!env[given] || OF_OTHERS.test(name) || name.length < NAME_MIN_CHARS || SETTINGS.includes(name))
      return [];
    const meant =
      SETTINGS.find((setting) => isOneEditAway(name, setting)) ??
      SETTINGS.find((setting) => isMissingWord(name, setting));
    if (meant === undefined) return [];
    return [
      advice(
        "configuration",
        `${given} is not a setting of this service and is ignored; did you mean ${meant}?`,
      ),
    ];
  });
}

/** One character more, less or different. */
function isOneEditAway(name: string, setting: string): boolean {
  const [short, long] = name.length <= setting.length ? [name, setting] : [setting, name];
  if (long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at += 1;
  return short.slice(short.length === long.length ? at + 1 : at) === long.slice(at + 1);
}

/** RPC_URL_SEPOLIA instead of RPC_URL_BASE_SEPOLIA, RELAY_DAILY_FEE_MAX instead of RELAY_DAILY_FEE_MAX_WEI. */
function isMissingWord(name: string, setting: string): boolean {
  const [words, all] = [name.split("_"), setting.split("_")];
  return (
    words.length >= 2 &&
    words.length === all.length - 1 &&
    all.some((_, index) => all.filter((_word, other) => other !== index).join("_") === name)
  );
}
