/** People who act for a merchant, as their browsers make them members. */
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Client } from "./http-client.ts";
import { type Merchant, signUp } from "./sign-up.ts";

export const actingFor = ({ userId }: Pick<Merchant, "userId">) => ({ "x-merchant": userId });

/** Invites a user, who accepts; throws unless both succeed. */
export async function addMember(merchant: Merchant, person: Merchant, role: MemberRole): Promise<void> {
  const invited = await merchant.client.post("/v1/members/invitations", { email: person.email, role });
  if (invited.status !== 201) throw new Error(`invite: ${invited.status} ${invited.text}`);
  const accepted = await person.client.post(`/v1/auth/invitations/${invited.body.data.id}/accept`);
  if (accepted.status !== 200) throw new Error(`accept: ${accepted.status} ${accepted.text}`);
}

/** A new user who is a member. */
export async function newMember(merchant: Merchant, role: MemberRole): Promise<Merchant> {
  const person = await signUp(merchant.client.baseUrl);
  await addMember(merchant, person, role);
  return person;
}

const ownerOf = ({ passkey }: Merchant): Hex =>
  `0x${passkey.publicKey.x.slice(2)}${passkey.publicKey.y.slice(2)}`;

let logIndex = 0;

/** What the indexer writes when a passkey becomes or stops being an owner of a merchant's wallet. `isDeep`: at the depth of a confirmation. */
export async function bookOwnerChange(
  sql: Tx,
  { merchant, person }: { merchant: Merchant; person: Merchant },
  {
    type,
    isDeep,
    network = "base-sepolia",
  }: {
    type: "OWNER_ADDED" | "OWNER_REMOVED";
    isDeep: boolean;
    network?: NetworkId;
  },
): Promise<void> {
  logIndex += 1;
  // as the merchant's preparation of the addition leaves it
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  if (type === "OWNER_ADDED")
    await sql`
      insert into owner_changes (id, user_id, action, owner, member_id)
      values (${id}, ${merchant.userId}, 'ADD', ${ownerOf(person)}, ${person.userId})`;
  await sql`
    insert into account_changes (
      network, block_number, block_hash, tx_hash, log_index, wallet_address, type, owner_index, subject, confirmed_at
    )
    values (
      ${network}, ${logIndex}, ${`0x${"a".repeat(64)}`}, ${`0x${"b".repeat(64)}`}, ${logIndex},
      ${merchant.walletAddress.toLowerCase()}, ${type}, 1, ${ownerOf(person)}, ${isDeep ? new Date() : null}
    )`;
}

/** A person answers invitations of a merchant, who lists, changes and removes members: for the recorded session of the OpenAPI tests. */
export async function haveMembers({
  client,
  email,
  boss,
}: {
  client: Client;
  email: string;
  boss: Merchant;
}): Promise<void> {
  const { client: merchant } = boss;
  const invite = async (role: string) =>
    (await merchant.post("/v1/members/invitations", { email, role })).body.data;
  const declined = await invite("operator");
  await client.get("/v1/auth/invitations");
  await client.post(`/v1/auth/invitations/${declined.id}/decline`);
  await client.post(`/v1/auth/invitations/${declined.id}/decline`);
  const revoked = await invite("viewer");
  await merchant.get("/v1/members/invitations");
  await merchant.delete(`/v1/members/invitations/${revoked.id}`);
  await merchant.delete("/v1/members/invitations/nonsense");
  const accepted = await invite("viewer");
  await client.post(`/v1/auth/invitations/${accepted.id}/accept`);
  await client.post(`/v1/auth/invitations/${accepted.id}/accept`);
  await invite("viewer");
  await merchant.post("/v1/members/invitations", { email: "nonsense" });
  const { body: list } = await merchant.get("/v1/members");
  const { userId } = list.data[1];
  await merchant.patch(`/v1/members/${userId}`, { role: "accountant" });
  await merchant.patch("/v1/members/nonsense", { role: "accountant" });
  await client.get("/v1/auth/me");
  await merchant.delete(`/v1/members/${userId}`);
  await merchant.delete(`/v1/members/${userId}`);
  const again = await invite("viewer");
  await client.post(`/v1/auth/invitations/${again.id}/accept`);
  await merchant.post("/v1/members/leave");
  // another session of the same person, because leaving ends those that acted for the merchant
  const { body: session } = await client.post("/v1/test/token", { email });
  const acting = {
    "x-merchant": boss.userId,
    "x-test-mode": "true",
    authorization: `Bearer ${session.token}`,
  };
  await client.get("/v1/security-events", acting);
  await client.post("/v1/members/leave", undefined, acting);
}
