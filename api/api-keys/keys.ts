/** Creates and revokes API keys. The key is shown once; only its SHA-256 is stored, which suffices for 256 random bits. */

import { createHash, randomBytes } from "node:crypto";
import type { ApiKeyScope } from "../../core/domain/api-key-scopes.ts";
import { LIVE_KEYS_MAX } from "../../core/domain/api-key-scopes.ts";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { newApiKeyId } from "../../core/domain/ids.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { countLiveApiKeys, insertApiKey, revokeApiKey } from "../../db/api-keys/api-keys.ts";
import type { ApiKey } from "../../db/schema.ts";
import { holdAccess } from "../http/act-for-merchant.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { Caller } from "../http/caller.ts";
import type { ApiDeps } from "../http/deps.ts";

const KEY_BYTES = 32;
const PREFIX_CHARS = 10;

/** Throws CONFLICT at the limit of active keys, FORBIDDEN or UNAUTHORIZED when the caller's access has ended. */
export async function createApiKey(
  { sql }: Pick<ApiDeps, "sql">,
  given: { caller: Caller; name: string; scopes: readonly ApiKeyScope[]; trace: Trace },
): Promise<{ apiKey: ApiKey; key: string }> {
  const { caller } = given;
  const userId = caller.user.id;
  const key = `sk_${randomBytes(KEY_BYTES).toString("base64url")}`;
  return sql.begin(async (tx) => {
    await holdAccess(tx, caller, "keys:manage");
    if ((await countLiveApiKeys(tx, userId)) >= LIVE_KEYS_MAX)
      throw conflict(`At most ${LIVE_KEYS_MAX} API keys can be live; revoke one first`);
    const apiKey = await insertApiKey(tx, {
      id: newApiKeyId(),
      userId,
      name: given.name,
      prefix: key.slice(0, PREFIX_CHARS),
      keyHash: createHash("sha256").update(key).digest(),
      scopes: [...new Set(given.scopes)],
      createdBy: caller.actorId,
    });
    const details = { keyId: apiKey.id, name: apiKey.name, scopes: apiKey.scopes.join(" ") };
    await recordSecurityEvent(tx, {
      userId,
      type: "api_key_created",
      ...given.trace,
      details,
    });
    return { apiKey, key };
  });
}

/** Throws NOT_FOUND for another user's key and for a revoked one. */
export async function revokeKey(
  { sql }: Pick<ApiDeps, "sql">,
  { id, userId, trace }: { id: string; userId: string; trace: Trace },
): Promise<ApiKey> {
  return sql.begin(async (tx) => {
    const apiKey = await revokeApiKey(tx, id, userId);
    if (!apiKey) throw notFound("API key");
    const details = { keyId: apiKey.id, name: apiKey.name };
    await recordSecurityEvent(tx, { userId, type: "api_key_revoked", ...trace, details });
    return apiKey;
  });
}
