/**
 * `send --prepare`: the URL of the dashboard's send page with its fields filled in. It moves nothing: the owner reviews it and signs with a
 * passkey.
 */
import { parseUsdc, UsageError } from "./arguments.ts";
import { printFacts } from "./output.ts";
import type { Command } from "./settings.ts";

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const NETWORKS = ["base", "base-sepolia"];

export const prepareSend: Command = async (given, { url }, output) => {
  if (!given.has("prepare"))
    throw new UsageError("send needs --prepare: only your passkey can send money, in the browser");
  const to = given.need("to");
  if (!ADDRESS.test(to)) throw new UsageError(`--to must be an address, 0x and 40 hex digits, not ${to}`);
  const amount = given.need("amount");
  parseUsdc(amount, "amount");
  const network = given.text("network");
  if (network !== undefined && !NETWORKS.includes(network))
    throw new UsageError(`--network must be one of ${NETWORKS.join(", ")}`);
  const note = given.text("note");
  const query = new URLSearchParams({
    to,
    amount,
    ...(note === undefined ? {} : { note }),
    ...(network === undefined ? {} : { network }),
  });
  const address = `${url}/send?${query}`;
  output.value({ url: address, to, amount, note, network }, () =>
    printFacts([
      ["Open", address],
      ["", "Compare recipient and amount there, then sign with your passkey."],
    ]),
  );
  return 0;
};
