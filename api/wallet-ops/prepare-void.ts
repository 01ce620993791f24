/** Prepares an empty operation with the nonce of an ended one: once it is mined, the ended one can never be executed. */
import { conflict, notFound } from "../../core/domain/errors.ts";
import { newSendId } from "../../core/domain/ids.ts";
import { isStillPossible, type OperationKind } from "../../core/domain/wallet-operation.ts";
import type { User } from "../../db/schema.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import { getOperation } from "./operations.ts";
import { prepareOperation } from "./prepare-operation.ts";
import { statusOf } from "./wire.ts";

type Asked = {
  user: User;
  signer: User;
  id: string;
  kind: Exclude<OperationKind, "OWNERS">;
  requestId: string;
};

/** Throws CONFLICT for an operation that has not ended, and for one that can no longer be executed anyway. */
export async function prepareVoid(deps: ApiDeps, asked: Asked): Promise<OperationView> {
  const ended = await getOperation(deps, asked);
  const state = statusOf(ended);
  if (!isStillPossible({ state, isNonceSpent: ended.isNonceSpent }))
    throw conflict(
      `Only an ended operation that could still be executed needs a void; this one is ${state}`,
      {
        field: "status",
        issue: state,
      },
    );
  const wallet = await findWallet(deps.sql, asked.user.id, ended.network);
  if (!wallet) throw notFound(`A wallet of yours on ${ended.network}`);
  const { operation } = await prepareOperation(deps, getEnabledChain(deps, ended.network), {
    id: newSendId(new Date()),
    kind: "SEND",
    wallet,
    signer: asked.signer,
    items: [],
    requestId: asked.requestId,
    request: { voidOf: ended.id },
    idempotencyKey: undefined,
    voidOf: { id: ended.id, accountNonce: ended.accountNonce },
  });
  return operation;
}
