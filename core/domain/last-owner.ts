/** Which owner of a wallet may be removed: never the last usable one, nor the account's own last one. Pure. */
import type { Hex } from "./networks.ts";
import { addressOfOwner, type OwnerSlots } from "./owner.ts";

/**
 * Whether a wallet could still be used after this owner is gone, by an address or by a passkey that this service knows; owners whose
 * keys cannot be in anyone's possession do not count. The last of the account's own owners (its passkeys, and addresses, which only it can add) stays,
 * whatever owners the members have: a member must not lock the account out.
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
