/** Shows an owner change in full, checks that exactly this is signed, and follows it on each network. */
import { useRef, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate } from "../frame/load.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import { useSigningPrompt } from "../frame/passkey.ts";
import { type Answer, call, isRefused, Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Dialog, Notice } from "../parts/controls.tsx";
import { Fault } from "../parts/forms.tsx";
import { Address, Facts, Hash, Status } from "../parts/page-parts.tsx";
import { Warnings } from "../parts/warnings.tsx";
import { explainSigning, notArrived } from "../send/explain-signing.ts";

export type PreparedChange = Answer<"POST /v1/wallets/owners/prepare">;
type Change = Answer<"GET /v1/wallets/owners/changes/{id}">;

const POLL_MS = 1_500;
/** No signature is accepted for longer. */
const SIGNABLE_MS = 600_000;
const ENDED = new Set(["CONFIRMED", "FAILED", "EXPIRED", "CANCELLED"]);
/** It can no longer be signed. */
const UNSIGNED = new Set(["EXPIRED", "CANCELLED"]);
const isAwaited = (networks: Change["networks"]) =>
  networks.every(({ status }) => status === "AWAITING_SIGNATURE");

type Props = {
  prepared: PreparedChange;
  /** Throws ForeignOperation unless the offered operation matches what is shown. */
  check: () => Promise<void>;
  /** The owner as the person chose it. */
  owner: { name: string; address: string | null };
  onClose: () => void;
};

