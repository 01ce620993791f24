/** The wallets: addresses, balances, owners, and everything needed to leave. */
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { actingMerchant, can, forMerchant } from "../frame/merchant.ts";
import { nameOfNetwork, page } from "../frame/page-data.ts";
import { Link } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import type { Me } from "../frame/session.tsx";
import { say } from "../frame/texts.ts";
import { QrCode } from "../links/qr-code.tsx";
import { Button, Copy } from "../parts/controls.tsx";
import { Fault, Panel } from "../parts/forms.tsx";
import { Address, Amount, Broken, Screen } from "../parts/page-parts.tsx";
import { setUpWallet } from "../sign-in/wallet-step.tsx";
import { AddOwner } from "./add-owner.tsx";
import { Owners } from "./owners.tsx";

type WalletOf = Me["wallets"][number];

export function Wallet({ me, onChange }: ScreenProps) {
  // only the account itself sets up a wallet
  const missing = actingMerchant()
    ? []
    : page.networks.filter(({ id }) => !me.wallets.some(({ network }) => network === id));
  return (
    <Screen
      title={say("Wallet")}
      lead={say("Only its owners can move what it holds; the service cannot.")}
      actions={
        can("money:send") && (
          <Link to="/send" class="button main">
            {say("Send")}
          </Link>
        )
      }
    >
      {me.wallets.map((wallet) => (
        <OneWallet key={wallet.network} wallet={wallet} />
      ))}
      {!actingMerchant() && <AddOwner wallets={me.wallets} />}
      {missing.map(({ id, name }) => (
        <SecondNetwork key={id} network={id} name={name} onDone={onChange} />
      ))}
      {can("owners:manage") && <Leave />}
    </Screen>
  );
}

function Leave() {
  return (
    <Panel title={say("Leave at any time")} isPadded>
      <p class="muted">
        {say(
          "The wallet file and the page for leaving are all that you need to move your money without this service. Keep both with your passkey.",
        )}
      </p>
      <div class="actions">
        <a class="button plain" href={forMerchant("/v1/wallets/recovery")} download>
          {say("Download the wallet file")}
        </a>
        <a class="button plain" href="/leave?download">
          {say("Download the page")}
        </a>
      </div>
    </Panel>
  );
}

function OneWallet({ wallet: { network, address, deployed: wasDeployed } }: { wallet: WalletOf }) {
  const balance = useLoad("GET /v1/wallets/balance", { query: { network } });
  const deployed = balance.value?.wallet.deployed ?? wasDeployed;
  const name = nameOfNetwork(network);
  return (
    <Panel
      title={name}
      actions={
        <span class={`status ${deployed ? "ok" : "off"}`}>
          {deployed ? say("Deployed") : say("Deployed with the first send")}
        </span>
      }
    >
      <div class="columns padded top-less">
        <div>
          <p class="figure">
            {balance.value ? (
              <Amount of={balance.value.balance.amount} />
            ) : (
              <span class="dim">{balance.error ? "—" : "…"}</span>
            )}{" "}
            <span class="unit">USDC</span>
          </p>
          {balance.error && <Broken loaded={balance} />}
          <div class="address-line">
            <Address of={address} />
            <Copy text={address} label={say("Copy the address")} />
          </div>
          <p class="hint">
            {say(
              "Receives USDC on {network}. Other tokens, and USDC on other networks, do not appear here.",
              {
                network: name,
              },
            )}
          </p>
          <Owners network={network} wallet={address} />
        </div>
        <QrCode
          text={address}
          label={say("QR code of the wallet's address on {network}", { network: name })}
        />
      </div>
    </Panel>
  );
}

type SecondProps = { network: WalletOf["network"]; name: string; onDone: () => void };

function SecondNetwork({ network, name, onDone }: SecondProps) {
  const { isBusy, fault, change } = useAction();
  const setUp = () =>
    change(["/v1/wallets", "/v1/auth/me"], async () => {
      await setUpWallet(network);
      onDone();
    });
  return (
    <Panel title={name} isPadded>
      <p class="muted">
        {say("The same passkey owns the same address on this network. Set it up to receive there.")}
      </p>
      <Fault of={fault} />
      <div class="actions">
        <Button isBusy={isBusy} onClick={setUp}>
          {say("Set up {network}", { network: name })}
        </Button>
      </div>
    </Panel>
  );
}
