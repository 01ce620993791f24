/** Writes an installation's files: settings anybody may read, and each secret alone. A secret that exists is kept. */
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { relayerAddress } from "../../core/chain/sign-relay.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Answers } from "./questions.ts";

export type Layout = {
  readonly folder: string;
  /** `compose`: containers read the secrets from /run/secrets; `systemd`: units get them as credentials. */
  readonly kind: "compose" | "systemd";
};

export type Written = {
  /** The environment of a process, with the secrets as files of this machine. */
  env: Record<string, string>;
  relayer: Hex;
  kept: string[];
};

/** Containers read them as another user through a mount of the file; the folder keeps other accounts of this machine out. */
const MODES = { compose: 0o444, systemd: 0o400 } as const;
const PROXY_NETWORK = { compose: "172.30.53.0/24", systemd: "127.0.0.1/32" } as const;
/** The user of the image. */
const CONTAINER_USER = 65532;
const DATABASE_HOST = { compose: "postgres", systemd: "127.0.0.1" } as const;

export function writeFiles(answers: Answers, { folder, kind }: Layout): Written {
  const secretsFolder = join(folder, "secrets");
  mkdirSync(secretsFolder, { recursive: true, mode: 0o700 });
  chmodSync(secretsFolder, 0o700);
  if (kind === "compose") makeBackupsFolder(join(folder, "backups"));
  const kept: string[] = [];
  const place = (name: string, text: string) => {
    writeWhole(join(secretsFolder, name), text, MODES[kind]);
    return text;
  };
  /** Never regenerated: what they protect would be lost. */
  const generate = (name: string, make: () => string) => {
    const file = join(secretsFolder, name);
    if (!existsSync(file)) return place(name, make());
    kept.push(name);
    return readFileSync(file, "utf8").trim();
  };
  const password = generate("postgres_password", randomHex);
  generate("database_url", () => `postgres://payments:${password}@${DATABASE_HOST[kind]}:5432/payments`);
  for (const name of ["jwt_secret", "otp_pepper", "webhook_seal_keys", "offer_signing_keys", "backup_key"])
    generate(name, randomHex);
  const key = generate("relayer_private_keys", () => `0x${randomHex()}`);
  place("smtp_url", answers.smtpUrl);
  place("rpc_url_base", answers.rpcUrls.base);
  place("rpc_url_base_sepolia", answers.rpcUrls["base-sepolia"]);
  const settings = settingsOf(answers, kind);
  const own = { ...settings, ...secretFiles(answers, kind) };
  const added = listAddedSettings(join(folder, "service.env"), own);
  writeWhole(
    join(folder, "service.env"),
    toEnvFile(own) + added.map(({ line }) => `${line}\n`).join(""),
    0o644,
  );
  kept.push(...added.map(({ name }) => name));
  writeWhole(join(folder, ".env"), toEnvFile({ DOMAIN: answers.domain }), 0o644);
  const local = Object.entries(secretVariables(answers)).map(([variable, name]) => [
    `${variable}_FILE`,
    join(secretsFolder, name),
  ]);
  // the first of several; the others were added by hand
  const [first = key] = key.split(",");
  return { env: { ...settings, ...Object.fromEntries(local) }, relayer: relayerAddress(first as Hex), kept };
}

/** Lines of an earlier installation that the operator has added: they are not asked for, and must not be lost. */
function listAddedSettings(
  file: string,
  own: Readonly<Record<string, string>>,
): { name: string; line: string }[] {
  if (!existsSync(file)) return [];
  const ownFiles = Object.values(SECRETS).map((name) => `/run/secrets/${name}`);
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, name, value = ""] = /^\s*([A-Z][A-Z0-9_]*)=(.*)$/.exec(line) ?? [];
      const isAdded = name !== undefined && !(name in own) && !ownFiles.includes(value);
      return isAdded ? [{ name, line }] : [];
    });
}

function settingsOf({ domain, networks, mailFrom }: Answers, kind: Layout["kind"]): Record<string, string> {
  return {
    NODE_ENV: "production",
    BASE_URL: `https://${domain}`,
    RP_ID: domain.replace(/:\d+$/, ""),
    NETWORKS: networks.join(","),
    MAIL_FROM: mailFrom,
    TRUSTED_PROXIES: PROXY_NETWORK[kind],
  };
}

/** The file of each secret. */
const SECRETS = {
  DATABASE_URL: "database_url",
  JWT_SECRET: "jwt_secret",
  OTP_PEPPER: "otp_pepper",
  WEBHOOK_SEAL_KEYS: "webhook_seal_keys",
  OFFER_SIGNING_KEYS: "offer_signing_keys",
  RELAYER_PRIVATE_KEYS: "relayer_private_keys",
  SMTP_URL: "smtp_url",
  BACKUP_KEY: "backup_key",
  RPC_URL_BASE: "rpc_url_base",
  RPC_URL_BASE_SEPOLIA: "rpc_url_base_sepolia",
} as const;

/** Without the nodes of networks that are not enabled. */
function secretVariables({ networks }: Answers): Record<string, string> {
  const { RPC_URL_BASE, RPC_URL_BASE_SEPOLIA, ...others } = SECRETS;
  return {
    ...others,
    ...(networks.includes("base") ? { RPC_URL_BASE } : {}),
    ...(networks.includes("base-sepolia") ? { RPC_URL_BASE_SEPOLIA } : {}),
  };
}

/** Of a container's environment; a unit of systemd names its credentials itself. */
function secretFiles(answers: Answers, kind: Layout["kind"]): Record<string, string> {
  if (kind === "systemd") return {};
  const entries = Object.entries(secretVariables(answers));
  return Object.fromEntries(entries.map(([variable, name]) => [`${variable}_FILE`, `/run/secrets/${name}`]));
}

/** Unquoted, as Docker, systemd and shells agree on it for values without quotes and line ends. */
function toEnvFile(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${/[\s<>#]/.test(value) ? JSON.stringify(value) : value}\n`)
    .join("");
}

/** Docker would make it as root's, and the container could write nothing into it. */
function makeBackupsFolder(backups: string): void {
  mkdirSync(backups, { recursive: true });
  const { uid } = statSync(backups);
  if (uid === CONTAINER_USER) return;
  if (process.getuid?.() === 0) {
    chownSync(backups, CONTAINER_USER, CONTAINER_USER);
    chmodSync(backups, 0o700);
  } else if (uid === process.getuid?.()) {
    // only root may change its owner; its contents are encrypted, and other accounts cannot remove it
    chmodSync(backups, 0o1777);
  } else throw new Error(`${backups} belongs to another user: sudo chown ${CONTAINER_USER} ${backups}`);
}

function writeWhole(file: string, text: string, mode: number): void {
  const draft = `${file}.new`;
  writeFileSync(draft, text, { mode: 0o600 });
  chmodSync(draft, mode);
  renameSync(draft, file);
}

function randomHex(): string {
  return randomBytes(32).toString("hex");
}
