/** The API's warnings before a signature, in the reader's language. */
import { networkOf, page } from "../frame/page-data.ts";
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Notice } from "./controls.tsx";

type Warning = Answer<"POST /v1/wallets/send/prepare">["warnings"][number];

const ADDRESSES = /0x[0-9a-f]{40}/gi;
const NETWORK = /\bbase(-sepolia)?\b/;

/** Translations are looked up by the warning's code; addresses and network are taken from the API's English message. */
function textOf({ code, message }: Warning): string {
  const key = `warning ${code}`;
  if (!page.messages[key]) return message;
  const [to = "", other = ""] = message.match(ADDRESSES) ?? [];
  const network = networkOf(NETWORK.exec(message)?.[0] ?? "")?.name ?? "";
  return say(key, { to, other, network });
}

export function Warnings({ of }: { of: readonly Warning[] }) {
  return (
    <>
      {of.map((warning) => (
        <Notice key={warning.message} kind={warning.code === "resembles_known_recipient" ? "bad" : "warn"}>
          {textOf(warning)}
        </Notice>
      ))}
    </>
  );
}
