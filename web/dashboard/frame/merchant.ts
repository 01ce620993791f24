/** The account that the page acts for: one's own, or a merchant's whose member one is. Chosen once a page load, kept in this browser. */
import { setMerchant } from "./service.ts";
import type { Me } from "./session.tsx";

export type Merchant = Me["merchants"][number];
export type Capability = Merchant["permissions"][number];

let acting: Merchant | undefined;

const keyOf = (userId: string) => `merchant-${userId}`;

/** The account as screens show it. A choice that no longer holds is dropped. */
export function actAs(me: Me): Me {
  const chosen = localStorage.getItem(keyOf(me.id));
  acting = me.merchants.find(({ merchantId }) => merchantId === chosen);
  if (!acting) localStorage.removeItem(keyOf(me.id));
  setMerchant(acting?.merchantId);
  return acting ? { ...me, displayName: acting.name, wallets: acting.wallets } : me;
}

/** Undefined in one's own account. */
export const actingMerchant = () => acting;

/** What the role does not include is not offered; the service refuses it in any case. */
export function can(capability: Capability): boolean {
  return !acting || acting.permissions.includes(capability);
}

/** Everything that was read belongs to the other account: the page begins again. */
export function chooseMerchant(me: Pick<Me, "id">, merchantId: string | undefined): void {
  if (merchantId) localStorage.setItem(keyOf(me.id), merchantId);
  else localStorage.removeItem(keyOf(me.id));
  location.assign("/");
}

/** The address of a download, which cannot carry a header. */
export function forMerchant(path: string): string {
  return acting ? `${path}${path.includes("?") ? "&" : "?"}merchant=${acting.merchantId}` : path;
}
