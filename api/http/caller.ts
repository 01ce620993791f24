/** The verified caller of a request, and the account it acts for. */
import type { ApiKeyScope } from "../../core/domain/api-key-scopes.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import type { User } from "../../db/schema.ts";
import type { LiveSession } from "../../db/sessions/sessions.ts";

type Acting = {
  /** The account whose data the request reads and changes. */
  user: User;
  /** Who is recorded in the security trail and in requests: the person's or the API key's id. */
  actorId: string;
};
export type PersonCaller = Acting & {
  kind: "session" | "test";
  /** Who is signed in: `user` itself, or a member of it. */
  person: User;
  /** "owner" in the caller's own account. */
  role: MemberRole;
  session: LiveSession;
};
export type KeyCaller = Acting & {
  kind: "apiKey";
  apiKey: { id: string; scopes: readonly ApiKeyScope[] };
};
export type Caller = PersonCaller | KeyCaller;
