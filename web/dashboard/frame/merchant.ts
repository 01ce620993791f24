/** The account that the page acts for: one's own, or that of a merchant one is a member of. Chosen once per page load, stored in this browser. */
import { setMerchant } from "./service.ts";
import type { Me } from "./session.tsx";

export type Merchant = Me["merchants"][number];
export type Capability = Merchant["permissions"][number];

let acting: Merchant | undefined;

const keyOf = (userId: string) => `merchant-${userId}`;

/** The account as screens show it. A choice that is no longer valid is dropped. */
export function actAs(me: Me): Me {
  const chosen = localStorage.getItem(keyOf(me.id));
  acting = me.merchants.find(({ merchantId }) => merchantId === chosen);
  if (!acting) localStorage.removeItem(keyOf(me.id));
  setMerchant(acting?.merchantId);
  return acting ? { ...me, displayName: acting.name, wallets: acting.wallets } : me;
}

/** Undefined in one's own account. */
export const actingMerchant = () => acting;

/** Actions that the role does not include are hidden; the service refuses them in any case. */
export function can(capability: Capability): boolean {
  return !acting || acting.permissions.includes(capability);
}

/** Everything read so far belongs to the other account, so the page restarts. */
export function chooseMerchant(me: Pick<Me, "id">, merchantId: string | undefined): void {
  if (merchantId) localStorage.setItem(keyOf(me.id), merchantId);
  else localStorage.removeItem(keyOf(me.id));
  location.assign("/");
}

/** The URL of a download, which cannot send a header. */
export function forMerchant(path: string): string {
  return acting ? `${path}${path.includes("?") ? "&" : "?"}merchant=${acting.merchantId}` : path;
}
