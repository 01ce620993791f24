/** On which network: nothing to choose while the merchant has one wallet. */
import { networkOf } from "../frame/page-data.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { say } from "../frame/words.ts";
import { Choice } from "./controls.tsx";

type Wallet = ScreenProps["me"]["wallets"][number];

export function NetworkChoice({
  wallets,
  value,
  onInput,
}: {
  wallets: readonly Wallet[];
  value: Wallet["network"];
  onInput: (network: Wallet["network"]) => void;
}) {
  if (wallets.length < 2) return null;
  return (
    <Choice
      label={say("Network")}
      value={value}
      onInput={(id) => onInput(id as Wallet["network"])}
      options={wallets.map(({ network }) => [network, networkOf(network)?.name ?? network])}
    />
  );
}
