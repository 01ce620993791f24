/** Shows in full what the passkey will sign, checks it, asks for the signature, and follows the operation until the chain has decided. */
import { useEffect, useRef, useState } from "preact/hooks";
import { invalidate } from "../frame/load.ts";
import { nameOfNetwork, networkOf } from "../frame/page-data.ts";
import { type Assertion, useSigningPrompt } from "../frame/passkey.ts";
import { type Answer, isRefused, messageOf, Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Check, Dialog } from "../parts/controls.tsx";
import { explainFailure } from "../parts/explain-failure.ts";
import { Fault } from "../parts/forms.tsx";
import { Address, Amount, Facts, Hash, Status } from "../parts/page-parts.tsx";
import { Warnings } from "../parts/warnings.tsx";
import {
  checkOperation,
  lastRecipient,
  type Offered,
  readUnits,
  writeUnits,
} from "./check-signed-operation.ts";
import { explainSigning, notArrived } from "./explain-signing.ts";

type Warning = Answer<"POST /v1/wallets/send/prepare">["warnings"][number];

export type ToSign = {
  title: string;
  offered: Offered & { passkeyChallenge: object };
  from: string;
  network: "base" | "base-sepolia";
  payments: readonly { to: string; amount: string; note?: string }[];
  /** The tag that follows the calls' arguments. */
  tag: string;
  /** Decimal text; "0.000000" without one. */
  fee: string;
  balanceAfter?: string;
  warnings: readonly Warning[];
};

export type Progress = { status: string; transactionHash: string | null; reason: string | null };

type Props = ToSign & {
  confirm: (assertion: Assertion) => Promise<void>;
  /** Returns when the status differs from `known`. */
  follow: (known: string | undefined) => Promise<Progress>;
  /** Nothing was signed: the reservation is released, as far as the service answers. */
  onAbandon: () => Promise<void>;
  /** `isSigned`: it was, or may have been, submitted. */
  onClose: (isSigned: boolean) => void;
};

const RETRY_MS = 2_000;
const SUBMITTED: Progress = { status: "QUEUED", transactionHash: null, reason: null };
const GONE = new Set([401, 403, 404]);
const ENDED = new Set(["CONFIRMED", "FAILED", "EXPIRED", "CANCELLED"]);
const UNSIGNED = new Set(["AWAITING_SIGNATURE", "REQUESTED", "EXPIRED", "CANCELLED"]);

