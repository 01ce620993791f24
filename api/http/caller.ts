/** Who a request acts for, once its credential was verified. */
import type { ApiKeyScope } from "../../core/domain/api-key.ts";
import type { User } from "../../db/schema.ts";
import type { LiveSession } from "../../db/sessions/sessions.ts";

export type Caller =
  | { kind: "session"; user: User; session: LiveSession }
  | { kind: "test"; user: User; session: LiveSession }
  | { kind: "apiKey"; user: User; apiKey: { id: string; scopes: readonly ApiKeyScope[] } };
