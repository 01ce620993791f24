/**
 * The payer's key with a final check before signing: whatever the service requests, it only signs a transfer of USDC on
 * one network within the caller's limit. Signed amounts count as spent from that moment: anyone with the signature can execute it,
 * so no response of the service can undo it.
 */
import { type Signer, USDC } from "../sdk/pay-link.ts";
import { ToolRefusal } from "./tool-result.ts";

type SigningLimits = {
  chainId: number;
  allowedUnits: bigint;
  /** Called with the value, before it is signed. */
  spend: (units: bigint) => void;
};

export function limitSigner(account: Signer, { chainId, allowedUnits, spend }: SigningLimits): Signer {
  const [name, token] = USDC[chainId] ?? [];
  return {
    address: account.address,
    async signTypedData(typedData) {
      const { primaryType, domain, message } = typedData;
      if (primaryType !== "TransferWithAuthorization") throw refusal(`${primaryType} is not a transfer`);
      if (
        domain.chainId !== chainId ||
        domain.verifyingContract?.toLowerCase() !== token?.toLowerCase() ||
        domain.name !== name
      )
        throw refusal(
          `${domain.verifyingContract} on chain ${domain.chainId} is not USDC on chain ${chainId}`,
        );
      if (message.from !== account.address) throw refusal(`${message.from} is not the payer`);
      const { value } = message;
      if (typeof value !== "bigint" || value < 0n || value > allowedUnits)
        throw refusal(`${value} micro-USDC exceed the ${allowedUnits} allowed`);
      spend(value);
      return account.signTypedData(typedData);
    },
  };
}

function refusal(what: string): ToolRefusal {
  return new ToolRefusal("NOT_SIGNED", `Nothing was signed: ${what}`, "Nothing was paid. Tell the user.");
}