export function SignSheet(props: Props) {
  const { title, offered, from, network, payments, tag, fee, balanceAfter, warnings } = props;
  const [progress, setProgress] = useState<Progress>();
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const [isCompared, setCompared] = useState(false);
  const prompt = useSigningPrompt();
  /** A signature was submitted without an answer, and may still arrive. */
  const isUnanswered = useRef(false);
  const hasFee = (readUnits(fee) ?? 0n) > 0n;
  const feeTo = hasFee ? lastRecipient(offered.userOperation.callData, tag) : undefined;
  const isLookAlike = warnings.some(({ code }) => code === "resembles_known_recipient");
  const units = payments.map(({ to, amount }) => ({ to, units: readUnits(amount) ?? -1n }));
  const total = units.reduce((sum, item) => sum + item.units, hasFee ? (readUnits(fee) ?? 0n) : 0n);

  const sign = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      const chainId = networkOf(network)?.chainId ?? 0;
      const whole = feeTo ? [...units, { to: feeTo, units: readUnits(fee) ?? 0n }] : units;
      checkOperation(offered, { chainId, from, payments: whole, tag });
      await submit(await prompt.ask(offered.passkeyChallenge));
      await followToEnd();
    } catch (error) {
      setFault(explainSigning(error));
    }
    setBusy(false);
  };
  /** From here on it may have been submitted, whatever the response: only a refusal, or the service itself, shows that it was not. */
  const submit = async (assertion: Assertion) => {
    try {
      await props.confirm(assertion);
    } catch (error) {
      // an earlier confirmation arrived after all
      if (isRefused(error) && error.issue !== "already_confirmed") throw error;
      setProgress(SUBMITTED);
      const found = await followOnce(undefined);
      if (found.status !== "AWAITING_SIGNATURE") return;
      isUnanswered.current = true;
      setProgress(undefined);
      throw notArrived(error);
    }
    setProgress(SUBMITTED);
  };
  /** Waits for as long as the service does not respond: giving up would look like a failure. */
  const followOnce = async (known: string | undefined): Promise<Progress> => {
    for (;;) {
      try {
        const next = await props.follow(known);
        setFault(undefined);
        return next;
      } catch (error) {
        const message = `${messageOf(error)} ${say("It is signed and may be on its way: do not send it again.")}`;
        // signed out: each retry would ask for the passkey
        if (error instanceof Refusal && GONE.has(error.status)) throw new Error(message, { cause: error });
        setFault(message);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  };
  const followToEnd = async () => {
    let known: string | undefined;
    while (known === undefined || !ENDED.has(known)) {
      const next = await followOnce(known);
      setProgress(next);
      known = next.status;
    }
    invalidate("/v1/wallets", "/v1/transactions", "/v1/payment-links", "/api/v1/public/");
  };
  const isLeft = useRef(false);
  /** Closed, or left with the browser's Back button. True: it was, or may have been, submitted. */
  const leave = (): boolean => {
    // until the passkey is used, nothing is signed
    const isSigned = progress !== undefined || (isBusy && !prompt.isOpen());
    prompt.withdraw();
    if (!isSigned && !isLeft.current) void props.onAbandon();
    isLeft.current = true;
    invalidate("/v1/wallets/sends", "/v1/payment-links");
    return isSigned;
  };
  const latest = useRef(leave);
  latest.current = leave;
  useEffect(() => () => void latest.current(), []);
  /** Closes as unsigned only what can no longer be signed; what was signed after all is followed. */
  const closeUnanswered = async () => {
    isUnanswered.current = false;
    setProgress(SUBMITTED);
    await props.onAbandon();
    let found = await followOnce(undefined);
    if (found.status === "AWAITING_SIGNATURE") {
      // the cancellation did not arrive while the service was away
      await props.onAbandon();
      found = await followOnce(undefined);
    }
    // closed meanwhile: the screen may already show another one
    if (isLeft.current) return;
    if (UNSIGNED.has(found.status)) return props.onClose(found.status === "AWAITING_SIGNATURE");
    setProgress(found);
    await followToEnd();
  };
  const close = () => {
    if (!isUnanswered.current || progress) return props.onClose(leave());
    closeUnanswered().catch((error: unknown) => setFault(explainSigning(error)));
  };
  return (
    <Dialog title={progress ? say("Signed") : title} onClose={close}>
      {!progress && <Warnings of={warnings} />}
      <ul class="rows to-sign">
        {payments.map(({ to, amount, note }, index) => (
          <li key={index}>
            <span class="what">
              <Address of={to} />
              {note && <bdi class="muted">{note}</bdi>}
            </span>
            <Amount of={amount} />
          </li>
        ))}
        {feeTo && (
          <li>
            <span class="what">
              <Address of={feeTo} />
              <span class="muted">{say("Service fee")}</span>
            </span>
            <Amount of={fee} />
          </li>
        )}
      </ul>
      <Facts
        rows={[
          [
            say("Total"),
            <strong>
              <Amount of={writeUnits(total)} /> USDC
            </strong>,
          ],
          [say("Network fee"), say("none: the service pays it")],
          [say("Network"), nameOfNetwork(network)],
          [say("From"), <Address of={from} />],
          balanceAfter !== undefined && [
            say("Balance after"),
            <>
              <Amount of={balanceAfter} /> USDC
            </>,
          ],
        ]}
      />
      {progress ? (
        <div class="outcome" role="status">
          <Status of={progress.status} />
          {progress.transactionHash && <Hash of={progress.transactionHash} network={network} />}
          {progress.reason && <p>{explainFailure(progress.reason)}</p>}
        </div>
      ) : (
        isLookAlike && (
          <Check
            label={say("I have compared every character with the recipient's own address")}
            isOn={isCompared}
            onInput={setCompared}
          />
        )
      )}
      <Fault of={fault} />
      <div class="actions">
        {!progress && (
          <Button kind="main" isBusy={isBusy} isOff={isLookAlike && !isCompared} ignoresEnter onClick={sign}>
            {say("Sign with passkey")}
          </Button>
        )}
        <Button onClick={close}>{progress ? say("Close") : say("Do not sign")}</Button>
      </div>
    </Dialog>
  );
}
