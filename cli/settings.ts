/** The service's address and API key. Keys come from the environment: arguments are visible to others on a machine. */
import { type Client, createClient } from "../sdk/client.ts";
import { type Given, UsageError } from "./arguments.ts";
import type { Output } from "./output.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export type Settings = {
  /** Without a trailing slash. */
  url: string;
  apiKey: string | undefined;
  payerKey: string | undefined;
  /** The caller's working directory, to which paths are relative. */
  folder: string;
  service: Client;
};

/** Resolves with the exit code. */
export type Command = (given: Given, settings: Settings, output: Output) => Promise<number>;

const URL_DEFAULT = "http://localhost:3000";

export function openSettings(given: Given, env: Environment): Settings {
  const url = (given.text("url") ?? env.SERVICE_URL ?? URL_DEFAULT).replace(/\/+$/, "");
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(`The service's address must begin with http:// or https://, not ${url}`);
  const { username, password, search, hash } = new URL(url);
  if (username || password || search || hash)
    throw new UsageError("The service's address must have no user, password, query or fragment");
  const apiKey = env.API_KEY?.trim() || undefined;
  // fetch refuses such a header, which would look like a service that does not answer
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new UsageError("API_KEY contains characters that no key has");
  return {
    url,
    apiKey,
    payerKey: env.PAYER_PRIVATE_KEY || undefined,
    folder: env.CALLER_FOLDER ?? process.cwd(),
    service: createClient({ baseUrl: url, apiKey }),
  };
}

const LINK_ID = /(?:^|\/)(link_[A-Za-z0-9_-]{22})\/?$/;

/** From a link's id, its page's URL or its aiUrl; only of this service. */
export function parseLink(text: string, { url }: Settings): string {
  const id = LINK_ID.exec(text)?.[1];
  const isHere =
    !text.includes("://") || (URL.canParse(text) && new URL(text).origin === new URL(url).origin);
  if (id === undefined || !isHere) throw new UsageError(`${text} is not a payment link of ${url}`);
  return id;
}
