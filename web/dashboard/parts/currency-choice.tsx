/** An ISO 4217 currency; `none`: the label for no currency. */
import { Choice } from "./controls.tsx";

type Props = { label: string; value: string; onInput: (currency: string) => void; none?: string };

const codes = Intl.supportedValuesOf("currency").map((code) => [code, code] as const);

export function CurrencyChoice({ label, value, onInput, none }: Props) {
  return (
    <Choice
      label={label}
      value={value}
      onInput={onInput}
      options={none === undefined ? codes : [["", none] as const, ...codes]}
    />
  );
}
