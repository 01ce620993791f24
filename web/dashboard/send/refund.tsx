/** Refunds the payer: payment, amount and recipient are chosen here, and the operation to sign is compared with that choice. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { type Answer, call, type Given, isRefused } from "../frame/service.ts";
import { formatAmount, groupsWithPoint, say, shorten } from "../frame/texts.ts";
import { type LinkData, openRequests, type Refunds } from "../links/link-data.ts";
import { faultOfAmount } from "../parts/amount-fault.ts";
import { Button, Choice, Dialog, Field, Notice } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { Address, Amount, Facts } from "../parts/page-parts.tsx";
import { readUnits, tagOf } from "./check-signed-operation.ts";
import { SignSheet, type ToSign } from "./sign-sheet.tsx";

type Prepared = Answer<"POST /v1/payment-links/{id}/refunds">;
type State = NonNullable<Given<"GET /v1/refunds/{id}">["query"]>["known"];
type Request = Refunds["refunds"][number];
type Payment = Refunds["payments"][number];
type Chosen = ToSign["payments"][number];
/** `isRequest`: somebody else requested it, so closing the sheet leaves the request in place. */
type Offer = { prepared: Prepared; chosen: Chosen; isRequest?: boolean };

const WAIT_S = 20;
const ADDRESS = /^0x[0-9a-f]{40}$/i;

type Props = { link: LinkData; refunds: Refunds; from: string; onClose: () => void };

export function Refund({ link, refunds, from, onClose }: Props) {
  const [offer, setOffer] = useState<Offer>();
  const { isBusy, fault, run } = useAction();
  const canSign = can("money:send");
  const isClosed = useRef(false);
  useEffect(
    () => () => {
      isClosed.current = true;
    },
    [],
  );
  const attempt: Attempt = (work) =>
    run(async () => {
      const made = await work();
      if (!isClosed.current) return setOffer(made);
      // closed while it was prepared: nobody will sign it
      if (made) await abandon(made);
    });
  if (offer) return <Sign link={link} from={from} offer={offer} onClose={onClose} />;
  return (
    <Dialog title={canSign ? say("Refund") : say("Ask for a refund")} onClose={onClose} narrow>
      {canSign &&
        openRequests(refunds).map((request) => (
          <Requested key={request.refundId} request={request} isBusy={isBusy} attempt={attempt} />
        ))}
      <Choose link={link} refunds={refunds} isBusy={isBusy} attempt={attempt} onClose={onClose} />
      <Fault of={fault} />
    </Dialog>
  );
}

function Sign({ link, from, offer, onClose }: Pick<Props, "link" | "from" | "onClose"> & { offer: Offer }) {
  const { prepared, chosen } = offer;
  const { refundId, challengeId, warnings } = prepared;
  return (
    <SignSheet
      title={say("Sign this refund")}
      offered={prepared}
      from={from}
      network={link.network}
      payments={[chosen]}
      tag={tagOf(refundId, link.id)}
      fee="0"
      warnings={warnings}
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
      onAbandon={() => abandon(offer)}
      onClose={onClose}
    />
  );
}

/** Releases what was reserved; it expires if this does not arrive. */
async function abandon({ prepared, isRequest }: Offer): Promise<void> {
  if (isRequest) return;
  const given = { id: prepared.refundId, isQuiet: true };
  await call("POST /v1/refunds/{id}/cancel", given).catch(() => undefined);
}

type Attempt = (work: () => Promise<Offer | undefined>) => Promise<boolean>;

/** Somebody without a passkey of the wallet requested it, and exactly that is signed. */
function Requested({ request, isBusy, attempt }: { request: Request; isBusy: boolean; attempt: Attempt }) {
  const { refundId, to, amount, note, requestedBy } = request;
  const review = async () => ({
    prepared: await call("POST /v1/refunds/{id}/prepare", { id: refundId }),
    chosen: { to, amount, ...(note ? { note } : {}) },
    isRequest: true,
  });
  const decline = async () => {
    await call("POST /v1/refunds/{id}/cancel", { id: refundId });
    invalidate("/v1/payment-links");
    return undefined;
  };
  return (
    <Notice kind="info">
      <p class="strong">{say("A refund was requested")}</p>
      <Facts
        rows={[
          [
            say("Amount"),
            <>
              <Amount of={amount} /> USDC
            </>,
          ],
          [say("Recipient"), <Address of={to} />],
          requestedBy?.name && [say("By"), <bdi>{requestedBy.name}</bdi>],
          note && [say("Reason"), <bdi>{note}</bdi>],
        ]}
      />
      <div class="actions">
        <Button isBusy={isBusy} onClick={() => attempt(review)}>
          {say("Review the request")}
        </Button>
        <Button kind="quiet" isBusy={isBusy} onClick={() => attempt(decline)}>
          {say("Decline")}
        </Button>
      </div>
    </Notice>
  );
}

/** Of one payment among those of a link, also after others have come and gone. */
const keyOf = (payment: Payment | undefined) =>
  payment ? (payment.transactionId ?? `${payment.payer} ${payment.amount}`) : "";

type Asked = {
  /** As it was typed. */
  given: string;
  request: Given<"POST /v1/payment-links/{id}/refunds">;
  shown: Chosen;
};

type ChooseProps = Pick<Props, "link" | "refunds" | "onClose"> & { isBusy: boolean; attempt: Attempt };

const openPayments = ({ payments }: Refunds) =>
  payments.filter(({ refundable }) => (readUnits(refundable) ?? 0n) > 0n);

const isReserved = ({ refunds }: Refunds) => refunds.some(({ status }) => status === "AWAITING_SIGNATURE");
const sayNothingLeft = (refunds: Refunds) =>
  isReserved(refunds)
    ? say("Nothing else is left to refund: a refund that is not signed yet reserves the rest.")
    : say("Nothing is left to refund.");