export function OwnerSheet({ prepared, check, owner, onClose }: Props) {
  const { ownerChangeId, challengeId, summary, warnings, chainId } = prepared;
  const [networks, setNetworks] = useState<Change["networks"]>();
  const [isSigned, setSigned] = useState(false);
  const prompt = useSigningPrompt();
  /** A signature was submitted without an answer, and may still arrive. */
  const isUnanswered = useRef(false);
  /** Closed: the screen may already show another sheet. */
  const isLeft = useRef(false);
  /** It could not be found out whether that signature arrived. */
  const [isUnknown, setUnknown] = useState(false);
  const { isBusy, fault, run } = useAction(explainSigning);
  const isAddition = summary.action === "ADD";
  const sign = () =>
    run(async () => {
      await check();
      const passkeyResponse = await prompt.ask(prepared.passkeyChallenge);
      isUnanswered.current = true;
      await confirm({ ownerChangeId, challengeId, passkeyResponse });
      isUnanswered.current = false;
      setSigned(true);
      await followToEnd();
    });
  const followToEnd = async () => {
    for (;;) {
      const now = await call("GET /v1/wallets/owners/changes/{id}", { id: ownerChangeId }).catch(
        (error: unknown) => {
          // a lost response is not a failure: the change is signed and continues
          if (isRefused(error) || isLeft.current) throw error;
        },
      );
      if (now) setNetworks(now.networks);
      if (now?.networks.every(({ status, waitsForDeployment }) => waitsForDeployment || ENDED.has(status)))
        break;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    invalidate("/v1/wallets", "/v1/auth/passkeys", "/v1/security-events", "/v1/members");
  };
  /** The error that it failed with. */
  const cancel = () =>
    call("POST /v1/wallets/owners/changes/{id}/cancel", { id: ownerChangeId, isQuiet: true }).then(
      () => undefined,
      (error: unknown) => error,
    );
  /** Closes as unsigned only what can no longer be signed; what was signed after all is followed. */
  const closeUnanswered = async () => {
    const failure = await cancel();
    const { networks } = await call("GET /v1/wallets/owners/changes/{id}", { id: ownerChangeId });
    // the cancellation did not arrive, so the signature still may
    if (failure && isAwaited(networks)) throw notArrived(failure);
    isUnanswered.current = false;
    if (networks.every(({ status }) => UNSIGNED.has(status))) return leave();
    setSigned(true);
    await followToEnd();
  };
  const close = () => {
    if (isUnanswered.current) return isBusy ? closeUnknown() : tryToClose();
    if (!isSigned && (!isBusy || prompt.isOpen())) void cancel();
    prompt.withdraw();
    leave();
  };
  const leave = () => {
    if (isLeft.current) return;
    isLeft.current = true;
    invalidate("/v1/wallets/owners", "/v1/auth/passkeys");
    onClose();
  };
  const tryToClose = async () => {
    if (!(await run(closeUnanswered))) setUnknown(true);
  };
  /** Leaves it to the service, which is asked to cancel until it answers. */
  const closeUnknown = () => {
    void cancelUntilAnswered();
    leave();
  };
  const cancelUntilAnswered = async () => {
    for (const endMs = Date.now() + SIGNABLE_MS; Date.now() < endMs; ) {
      const failure = await cancel();
      const isAnswered = failure instanceof Refusal && failure.status < 500 && failure.status !== 429;
      if (!failure || isAnswered) break;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    invalidate("/v1/wallets/owners", "/v1/auth/passkeys");
  };
  return (
    <Dialog
      title={isSigned ? say("Signed") : isAddition ? say("Sign the new owner") : say("Sign the removal")}
      onClose={close}
      narrow
    >
      <Warnings of={warnings} />
      <Facts
        rows={[
          [isAddition ? say("New owner") : say("Removed owner"), <bdi class="strong">{owner.name}</bdi>],
          owner.address && [say("Address"), <Address of={owner.address} />],
          [say("Wallet"), <Address of={summary.wallet} />],
          [
            say("Network"),
            chainId === null
              ? say("All networks, with one signature")
              : prepared.networks.map(({ network }) => nameOfNetwork(network)).join(", "),
          ],
          [say("Network fee"), say("none: the service pays it")],
        ]}
      />
      {networks ? (
        <ul class="rows flush" role="status">
          {networks.map(({ network, status, transactionHash, waitsForDeployment }) => (
            <li key={network}>
              <Status of={status} />
              <span class="what">
                {nameOfNetwork(network)}
                {waitsForDeployment && (
                  <span class="muted">{say("Takes effect with the first send there.")}</span>
                )}
              </span>
              {transactionHash && <Hash of={transactionHash} network={network} />}
            </li>
          ))}
        </ul>
      ) : (
        <p class="muted">
          {isAddition
            ? say("It will be able to move everything that the wallet holds, on its own.")
            : say("It will no longer be able to sign for this wallet.")}
        </p>
      )}
      <Fault of={fault} />
      {isUnknown && !isSigned && (
        <Notice kind="warn">
          {say(
            "If your signature arrives after all, the change takes effect. You can close this: the page goes on trying to cancel it. Look at the owners before you try again.",
          )}
        </Notice>
      )}
      <div class="actions">
        {!isSigned && (
          <Button kind="main" isBusy={isBusy} ignoresEnter onClick={sign}>
            {say("Sign with passkey")}
          </Button>
        )}
        <Button onClick={close}>{isSigned ? say("Close") : say("Do not sign")}</Button>
        {isUnknown && !isSigned && <Button onClick={closeUnknown}>{say("Close anyway")}</Button>}
      </div>
    </Dialog>
  );
}

/** After a lost response the change is followed; the same assertion cannot be created twice. */
async function confirm(
  body: NonNullable<Parameters<typeof call<"POST /v1/wallets/owners/confirm">>[1]>["body"],
) {
  try {
    await call("POST /v1/wallets/owners/confirm", body ? { body } : {});
  } catch (error) {
    // an earlier confirmation arrived after all
    if (isRefused(error) && error.issue !== "already_confirmed") throw error;
    const id = body?.ownerChangeId ?? "";
    const { networks } = await call("GET /v1/wallets/owners/changes/{id}", { id });
    if (isAwaited(networks)) throw notArrived(error);
  }
}
