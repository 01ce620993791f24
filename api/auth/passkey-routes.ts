/** A user's passkeys: names, creation and last use. Those that own no wallet any more, or never did, are not among them. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { renamePasskey } from "../../db/auth/passkeys.ts";
import { findSignInPasskey } from "../../db/auth/sign-in-passkeys.ts";
import { listOwnerPasskeys, type OwnerPasskey } from "../../db/wallet-ops/owner-passkeys.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, metaOf, pageSchema, withMeta } from "../http/envelope.ts";
import { wholeList } from "../http/list-pages.ts";

const ID_MAX_CHARS = 1_400;
const NAME_MAX_CHARS = 100;

const passkeySchema = z
  .object({
    id: z.string(),
    name: z.string().nullable(),
    synced: z.boolean().describe("Whether the passkey provider syncs it across the user's devices"),
    backedUp: z.boolean(),
    createdAt: isoTime,
    lastUsedAt: isoTime.nullable(),
    signsIn: z.boolean().describe("false while the chain does not confirm it as an owner of the wallet"),
  })
  .meta({ id: "Passkey" });

const tags = ["Sessions"];
const auth = { allow: ["session"], needs: "self" } as const;

export const passkeyRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "passkey-routes" })
    .use(access(deps))
    .get(
      "/v1/auth/passkeys",
      async ({ user, requestId }) => {
        const passkeys = await listOwnerPasskeys(deps.sql, user.id, deps.config.passkey.rpId);
        return { ...wholeList(passkeys.map(presentPasskey)), meta: metaOf(requestId) };
      },
      {
        auth,
        response: {
          200: pageSchema(passkeySchema),
          ...errorResponses(401, 403, 429),
        },
        detail: {
          operationId: "listPasskeys",
          summary: "The user's passkeys that own a wallet or are being added to one, oldest first",
          tags,
        },
      },
    )
    .patch(
      "/v1/auth/passkeys/:id",
      async ({ params: { id }, body: { name }, user, trace, requestId }) => {
        const own = { id, userId: user.id, rpId: deps.config.passkey.rpId };
        const passkey = await deps.sql.begin(async (tx) => {
          const row = await renamePasskey(tx, own, name);
          if (!row) throw notFound("Passkey");
          await recordSecurityEvent(tx, { userId: user.id, type: "passkey_renamed", ...trace });
          return { ...row, signsIn: (await findSignInPasskey(tx, id, user.id)) !== undefined };
        });
        return { data: presentPasskey(passkey), meta: metaOf(requestId) };
      },
      {
        auth,
        params: z.object({
          id: z
            .string()
            .max(ID_MAX_CHARS)
            .regex(/^[\w-]+$/, "must be a passkey's id"),
        }),
        body: z.object({
          name: z
            .string()
            .trim()
            .min(1)
            .max(NAME_MAX_CHARS)
            .regex(/^[^\p{Cc}\p{Cf}\p{Cs}]+$/u, "must not contain control characters")
            .nullable()
            .describe("null removes the name"),
        }),
        response: {
          200: withMeta(passkeySchema),
          ...errorResponses(400, 401, 403, 404, 413, 429),
        },
        detail: { operationId: "renamePasskey", summary: "Name a passkey", tags },
      },
    );

function presentPasskey(passkey: OwnerPasskey): z.infer<typeof passkeySchema> {
  return {
    id: passkey.id,
    name: passkey.name,
    synced: passkey.deviceType === "multiDevice",
    backedUp: passkey.backedUp,
    createdAt: passkey.createdAt.toISOString(),
    lastUsedAt: passkey.lastUsedAt?.toISOString() ?? null,
    signsIn: passkey.signsIn,
  };
}
