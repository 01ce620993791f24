/** Which owner of a wallet may be removed: never the last one that can be used, nor the account's own last one. Pure. */
import type { Hex } from "./networks.ts";
import { addressOfOwner, type OwnerSlots } from "./owner.ts";

/**
 * Whether a wallet could still be used after this owner is gone, by an address or by a passkey that this service knows; owners whose
 * keys no one can hold do not count. Of the account's own owners (its passkeys, and addresses, which it alone can add) the last one
 * stays, whatever members hold: a member must not lock the account out.
 */
export function canRemoveOwner(
  slots: OwnerSlots,
  { removed, own, members }: { removed: Hex; own: ReadonlySet<Hex>; members: ReadonlySet<Hex> },
): boolean {
  const isOwn = (owner: Hex) => addressOfOwner(owner) !== undefined || own.has(owner);
  return slots.some(
    (owner) =>
      owner !== undefined && owner !== removed && (isOwn(owner) || (!isOwn(removed) && members.has(owner))),
  );
}
