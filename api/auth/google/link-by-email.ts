/**
 * Whether a first sign-in with Google may open the existing account of its e-mail address: only where Google is authoritative for the
 * address. The address does not open an account that is linked to another subject of this issuer, because a Workspace address can be reassigned to
 * another person; nor one that has unlinked an identity with this address, possibly because the mailbox has changed hands.
 */
import { hasOtherSubject, hasUnlinked } from "../../../db/accounts/identities.ts";
import type { Tx } from "../../../db/postgres/client.ts";
import type { User } from "../../../db/schema.ts";
import type { GoogleIdentity } from "./provider.ts";

export type LinkByEmailRefusal = "link_requires_passkey" | "link_required";

const GOOGLE_MAIL_DOMAIN = "gmail.com";

export async function whyNotLinkedByEmail(
  tx: Tx,
  identity: GoogleIdentity,
  user: User,
): Promise<LinkByEmailRefusal | undefined> {
  if (await hasOtherSubject(tx, identity, user.id)) return "link_required";
  if (await hasUnlinked(tx, identity.issuer, user.id)) return "link_required";
  return isAuthoritative(identity) ? undefined : "link_requires_passkey";
}

/** Google is authoritative only for addresses whose mailboxes it hosts. */
function isAuthoritative({ email, hostedDomain }: GoogleIdentity): boolean {
  const domain = email.slice(email.lastIndexOf("@") + 1);
  return domain === GOOGLE_MAIL_DOMAIN || domain === hostedDomain;
}
