/** An address of another wallet as an owner: with it the account is recovered when every passkey is lost, or used without this service. */
import { useState } from "preact/hooks";
import type { Wallet } from "../../checkout/wallets.ts";
import { useAction } from "../frame/action.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Dialog, Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { WalletChoice } from "../parts/wallet-choice.tsx";
import { checkCall, tagOf } from "../send/check-signed-operation.ts";
import { explainSigning } from "../send/explain-signing.ts";
import { connect, signStatement } from "./browser-wallet.ts";
import { encodeAddAddress } from "./owner-call.ts";
import { OwnerSheet, type PreparedChange } from "./owner-sheet.tsx";

const NAME_MAX = 100;

type Proven = { prepared: PreparedChange; name: string; address: string };

/** `wallet`: the merchant's. */
export function AddAddress({ wallet, onClose }: { wallet: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [proven, setProven] = useState<Proven>();
  const action = useAction(explainSigning);
  const prove = (chosen: Wallet) =>
    action.run(async () => {
      const address = await connect(chosen);
      const { challengeId, typedData } = await call("POST /v1/wallets/owners/address/start", {
        body: { address },
      });
      const expected = { primaryType: "AddOwner" as const, message: { wallet } };
      const proof = await signStatement(chosen, { signer: address, typedData, expected });
      const named = name.trim() || chosen.name.slice(0, NAME_MAX);
      const add = { type: "address" as const, challengeId, address, proof, name: named };
      const prepared = await call("POST /v1/wallets/owners/prepare", { body: { add } });
      setProven({ prepared, name: named, address });
    });
  if (proven) {
    const { prepared, ...owner } = proven;
    const check = async () =>
      checkCall(prepared, {
        chainId: null,
        from: wallet,
        callData: encodeAddAddress(owner.address, tagOf(prepared.ownerChangeId)),
      });
    return <OwnerSheet prepared={prepared} check={check} owner={owner} onClose={onClose} />;
  }
  return (
    <Dialog title={say("Add a recovery wallet")} onClose={onClose} narrow>
      <Form onSubmit={() => undefined}>
        <p class="muted">
          {say(
            "It signs now, to prove that the address is yours. Use a wallet that you can still open when this device is lost, such as a hardware wallet.",
          )}
        </p>
        <Field
          label={say("Name of the wallet")}
          value={name}
          onInput={setName}
          maxLength={NAME_MAX}
          placeholder={say("Hardware wallet in the safe")}
          autofocus
        />
        <Fault of={action.fault} />
        <div class="actions">
          <WalletChoice isBusy={action.isBusy} onChoose={prove} />
          <Button onClick={onClose}>{say("Cancel")}</Button>
        </div>
      </Form>
    </Dialog>
  );
}