const sayNothingLeftOfIt = (refunds: Refunds) =>
  isReserved(refunds)
    ? say("Nothing of this payment is left to refund now: a refund that is not signed yet reserves it.")
    : say("Nothing of this payment is left to refund: it was refunded elsewhere.");

function Choose({ link, refunds, isBusy, attempt, onClose }: ChooseProps) {
  const open = openPayments(refunds);
  const surplus = link.exception === "DUPLICATE" ? open.find(({ pays }) => !pays) : undefined;
  // not its place: payments leave the list when they are refunded elsewhere, and the next one has another payer
  const [chosen, setChosen] = useState(() => keyOf(surplus ?? open[0]));
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [toAddress, setToAddress] = useState("");
  const [fault, setFault] = useState<string>();
  /** What was asked for last: after a lost answer it is asked for again, so that nothing is reserved or requested twice. */
  const asked = useRef<Asked | undefined>(undefined);
  const isChosen = (one: Payment) => keyOf(one) === chosen;
  const payment = open.find(isChosen) ?? refunds.payments.find(isChosen);
  // what is asked for again may itself have reserved it
  const isSpent = payment !== undefined && !open.includes(payment) && asked.current === undefined;
  const choose = (key: string) => {
    setChosen(key);
    // what was typed was for another payer
    if (!payment) for (const clear of [setAmount, setToAddress]) clear("");
    setFault(undefined);
  };
  const optionOf = (one: Payment) =>
    [
      keyOf(one),
      `${formatAmount(one.amount)} USDC · ${shorten(one.payer)}${one.pays ? "" : ` · ${say("not the one that paid")}`}`,
    ] as const;
  if (!payment)
    return (
      <>
        {chosen && (
          <Notice kind="warn">
            {say("The payment that was chosen here is gone: the chain has undone it. Nothing was refunded.")}
          </Notice>
        )}
        {open.length > 0 ? (
          <Choice
            label={say("Which payment")}
            value=""
            onInput={choose}
            options={[["", say("Choose a payment")], ...open.map(optionOf)]}
          />
        ) : (
          <p class="muted">{sayNothingLeft(refunds)}</p>
        )}
      </>
    );
  const start = () => {
    setFault(undefined);
    const given = JSON.stringify([chosen, amount, reason, toAddress]);
    const isRepeated = asked.current?.given === given;
    if (!isRepeated) {
      const to = toAddress.trim() || payment.payer;
      const note = reason.trim();
      if (!open.includes(payment)) return setFault(sayNothingLeftOfIt(refunds));
      if (!ADDRESS.test(to)) return setFault(say("Not an address: it needs 0x and 40 hexadecimal digits."));
      const wrong = amount.trim() && faultOfAmount(amount, groupsWithPoint);
      if (wrong) return setFault(say(wrong));
      const wanted = amount.trim().replace(",", ".") || payment.suggested;
      const body = {
        amount: wanted,
        ...(payment.transactionId ? { transactionId: payment.transactionId } : {}),
        ...(note ? { reason: note } : {}),
        ...(toAddress.trim() ? { toAddress: to } : {}),
      };
      const headers = { "idempotency-key": crypto.randomUUID() };
      const shown = { to, amount: wanted, ...(note ? { note } : {}) };
      asked.current = { given, request: { id: link.id, body, headers }, shown };
    }
    const { request, shown } = asked.current as Asked;
    // only what may have arrived is repeated
    const forgetRefused = (error: unknown): never => {
      if (isRefused(error) && error.issue !== "in_progress") asked.current = undefined;
      throw error;
    };
    if (!can("money:send"))
      return void attempt(async () => {
        await call("POST /v1/payment-links/{id}/refund-requests", request).catch(forgetRefused);
        invalidate("/v1/payment-links");
        onClose();
        return undefined;
      });
    void attempt(async () => ({
      prepared: await call("POST /v1/payment-links/{id}/refunds", request).catch(forgetRefused),
      chosen: shown,
    }));
  };
  return (
    <Form onSubmit={start}>
      {(open.length > 1 || !open.includes(payment)) && (
        <Choice
          label={say("Which payment")}
          value={chosen}
          onInput={choose}
          options={refunds.payments.filter((one) => one === payment || open.includes(one)).map(optionOf)}
        />
      )}
      {isSpent && <Notice kind="warn">{sayNothingLeftOfIt(refunds)}</Notice>}
      <Field
        label={say("Amount")}
        unit="USDC"
        value={amount}
        onInput={setAmount}
        inputMode="decimal"
        placeholder={formatAmount(payment.suggested)}
        autocomplete="off"
        hint={
          !isSpent && (
            <>
              {say("At most")} <Amount of={payment.refundable} />.{" "}
              {say("Leave empty for {amount}.", { amount: formatAmount(payment.suggested) })}
            </>
          )
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
      <div class="goes-back">
        <p class="muted small">{say("It goes back to the payer:")}</p>
        <Address of={payment.payer} />
      </div>
      <details>
        <summary>{say("To another address")}</summary>
        <Field
          label={say("Recipient's address")}
          value={toAddress}
          onInput={setToAddress}
          placeholder="0x"
          autocomplete="off"
          spellcheck={false}
          hint={say("If the payer is an exchange, ask your customer for an address.")}
        />
      </details>
      <Fault of={fault} />
      <div class="actions">
        <Button kind="main" type="submit" isBusy={isBusy} isOff={isSpent}>
          {can("money:send") ? say("Review") : say("Send the request")}
        </Button>
        <Button onClick={onClose}>{say("Cancel")}</Button>
      </div>
    </Form>
  );
}
