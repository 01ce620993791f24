/** Which accounts have code: contracts, and accounts with a key that delegate (EIP-7702). */
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../rpc/node.ts";
import { parseData } from "../rpc/parse-answers.ts";
import { hexWord } from "./abi-words.ts";

const WORD_DIGITS = 64;
/**
 * The code of a contract that is never created: it returns the size of the code of each address behind it, a word each.
 *
 *     size = codesize() - 31; codecopy(0, 31, size); i = size
 *     while i: i -= 32; mstore(i, extcodesize(mload(i)))
 *     return(0, size)
 */
const SIZES_OF_CODE = "0x601f8038038091600039805b8015601d576020900380513b8152600b565bf3";

/** One call for all of them, at `pending`; `readHaveCode` reads its outcome. */
export function codeSizesCall(accounts: readonly Hex[]): RpcCall {
  const data = SIZES_OF_CODE + accounts.map(hexWord).join("");
  return { method: "eth_call", params: [{ data }, "pending"] };
}

/** In the order of `accounts`. A node that does not run such a call is asked for the code of each. Throws RpcTransportError. */
export async function readHaveCode(
  chain: Chain,
  accounts: readonly Hex[],
  outcome: RpcOutcome | undefined,
): Promise<boolean[]> {
  const sizes = outcome?.ok ? String(outcome.result).slice(2) : "";
  if (!/^[0-9a-f]+$/i.test(sizes) || sizes.length !== accounts.length * WORD_DIGITS)
    return (await readCode(chain, accounts)).map((code) => code !== "0x");
  return accounts.map((_, index) => /[^0]/.test(sizes.slice(index * WORD_DIGITS, (index + 1) * WORD_DIGITS)));
}

/** Those that have code now. Throws RpcTransportError. */
export async function findContracts(chain: Chain, accounts: readonly Hex[]): Promise<Set<Hex>> {
  const codes = await readCode(chain, accounts);
  return new Set(accounts.filter((_, index) => codes[index] !== "0x"));
}

/** The code of each account, "0x" where there is none. Throws RpcTransportError. */
export async function readCode(chain: Chain, accounts: readonly Hex[]): Promise<Hex[]> {
  const outcomes = await chain.batch(
    accounts.map((account) => ({ method: "eth_getCode", params: [account, "latest"] })),
  );
  return accounts.map((_, index) => {
    const outcome = outcomes[index];
    if (!outcome?.ok)
      throw outcome?.error ?? new RpcTransportError("malformed", "eth_getCode was not answered");
    return parseData(outcome.result, "eth_getCode");
  });
}
