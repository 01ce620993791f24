/**
 * An address of Postgres, in a form that both drivers take. They disagree about `sslmode`, neither reads all files of certificates, and what
 * a driver does not know it sends to the server as a setting, which refuses it. Here the parameters have their meaning of libpq.
 */
import { readFileSync } from "node:fs";

/** Options of tls.connect. */
type Tls = {
  rejectUnauthorized: boolean;
  ca?: string;
  cert?: string;
  key?: string;
  /** Absent: the certificate must name the host. */
  checkServerIdentity?: () => undefined;
};

export type Address = {
  /** Without the parameters that are read here. */
  url: string;
  /** Absent where the address does not say. */
  ssl?: false | Tls;
};

const READ_HERE = ["sslmode", "ssl", "sslrootcert", "sslcert", "sslkey", "channel_binding"];
/** Of libpq and of managed services' addresses: neither a setting of the server nor anything to us. */
const IGNORED = ["gssencmode", "krbsrvname", "requirepeer", "sslcompression", "sslsni", "uselibpqcompat"];
/** The system's authorities instead of a file. */
const SYSTEM = "system";

/** Throws when a file of a certificate cannot be read. A list of hosts stays as it is. */
export function readAddress(text: string): Address {
  const [place = "", query = ""] = text.split(/\?(.*)/s);
  const given = new URLSearchParams(query);
  const rest = new URLSearchParams(query);
  for (const name of [...READ_HERE, ...IGNORED]) rest.delete(name);
  const ssl = readTls(given);
  const isWhole = rest.size === given.size;
  const url = isWhole ? text : rest.size === 0 ? place : `${place}?${rest}`;
  return ssl === undefined ? { url } : { url, ssl };
}

function readTls(given: URLSearchParams): Address["ssl"] {
  const mode = modeOf(given);
  if (mode === undefined) return undefined;
  if (mode === "disable") return false;
  const file = given.get("sslrootcert");
  const ca = file === null || file === SYSTEM ? undefined : readFileSync(file, "utf8");
  // libpq: an authority that is named is one to be checked
  const isChecked = mode !== "require" || ca !== undefined;
  return {
    rejectUnauthorized: isChecked,
    ...(ca === undefined ? {} : { ca }),
    ...contentOf("cert", given.get("sslcert")),
    ...contentOf("key", given.get("sslkey")),
    ...(mode === "verify-full" ? {} : { checkServerIdentity: () => undefined }),
  };
}

function modeOf(given: URLSearchParams): string | undefined {
  // libpq would bind the password to the certificate; a server that is proven to be the right one is as safe
  if (given.get("channel_binding") === "require" || given.get("sslrootcert") === SYSTEM) return "verify-full";
  // whoever names an authority wants it checked; libpq's default would fall back to no encryption
  const mode =
    given.get("sslmode") ?? given.get("ssl") ?? (given.has("sslrootcert") ? "verify-full" : undefined);
  if (mode === "false" || mode === "0") return "disable";
  if (mode === "true" || mode === "1") return "verify-full";
  // a driver's own name for it
  return mode === "no-verify" ? "require" : mode;
}

function contentOf(name: "cert" | "key", file: string | null) {
  return file === null ? {} : { [name]: readFileSync(file, "utf8") };
}
