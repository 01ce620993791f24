/** One transfer from the wallet. */
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import { Link, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field, Notice } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { NetworkChoice } from "../parts/network-choice.tsx";
import { Amount, Screen } from "../parts/page-parts.tsx";
import { readTyped } from "../parts/read-typed-amount.ts";
import { readUnits } from "./check-signed-operation.ts";
import { actionsOf, toSign } from "./follow-send.ts";
import { NOTHING_PREFILLED, readPrefill } from "./prefill.ts";
import { RecentSends } from "./recent-sends.tsx";
import { SignSheet } from "./sign-sheet.tsx";

const EMPTY = { to: "", amount: "", note: "" };

export function Send({ me, query }: ScreenProps) {
  const [prefill, setPrefill] = useState(() =>
    readPrefill(
      query,
      me.wallets.map((wallet) => wallet.network),
    ),
  );
  const [network, setNetwork] = useState(prefill?.network ?? me.wallets[0]?.network ?? "base");
  const [fields, setFields] = useState(() => fieldsOf(prefill));
  // a reload after the send must not offer it again; the page of the list below stays
  useEffect(() => {
    if (prefill) setQuery({ ...NOTHING_PREFILLED, page: query.get("page") ?? undefined }, { replace: true });
  }, []);
  const clear = () => {
    setPrefill(undefined);
    setFields(EMPTY);
  };
  /** The service's response together with its request: fields may be edited meanwhile. */
  const [offer, setOffer] = useState<{
    prepared: Answer<"POST /v1/wallets/send/prepare">;
    shown: Parameters<typeof toSign>[1];
  }>();
  const { isBusy, fault, field, run } = useAction();
  const balance = useLoad("GET /v1/wallets/balance", { query: { network } });
  const own = me.wallets.find((wallet) => wallet.network === network)?.address ?? "";
  const held = balance.value?.balance.amount;
  const units = readUnits(fields.amount);
  const isTooMuch = held !== undefined && units !== undefined && units > (readUnits(held) ?? 0n);
  const set = (name: keyof typeof EMPTY) => (value: string) => setFields({ ...fields, [name]: value });
  const errorOf = (name: string) => (field?.endsWith(name) ? fault : undefined);
  const review = () =>
    run(async () => {
      const note = fields.note.trim();
      const payment = {
        to: fields.to.trim(),
        amount: readTyped(fields.amount),
        ...(note ? { note } : {}),
      };
      const prepared = await call("POST /v1/wallets/send/prepare", { body: { network, ...payment } });
      setOffer({ prepared, shown: { network, from: own, payments: [payment] } });
    });
  const isPlaced = errorOf("to") ?? errorOf("amount") ?? errorOf("note");
  return (
    <Screen
      title={say("Send")}
      lead={say(
        "USDC leaves only with your passkey's signature. A transfer on the chain cannot be reversed.",
      )}
      actions={
        <Link to="/payout" class="button plain">
          {say("Pay many at once")}
        </Link>
      }
    >
      <section class="panel padded">
        <Form class="form slim" onSubmit={review}>
          {prefill && (
            <Notice kind="warn">
              <p>
                {say(
                  "A link filled in this form. Whoever made the link chose recipient and amount: compare both before you sign.",
                )}
              </p>
              <Button kind="quiet" onClick={clear}>
                {say("Clear the form")}
              </Button>
            </Notice>
          )}
          <NetworkChoice wallets={me.wallets} value={network} onInput={setNetwork} />
          <Field
            label={say("Recipient's address")}
            value={fields.to}
            onInput={set("to")}
            required
            placeholder="0x"
            autocomplete="off"
            spellcheck={false}
            error={errorOf("to")}
            hint={say("An address on {network}. Paste it; never copy it from a list of past transfers.", {
              network: nameOfNetwork(network),
            })}
          />
          <Field
            label={say("Amount")}
            unit="USDC"
            value={fields.amount}
            onInput={set("amount")}
            required
            inputMode="decimal"
            placeholder="0.00"
            autocomplete="off"
            error={errorOf("amount") ?? (isTooMuch ? say("The wallet holds less.") : undefined)}
            hint={
              held !== undefined && (
                <>
                  {say("The wallet holds")} <Amount of={held} />
                </>
              )
            }
          />
          <Field
            label={say("Note")}
            value={fields.note}
            onInput={set("note")}
            maxLength={500}
            hint={say("For your own history. Not on the chain.")}
            error={errorOf("note")}
          />
          <Fault of={isPlaced ? undefined : fault} />
          <div class="actions">
            <Button kind="main" type="submit" isBusy={isBusy} isOff={isTooMuch}>
              {say("Review")}
            </Button>
          </div>
        </Form>
      </section>
      <RecentSends />
      {offer && (
        <SignSheet
          {...toSign(offer.prepared, offer.shown)}
          {...actionsOf(offer.prepared)}
          onClose={(isSigned) => {
            setOffer(undefined);
            if (isSigned) clear();
          }}
        />
      )}
    </Screen>
  );
}

function fieldsOf(prefill: typeof EMPTY | undefined): typeof EMPTY {
  return prefill ? { to: prefill.to, amount: prefill.amount, note: prefill.note } : EMPTY;
}
