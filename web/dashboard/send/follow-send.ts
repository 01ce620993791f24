/** Confirms and follows a prepared send or payout. */
import type { Assertion } from "../frame/passkey.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { tagOf } from "./check-signed-operation.ts";
import type { Progress, ToSign } from "./sign-sheet.tsx";

type Prepared = Answer<"POST /v1/wallets/send/prepare">;
type State = Answer<"GET /v1/wallets/sends/{id}">["status"];

const WAIT_S = 20;

/** Network, recipients and amounts are those chosen here, and the wallet is the account's: never values that the service returned. */
export function toSign(
  prepared: Prepared,
  { network, from, payments }: Pick<ToSign, "network" | "from" | "payments">,
): ToSign {
  const { summary, warnings } = prepared;
  const { fee, balanceAfter } = summary;
  return {
    title:
      payments.length === 1
        ? say("Sign this transfer")
        : say("Sign these {count} transfers", { count: payments.length }),
    offered: prepared,
    network,
    from,
    payments,
    fee,
    balanceAfter,
    warnings,
    tag: tagOf(prepared.sendId),
  };
}

export function actionsOf({ sendId, challengeId }: Prepared) {
  return {
    confirm: async (passkeyResponse: Assertion) =>
      void (await call("POST /v1/wallets/send/confirm", { body: { sendId, challengeId, passkeyResponse } })),
    follow: async (known: string | undefined): Promise<Progress> =>
      call("GET /v1/wallets/sends/{id}", {
        id: sendId,
        query: known ? { known: known as State, wait: WAIT_S } : {},
      }),
    // it expires if this does not arrive
    onAbandon: () =>
      call("POST /v1/wallets/sends/{id}/cancel", { id: sendId, isQuiet: true }).then(
        () => undefined,
        () => undefined,
      ),
  };
}
