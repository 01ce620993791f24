/** The ways to a second owner: without one, a lost device is lost money. */
import { useState } from "preact/hooks";
import type { Me } from "../frame/session.tsx";
import { say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Panel } from "../parts/forms.tsx";
import { AddAddress } from "./add-address.tsx";
import { AddPasskey } from "./add-passkey.tsx";

export function AddOwner({ wallets }: { wallets: Me["wallets"] }) {
  const [adding, setAdding] = useState<"passkey" | "address">();
  const [first] = wallets;
  if (!first) return null;
  const sheet = { wallet: first.address, onClose: () => setAdding(undefined) };
  return (
    <Panel title={say("A second owner")} isPadded>
      <p class="muted">
        {say(
          "Create a passkey on another device or a security key, and it owns the wallet too. If you lose one, you sign with the other.",
        )}
      </p>
      <p class="muted">
        {say(
          "Or add the address of another wallet of yours: if every passkey is lost, it recovers the account, and it moves the money even without this service.",
        )}
      </p>
      <div class="actions">
        <Button onClick={() => setAdding("passkey")}>{say("Add a passkey")}</Button>
        <Button onClick={() => setAdding("address")}>{say("Add a recovery wallet")}</Button>
      </div>
      {adding === "passkey" && <AddPasskey {...sheet} />}
      {adding === "address" && <AddAddress {...sheet} />}
    </Panel>
  );
}
