/** The five questions of an installation, with what counts as an answer. */
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import { isMailSender, MAIL_SENDER } from "../../core/runtime/mail-sender.ts";
import { isEncryptedOrLocal } from "../../core/runtime/public-url.ts";
import { isRegistrable } from "../../core/runtime/registrable-domain.ts";

export type Answers = {
  /** Host name without scheme; with a port only on this machine. */
  domain: string;
  networks: readonly NetworkId[];
  rpcUrls: Readonly<Record<NetworkId, string>>;
  smtpUrl: string;
  mailFrom: string;
};

/** Asks one line; undefined when the input has ended. */
export type Ask = (question: string) => Promise<string | undefined>;

const ATTEMPTS_MAX = 5;

/** Repeats a question until its answer is valid. Throws when the input ends or after five invalid answers. */
export async function askAll(ask: Ask, complain: (text: string) => void): Promise<Answers> {
  const until = async <Value>(question: string, read: (text: string) => Value | Refusal): Promise<Value> => {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const text = await ask(question);
      if (text === undefined) throw new Error(`the input ended before an answer to: ${question}`);
      const value = read(text.trim());
      if (!(value instanceof Refusal)) return value;
      complain(value.text);
    }
    throw new Error(`no valid answer to: ${question}`);
  };
  const domain = await until(
    "1. Public domain, for example pay.example.com (passkeys are permanently bound to it): ",
    readDomain,
  );
  const networks = await until("2. Networks: base, base-sepolia or both [both]: ", readNetworks);
  const rpcUrls = { base: "", "base-sepolia": "" };
  for (const network of networks)
    rpcUrls[network] = await until(
      `3. RPC URLs for ${network}, preferably two of different providers, separated by a comma: `,
      readRpcUrls,
    );
  const smtpUrl = await until(
    "4. Mail relay, for example smtp://user:password@mail.example.com:587: ",
    readSmtpUrl,
  );
  const sender = `Payments <no-reply@${domain.replace(/:\d+$/, "")}>`;
  const mailFrom = await until(`5. Sender of e-mails [${sender}]: `, (text) => readSender(text || sender));
  return { domain, networks, rpcUrls, smtpUrl, mailFrom };
}

class Refusal {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

function readDomain(text: string): string | Refusal {
  const domain = text.toLowerCase();
  const isLocal = /^localhost(:\d{1,5})?$/.test(domain);
  if (isLocal || isRegistrable(domain)) return domain;
  return new Refusal(`"${text}" is not a registrable domain name: enter only the name, without https://`);
}

function readNetworks(text: string): readonly NetworkId[] | Refusal {
  if (text === "" || text === "both") return NETWORK_IDS;
  const names = text.split(",").map((name) => name.trim());
  const networks = NETWORK_IDS.filter((id) => names.includes(id));
  return networks.length === names.length
    ? networks
    : new Refusal(`"${text}": expected base, base-sepolia or both`);
}

function readRpcUrls(text: string): string | Refusal {
  const urls = text.split(",").map((url) => url.trim());
  const wrong = urls.find((url) => !/^https?:$/.test(URL.parse(url)?.protocol ?? ""));
  if (wrong !== undefined) return new Refusal(`"${wrong}" is not an http(s) URL`);
  const open = urls.find((url) => !isEncryptedOrLocal(url));
  return open === undefined
    ? urls.join(",")
    : new Refusal(`${new URL(open).host} must be reached over https`);
}

function readSmtpUrl(text: string): string | Refusal {
  const url = URL.parse(text);
  const isSmtp = url !== null && /^smtps?:$/.test(url.protocol) && url.hostname !== "";
  return isSmtp ? text : new Refusal("expected smtp://user:password@host:587, or smtps://…:465");
}

function readSender(text: string): string | Refusal {
  return isMailSender(text) ? text : new Refusal(`"${text}" ${MAIL_SENDER}`);
}
