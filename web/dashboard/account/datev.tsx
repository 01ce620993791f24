/** Settings for DATEV files: the tax adviser's numbers, the first day of the fiscal year, and the accounts to post to. */
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Choice, Field } from "../parts/controls.tsx";

type Stored = NonNullable<Answer<"GET /v1/settings/books">["datev"]>;

const LENGTHS = [4, 5, 6, 7, 8] as const;
const ACCOUNTS: readonly (readonly [keyof Stored["accounts"], string])[] = [
  ["wallet", "Wallet"],
  ["payments", "Payments"],
  ["received", "Other receipts"],
  ["sent", "Sends"],
  ["refunds", "Refunds"],
  ["fees", "Fees"],
  ["rounding", "Rounding"],
];
const NOTHING: Stored = {
  consultantNumber: 0,
  clientNumber: 0,
  fiscalYearStart: "01-01",
  accountLength: 4,
  accounts: { wallet: "", payments: "", received: "", sent: "", refunds: "", fees: "", rounding: "" },
};

type Props = { of: Stored | null; onInput: (datev: Stored | null) => void };

export function Datev({ of, onInput }: Props) {
  const given = of ?? NOTHING;
  const change = (fields: Partial<Stored>) => {
    const next = { ...given, ...fields };
    const isEmpty =
      !next.consultantNumber && !next.clientNumber && Object.values(next.accounts).every((text) => !text);
    onInput(isEmpty ? null : next);
  };
  const isNeeded = of !== null;
  const number = (text: string) => Number(text.replace(/\D/g, ""));
  return (
    <details open={isNeeded || undefined}>
      <summary>{say("Numbers for DATEV")}</summary>
      <div class="pair">
        <Field
          label={say("Consultant number")}
          value={given.consultantNumber ? String(given.consultantNumber) : ""}
          onInput={(text) => change({ consultantNumber: number(text) })}
          required={isNeeded}
          inputMode="numeric"
          pattern="[0-9]{4,7}"
        />
        <Field
          label={say("Client number")}
          value={given.clientNumber ? String(given.clientNumber) : ""}
          onInput={(text) => change({ clientNumber: number(text) })}
          required={isNeeded}
          inputMode="numeric"
          pattern="[0-9]{1,5}"
        />
        <Field
          label={say("Fiscal year begins")}
          value={given.fiscalYearStart}
          onInput={(fiscalYearStart) => change({ fiscalYearStart })}
          required={isNeeded}
          pattern="[0-9]{2}-[0-9]{2}"
          hint={say("Month and day, such as 01-01.")}
        />
        <Choice
          label={say("Digits of an account number")}
          value={String(given.accountLength)}
          onInput={(text) => change({ accountLength: Number(text) })}
          options={LENGTHS.map((length) => [String(length), String(length)])}
        />
      </div>
      <fieldset class="pair">
        <legend>{say("Accounts")}</legend>
        {ACCOUNTS.map(([name, label]) => (
          <Field
            key={name}
            label={say(label)}
            value={given.accounts[name]}
            onInput={(text) => change({ accounts: { ...given.accounts, [name]: text.trim() } })}
            required={isNeeded}
            inputMode="numeric"
            pattern="[1-9][0-9]{2,8}"
          />
        ))}
      </fieldset>
    </details>
  );
}
