/**
 * Identifies the implementation behind a contract payer. Budgets for reverted gas are kept per implementation, not per address,
 * because addresses are free to create. A known implementation cannot revert after a successful simulation and has no budget.
 */
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall } from "../rpc/node.ts";
import { parseData } from "../rpc/parse-answers.ts";
import { readContractSignature } from "./contract-signature.ts";
import { keccak256Bytes } from "./keccak.ts";

export type ContractPayer = { readonly address: Hex; readonly code: Hex; readonly signature: Hex };

const KNOWN_IMPLEMENTATIONS: readonly string[] = [CONTRACTS.smartWalletImplementation];
const KNOWN_FACTORIES: readonly string[] = [CONTRACTS.smartWalletFactory];

/** ERC-1967 storage slot of a proxy's implementation address. */
const IMPLEMENTATION_SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc";
/** The proxy known accounts use. The slot is trusted for exactly this code only: any other code can write anything there. */
const PROXY_CODE = `0x363d3d373d3d363d7f${IMPLEMENTATION_SLOT.slice(2)}545af43d6000803e6038573d6000fd5b3d6000f3`;
/** EIP-7702: an account with a key that runs the code at an address. */
const DELEGATION = /^0xef0100([0-9a-f]{40})$/;
/** EIP-1167: a minimal clone of the code at an address. */
const CLONE = /^0x363d3d373d3d3d363d73([0-9a-f]{40})5af43d82803e903d91602b57fd5bf3$/;

/** The `eth_getStorageAt` that reads a proxy's implementation. */
export function implementationCall(account: Hex): RpcCall {
  return { method: "eth_getStorageAt", params: [account, IMPLEMENTATION_SLOT, "latest"] };
}

/** Whether this deployed account is still the wallet we know; an upgraded one controls how much gas it burns. `slot`: the result of the call above. */
export function isKnownAccount(code: Hex, slot: Hex): boolean {
  return code === PROXY_CODE && KNOWN_IMPLEMENTATIONS.includes(`0x${slot.slice(-40)}`);
}

/** The implementation of each payer, in order; undefined for a known one. Throws RpcTransportError when the chain gave no answer. */
export async function findUnknownImplementations(
  chain: Chain,
  payers: readonly ContractPayer[],
): Promise<(string | undefined)[]> {
  const proxies = payers.filter(({ code }) => code === PROXY_CODE);
  const outcomes = await chain.batch(proxies.map(({ address }) => implementationCall(address)));
  const slots = new Map(
    proxies.map(({ address }, index) => {
      const outcome = outcomes[index];
      if (!outcome?.ok) throw outcome?.error ?? new RpcTransportError("malformed", "a slot was not answered");
      return [address, `0x${parseData(outcome.result, "eth_getStorageAt").slice(-40)}`];
    }),
  );
  return payers.map((payer) => {
    const implementation = slots.get(payer.address) ?? implementationOf(payer);
    const isKnown =
      KNOWN_IMPLEMENTATIONS.includes(implementation) || KNOWN_FACTORIES.includes(implementation);
    return isKnown ? undefined : implementation;
  });
}

/** An undeployed account is identified by its factory; code that is no known proxy is its own implementation. */
function implementationOf({ code, signature }: ContractPayer): string {
  if (code === "0x") return readContractSignature(signature)?.deployment?.to ?? "no code";
  const target = DELEGATION.exec(code)?.[1] ?? CLONE.exec(code)?.[1];
  if (target !== undefined) return `0x${target}`;
  return `code ${Buffer.from(keccak256Bytes(Buffer.from(code.slice(2), "hex"))).toString("hex")}`;
}
