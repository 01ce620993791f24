/** A button for each wallet of this browser (EIP-6963). */
import { useEffect, useState } from "preact/hooks";
import { type Wallet, type Wallets, watchWallets } from "../../checkout/wallets.ts";
import { say } from "../frame/texts.ts";
import { Button, Notice } from "./controls.tsx";

type Props = { isBusy: boolean; isOff?: boolean; onChoose: (wallet: Wallet) => unknown };

export function WalletChoice({ isBusy, isOff, onChoose }: Props) {
  const [{ found, isSearching }, setWallets] = useState<Wallets>({
    ...{ found: [], outside: [], isSearching: true },
  });
  useEffect(() => watchWallets(setWallets), []);
  if (found.length === 0)
    return isSearching ? null : (
      <Notice kind="info">
        {say(
          "No wallet was found in this browser. Open this page in the browser that has it as an extension.",
        )}
      </Notice>
    );
  return (
    <>
      {found.map((wallet) => (
        <Button key={wallet.id} kind="main" isBusy={isBusy} isOff={isOff} onClick={() => onChoose(wallet)}>
          {wallet.icon && <img src={wallet.icon} alt="" width="20" height="20" />}
          {say("Continue with {wallet}", { wallet: wallet.name })}
        </Button>
      ))}
    </>
  );
}
