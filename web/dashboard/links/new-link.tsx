/** The form for a new link; rarely needed fields are collapsed. */
import { useRef, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { navigate } from "../frame/router.tsx";
import { call, type Given, Refusal } from "../frame/service.ts";
import type { Me } from "../frame/session.tsx";
import { say } from "../frame/texts.ts";
import { Check, Choice, Dialog, Field } from "../parts/controls.tsx";
import { Form, Submit } from "../parts/forms.tsx";
import { NetworkChoice } from "../parts/network-choice.tsx";
import { readTyped } from "../parts/read-typed-amount.ts";

type Body = NonNullable<Given<"POST /v1/payment-links">["body"]>;

const EXPIRIES = [
  [1, "1 hour"],
  [24, "1 day"],
  [72, "3 days"],
  [168, "7 days"],
  [720, "30 days"],
  [2_160, "90 days"],
] as const;

const EMPTY = {
  amount: "",
  isOpenAmount: false,
  minAmount: "",
  maxAmount: "",
  description: "",
  hours: "24",
  isReusable: false,
  maxPayments: "",
  reference: "",
  isUnique: false,
  customerEmail: "",
  successUrl: "",
  cancelUrl: "",
  metadata: "",
};

type TextField = Exclude<keyof typeof EMPTY, "isOpenAmount" | "isReusable" | "isUnique">;

export function NewLink({ me, onClose }: { me: Me; onClose: () => void }) {
  const [network, setNetwork] = useState(me.wallets[0]?.network ?? "base");
  const [fields, setFields] = useState(EMPTY);
  const action = useAction();
  const { fault, field } = action;
  // the same form creates the same link, however often its response is lost
  const key = useRef(crypto.randomUUID());
  const set =
    <Name extends keyof typeof EMPTY>(name: Name) =>
    (value: (typeof EMPTY)[Name]) => {
      key.current = crypto.randomUUID();
      setFields({ ...fields, [name]: value });
    };
  const choose = (id: typeof network) => {
    key.current = crypto.randomUUID();
    setNetwork(id);
  };
  const bind = <Name extends TextField>(name: Name) => ({
    value: fields[name],
    onInput: set(name),
    error: name === field ? fault : undefined,
  });
  const create = () =>
    action.change(["/v1/payment-links"], async () => {
      const body = toBody(fields, network);
      const made = await call("POST /v1/payment-links", {
        body,
        headers: { "idempotency-key": key.current },
      });
      navigate(`/links/${made.id}?new=1`, { replace: true });
    });
  const isShown = fault !== undefined && field !== undefined && field in EMPTY;
  return (
    <Dialog title={say("New payment link")} onClose={onClose}>
      <Form onSubmit={create}>
        {fields.isOpenAmount ? (
          <div class="pair">
            <Field label={say("At least")} unit="USDC" {...bind("minAmount")} inputMode="decimal" autofocus />
            <Field label={say("At most")} unit="USDC" {...bind("maxAmount")} inputMode="decimal" />
          </div>
        ) : (
          <Field
            label={say("Amount")}
            unit="USDC"
            {...bind("amount")}
            inputMode="decimal"
            placeholder="0.00"
            required
            autofocus
          />
        )}
        <Field
          label={say("What for")}
          {...bind("description")}
          required
          maxLength={500}
          placeholder={say("Shown to the payer")}
        />
        <div class="pair">
          <Choice
            label={say("Open for")}
            value={fields.hours}
            onInput={set("hours")}
            options={EXPIRIES.map(([hours, text]) => [String(hours), say(text)])}
          />
          <NetworkChoice wallets={me.wallets} value={network} onInput={choose} />
        </div>
        <details>
          <summary>{say("Reusable, or the payer chooses the amount")}</summary>
          <Check
            label={say("The payer chooses the amount")}
            isOn={fields.isOpenAmount}
            onInput={set("isOpenAmount")}
            hint={say("For donations and top-ups.")}
          />
          <Check
            label={say("Can be paid more than once")}
            isOn={fields.isReusable}
            onInput={set("isReusable")}
            hint={say("Each payment has its own status, receipt and refund.")}
          />
          {fields.isReusable && (
            <Field
              label={say("Payments at most")}
              {...bind("maxPayments")}
              inputMode="numeric"
              pattern="[0-9]{1,6}"
              placeholder={say("No limit")}
            />
          )}
        </details>
        <details open={isShown && field !== "amount" && field !== "description" ? true : undefined}>
          <summary>{say("Order data")}</summary>
          <Field
            label={say("Your reference")}
            {...bind("reference")}
            maxLength={100}
            placeholder="INV-1001"
          />
          {fields.reference && (
            <Check
              label={say("Refuse a second link with this reference")}
              isOn={fields.isUnique}
              onInput={set("isUnique")}
            />
          )}
          <Field
            label={say("Customer's e-mail")}
            type="email"
            {...bind("customerEmail")}
            hint={say("Gets the receipt. Never public.")}
          />
          <Field
            label={say("Return URL after payment")}
            type="url"
            {...bind("successUrl")}
            placeholder="https://"
          />
          <Field
            label={say("Return URL without payment")}
            type="url"
            {...bind("cancelUrl")}
            placeholder="https://"
          />
          <Field
            label={say("Metadata")}
            isLong
            {...bind("metadata")}
            hint={say("One pair per line: name = value. In webhooks and exports, never public.")}
          />
        </details>
        <Submit
          action={isShown ? { ...action, fault: undefined } : action}
          text={say("Create link")}
          onClose={onClose}
        />
      </Form>
    </Dialog>
  );
}

function toBody(fields: typeof EMPTY, network: Body["network"] & string): Body {
  const number = (name: "amount" | "minAmount" | "maxAmount") => Number(readTyped(fields[name], name));
  const text = <Name extends string>(name: Name, value: string) =>
    (value.trim() ? { [name]: value.trim() } : {}) as { [Key in Name]?: string };
  return {
    amount: fields.isOpenAmount ? null : number("amount"),
    ...(fields.isOpenAmount && fields.minAmount ? { minAmount: number("minAmount") } : {}),
    ...(fields.isOpenAmount && fields.maxAmount ? { maxAmount: number("maxAmount") } : {}),
    ...(fields.isReusable || fields.isOpenAmount
      ? { maxPayments: fields.isReusable ? (fields.maxPayments ? Number(fields.maxPayments) : null) : 1 }
      : {}),
    description: fields.description.trim(),
    expiresInHours: Number(fields.hours),
    network,
    ...text("reference", fields.reference),
    ...(fields.reference && fields.isUnique ? { uniqueReference: true } : {}),
    ...text("customerEmail", fields.customerEmail),
    ...text("successUrl", fields.successUrl),
    ...text("cancelUrl", fields.cancelUrl),
    ...(fields.metadata.trim() ? { metadata: readPairs(fields.metadata) } : {}),
  };
}

function readPairs(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      if (at < 1)
        throw new Refusal(400, "VALIDATION_ERROR", say("Write each line as: name = value"), {
          field: "metadata",
        });
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}
