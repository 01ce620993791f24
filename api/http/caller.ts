/** Who a request acts for, once a credential was believed. */
import type { ApiKeyScope } from "../../core/domain/api-key.ts";
import type { User } from "../../db/schema.ts";
import type { SessionMethod } from "../../db/sessions.ts";

export type Caller =
  | { kind: "session"; user: User; session: CallerSession }
  | { kind: "test"; user: User; session: CallerSession }
  | { kind: "apiKey"; user: User; apiKey: { id: string; scopes: readonly ApiKeyScope[] } };

export type CallerSession = { id: string; method: SessionMethod; expiresAt: Date; absoluteEndAt: Date };
