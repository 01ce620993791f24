/** The network; there is no choice while the merchant has one wallet. */
import { nameOfNetwork } from "../frame/page-data.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { say } from "../frame/texts.ts";
import { Choice } from "./controls.tsx";

type Wallet = ScreenProps["me"]["wallets"][number];

type Network = Wallet["network"];
type Props = { wallets: readonly Wallet[]; value: Network; onInput: (network: Network) => void };

export function NetworkChoice({ wallets, value, onInput }: Props) {
  if (wallets.length < 2) return null;
  return (
    <Choice
      label={say("Network")}
      value={value}
      onInput={(id) => onInput(id as Network)}
      options={wallets.map(({ network }) => [network, nameOfNetwork(network)])}
    />
  );
}
