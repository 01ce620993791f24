/**
 * Warnings shown to an owner before signing: a new recipient, one that resembles a known one, a contract, a wallet with a single
 * owner. They never block.
 */
import type { AccountState } from "../../core/chain/account-state.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { OwnerSlots } from "../../core/domain/owner.ts";
import { resembles } from "../../core/domain/recipient.ts";
import type { OperationTerms } from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { findSentTo, type NewOperationItem } from "../../db/wallet-ops/operations.ts";

/** How many known recipients are compared. */
const KNOWN_MAX = 5_000;

type Given = {
  userId: string;
  slots: OwnerSlots;
  items: readonly NewOperationItem[];
  state: AccountState;
};

export async function warningsOf(tx: Tx, given: Given): Promise<OperationTerms["warnings"]> {
  const { items, state, slots } = given;
  const known = await findSentTo(tx, given.userId, KNOWN_MAX);
  const recipients = new Map(
    items.flatMap(({ to, isFee }, index) => (isFee ? [] : [[to, state.areContracts[index] ?? false]])),
  );
  const warnings = [...recipients].flatMap(([to, isContract]) => recipientWarnings(to, isContract, known));
  const ownerCount = slots.filter((owner) => owner !== undefined).length;
  if (ownerCount > 1) return warnings;
  const message =
    "This wallet has only one owner: add another passkey or an address, because losing that device would mean losing the money";
  return [...warnings, { code: "single_owner", message }];
}

function recipientWarnings(to: Hex, isContract: boolean, known: readonly Hex[]): OperationTerms["warnings"] {
  const warnings: OperationTerms["warnings"] = [];
  if (!known.includes(to)) {
    warnings.push({ code: "new_recipient", message: `You have never sent to ${to}` });
    const twin = known.find((other) => resembles(to, other));
    if (twin)
      warnings.push({
        code: "resembles_known_recipient",
        message: `${to} looks like ${twin}, which you have sent to before, but is a different address`,
      });
  }
  if (isContract)
    warnings.push({
      code: "recipient_is_contract",
      message: `${to} is a contract: make sure that it can use USDC`,
    });
  return warnings;
}
