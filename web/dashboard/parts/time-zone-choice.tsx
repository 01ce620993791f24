/** An IANA time zone, this device's first; `none`: the label for no zone. */
import { Choice } from "./controls.tsx";

type Props = { label: string; value: string; onInput: (zone: string) => void; none?: string };

/** Of this device. */
export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const zones = [ownZone, "UTC", ...Intl.supportedValuesOf("timeZone")];

export function TimeZoneChoice({ label, value, onInput, none }: Props) {
  // the stored one may be an older name, which the browser does not list
  const names = [...new Set(value ? [...zones, value] : zones)];
  const options = names.map((zone) => [zone, zone.replaceAll("_", " ")] as const);
  return (
    <Choice
      label={label}
      value={value}
      onInput={onInput}
      options={none === undefined ? options : [["", none] as const, ...options]}
    />
  );
}
