/** Owners of the signed-in user's wallets. Not accessible to API keys; a session alone is not enough either: an owner's passkey signs each change. */

import { Elysia } from "elysia";
import type { z } from "zod";
import { invalid, notFound, ServiceError } from "../../core/domain/errors.ts";
import { DEFAULT_NETWORK, type Hex } from "../../core/domain/networks.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import type { User } from "../../db/schema.ts";
import { findWallet, listWallets } from "../../db/wallets/wallets.ts";
import { access } from "../http/access.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { requireFreshPasskey } from "../http/fresh-passkey.ts";
import { jsonBody } from "../http/json-body.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { transportsOf } from "../wallet-ops/operations.ts";
import { confirmOwnerChange } from "./confirm-owner-change.ts";
import {
  findMemberOwner,
  startAddress,
  startPasskey,
  verifyAddressOwner,
  verifyPasskeyOwner,
} from "./new-owner.ts";
import { cancelChange, getChange } from "./owner-changes.ts";
import { type ChangePreparation, prepareOwnerChange } from "./prepare-owner-change.ts";
import { readNames, readOwners } from "./read-owners.ts";
import {
  addressStartBody,
  addressStartedSchema,
  changeParams,
  changeSchema,
  confirmBody,
  confirmedSchema,
  ownersQuery,
  ownersSchema,
  passkeyStartedSchema,
  prepareBody,
  preparedSchema,
  presentChange,
  presentPrepared,
} from "./wire.ts";

const tags = ["Owners"];
/** No API key can read who may move the money, whatever its scopes. */
const reading = { allow: ["session"], needs: "wallet:read" } as const;
const changing = { allow: ["session"], needs: "owners:manage" } as const;
/** An owner added here can sign in as the account; other people are added as members instead. */
const own = { allow: ["session"], needs: "account", freshPasskey: true } as const;

export const ownerRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "owner-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      "/v1/wallets/owners",
      ({ query, user }) => readOwners(deps, { user, network: query.network ?? DEFAULT_NETWORK }),
      {
        auth: reading,
        query: ownersQuery,
        response: { 200: ownersSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: { operationId: "listOwners", summary: "The owners of a wallet, read from the chain", tags },
      },
    )
    .post("/v1/wallets/owners/passkey/start", ({ user }) => startPasskey(deps, user), {
      auth: own,
      response: { 200: passkeyStartedSchema, ...errorResponses(400, 401, 403, 413, 429) },
      detail: {
        operationId: "beginPasskeyOwner",
        summary: "Begin adding a passkey: creation options for any device or security key",
        tags,
      },
    })
    .post(
      "/v1/wallets/owners/address/start",
      async ({ body, user }) => {
        const wallet = body.network
          ? await findWallet(deps.sql, user.id, body.network)
          : (await listWallets(deps.sql, user.id))[0];
        if (!wallet) throw notFound("A wallet of yours");
        return startAddress(deps, { user, address: body.address, wallet });
      },
      {
        auth: own,
        body: addressStartBody,
        response: { 200: addressStartedSchema, ...errorResponses(400, 401, 403, 404, 413, 429) },
        detail: {
          operationId: "beginAddressOwner",
          summary: "Begin adding an address: returns what it has to sign first",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/owners/prepare",
      async ({ body, user, person, caller, headers, trace, set, status }) => {
        if (body.add) requireFreshPasskey(caller, new Date());
        if (body.add && body.add.type !== "member" && person.id !== user.id) throw membersOnly();
        const { change, isReplay } = await prepareOwnerChange(deps, {
          user,
          signer: person,
          network: body.network,
          request: body,
          trace,
          change: toChange(deps, body, { user, trace }),
          idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
        });
        if (isReplay) set.headers["idempotent-replayed"] = "true";
        const [transports, names] = await Promise.all([transportsOf(deps, person), readNames(deps, user)]);
        return status(201, presentPrepared(change, deps.config, { transports, names }));
      },
      {
        auth: { ...changing, limit: "paymentOperations" },
        body: prepareBody,
        response: { 201: preparedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "prepareOwnerChange",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Prepare an owner change (add or remove) for a passkey to sign",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/owners/confirm",
      async ({ body, user, person, trace, status }) => {
        const change = await confirmOwnerChange(deps, {
          user,
          signer: person,
          id: body.ownerChangeId,
          challengeId: body.challengeId,
          response: body.passkeyResponse,
          trace,
        });
        return status(202, {
          success: true as const,
          ...presentChange(change, await readNames(deps, user)),
          statusUrl: `${deps.config.baseUrl}/v1/wallets/owners/changes/${change.id}`,
        });
      },
      {
        auth: changing,
        body: confirmBody,
        response: { 202: confirmedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "confirmOwnerChange",
          summary: "Confirm a prepared owner change with the passkey's response",
          tags,
        },
      },
    )
    .get(
      "/v1/wallets/owners/changes/:id",
      async ({ params, user }) =>
        presentChange(await getChange(deps, { id: params.id, user }), await readNames(deps, user)),
      {
        auth: reading,
        params: changeParams,
        response: { 200: changeSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: {
          operationId: "getOwnerChange",
          summary: "One owner change, with its state on each network",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/owners/changes/:id/cancel",
      async ({ params, user }) =>
        presentChange(await cancelChange(deps, { id: params.id, user }), await readNames(deps, user)),
      {
        auth: changing,
        params: changeParams,
        response: { 200: changeSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "cancelOwnerChange",
          summary: "Cancel an owner change that is not signed yet",
          tags,
        },
      },
    );

/** Throws VALIDATION_ERROR unless exactly one owner is added or removed. */
function toChange(
  deps: ApiDeps,
  { add, remove, network }: z.infer<typeof prepareBody>,
  by: { user: User; trace: Trace },
): ChangePreparation["change"] {
  if (add && remove) throw invalid("remove", "must not be combined with add");
  if (remove) {
    if (!network) throw invalid("network", "is required: owners are removed on one network at a time");
    return { action: "REMOVE", ownerId: remove.ownerId };
  }
  if (!add) throw invalid("add", "or remove is required");
  const { name } = add;
  if (add.type === "member") {
    const { userId: memberId } = add;
    return { action: "ADD", name, verify: () => findMemberOwner(deps, { user: by.user, memberId }) };
  }
  const { challengeId } = add;
  if (add.type === "passkey") {
    const answer = { challengeId, response: add.passkeyResponse };
    return { action: "ADD", name, verify: () => verifyPasskeyOwner(deps, by, answer) };
  }
  const answer = { challengeId, address: add.address, proof: add.proof as Hex };
  return {
    action: "ADD",
    name,
    async verify(wallets) {
      const [first] = wallets;
      if (!first) throw new Error("an owner is added without a wallet");
      const chains = wallets.map(({ chain }) => chain);
      return verifyAddressOwner(deps, { user: by.user, wallet: first.wallet, chains }, answer);
    },
  };
}

function membersOnly(): ServiceError {
  return new ServiceError(
    "FORBIDDEN",
    "A member adds other members as owners; the account itself adds its own passkeys",
    {
      details: { field: "add.type", issue: "role_not_allowed" },
    },
  );
}
