/** Money back to who paid: the amount and the reason are chosen, the recipient comes from the chain unless another is named. */
import { useState } from "preact/hooks";
import { type Answer, call, type Given, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import type { LinkData, Refunds } from "../links/link-data.ts";
import { Button, Dialog, Field, Notice } from "../parts/controls.tsx";
import { Amount } from "../parts/page-parts.tsx";
import { tagOf } from "./operation.ts";
import { SignSheet } from "./sign-sheet.tsx";

type Prepared = Answer<"POST /v1/payment-links/{id}/refunds">;
type State = NonNullable<Given<"GET /v1/refunds/{id}">["query"]>["known"];

const WAIT_S = 20;

type Props = { link: LinkData; refunds: Refunds; from: string; onClose: () => void };

export function Refund({ link, refunds: { refundable, refunds }, from, onClose }: Props) {
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [toAddress, setToAddress] = useState("");
  const [prepared, setPrepared] = useState<Prepared>();
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const requested = refunds.find(({ status }) => status === "REQUESTED");
  const prepare = async (work: () => Promise<Prepared>) => {
    setBusy(true);
    setFault(undefined);
    try {
      setPrepared(await work());
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  const start = () =>
    prepare(() =>
      call("POST /v1/payment-links/{id}/refunds", {
        id: link.id,
        body: {
          ...(amount.trim() ? { amount: amount.trim().replace(",", ".") } : {}),
          ...(reason.trim() ? { reason: reason.trim() } : {}),
          ...(toAddress.trim() ? { toAddress: toAddress.trim() } : {}),
        },
      }),
    );
  if (prepared) {
    const { refundId, challengeId } = prepared;
    return (
      <SignSheet
        title={say("Sign this refund")}
        offered={prepared}
        from={from}
        network={link.network}
        payments={[{ to: prepared.to, amount: prepared.amount, ...(reason ? { note: reason } : {}) }]}
        tag={tagOf(refundId, link.id)}
        fee="0"
        warnings={prepared.warnings}
        confirm={async (passkeyResponse) =>
          void (await call("POST /v1/refunds/{id}/confirm", {
            id: refundId,
            body: { challengeId, passkeyResponse },
          }))
        }
        follow={(known) =>
          call("GET /v1/refunds/{id}", {
            id: refundId,
            query: known ? { known: known as State, wait: WAIT_S } : {},
          })
        }
        onAbandon={() =>
          void call("POST /v1/refunds/{id}/cancel", { id: refundId, isQuiet: true }).catch(() => undefined)
        }
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog title={say("Refund")} onClose={onClose} narrow>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        {requested && (
          <Notice kind="info">
            <p>
              {say("A refund was requested:")} <Amount of={requested.amount} /> USDC
              {requested.requestedBy?.name ? ` (${requested.requestedBy.name})` : ""}
            </p>
            <Button
              kind="quiet"
              onClick={() => prepare(() => call("POST /v1/refunds/{id}/prepare", { id: requested.refundId }))}
            >
              {say("Review the request")}
            </Button>
          </Notice>
        )}
        <Field
          label={say("Amount")}
          unit="USDC"
          value={amount}
          onInput={setAmount}
          inputMode="decimal"
          placeholder={refundable}
          autocomplete="off"
          hint={
            <>
              {say("At most")} <Amount of={refundable} />. {say("Empty: what is left.")}
            </>
          }
          autofocus
        />
        <Field
          label={say("Reason")}
          value={reason}
          onInput={setReason}
          maxLength={500}
          hint={say("On the receipt and in your history.")}
        />
        <details>
          <summary>{say("To another address")}</summary>
          <Field
            label={say("Recipient's address")}
            value={toAddress}
            onInput={setToAddress}
            placeholder="0x"
            autocomplete="off"
            spellcheck={false}
            hint={say("Without one it goes back to who paid. If that is an exchange, ask your customer.")}
          />
        </details>
        {fault && <Notice kind="bad">{fault}</Notice>}
        <div class="actions">
          <Button kind="main" type="submit" isBusy={isBusy}>
            {say("Review")}
          </Button>
          <Button onClick={onClose}>{say("Cancel")}</Button>
        </div>
      </form>
    </Dialog>
  );
}
