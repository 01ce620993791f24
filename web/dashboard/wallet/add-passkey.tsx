/** A further passkey as an owner, on another device or a security key: without one, a lost device is lost money. */
import { useState } from "preact/hooks";
import { bytesOfBase64Url } from "../../chain/bytes.ts";
import { useAction } from "../frame/action.ts";
import { makePasskey } from "../frame/passkey.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Dialog, Field } from "../parts/controls.tsx";
import { Form, Submit } from "../parts/forms.tsx";
import { checkCall, tagOf } from "../send/check-signed-operation.ts";
import { encodeAddPasskey, pointOf } from "./owner-call.ts";
import { OwnerSheet, type PreparedChange } from "./owner-sheet.tsx";

/** `wallet`: the merchant's address. */
export function AddPasskey({ wallet, onClose }: { wallet: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [made, setMade] = useState<{ prepared: PreparedChange; point: string }>();
  const action = useAction();
  const make = () =>
    action.run(async () => {
      const { challengeId, passkeyChallenge } = await call("POST /v1/wallets/owners/passkey/start");
      const passkeyResponse = await makePasskey(passkeyChallenge);
      const { publicKey = "" } = passkeyResponse.response as { publicKey?: string };
      const point = pointOf(bytesOfBase64Url(publicKey));
      const add = { type: "passkey" as const, challengeId, passkeyResponse, name: name.trim() };
      setMade({ prepared: await call("POST /v1/wallets/owners/prepare", { body: { add } }), point });
    });
  if (made) {
    const { prepared, point } = made;
    const check = async () =>
      checkCall(prepared, {
        chainId: null,
        from: wallet,
        callData: encodeAddPasskey(point, tagOf(prepared.ownerChangeId)),
      });
    return <OwnerSheet prepared={prepared} check={check} owner={{ name, address: null }} onClose={onClose} />;
  }
  return (
    <Dialog title={say("Add a passkey")} onClose={onClose} narrow>
      <Form onSubmit={make}>
        <Field
          label={say("Name of the passkey")}
          value={name}
          onInput={setName}
          required
          maxLength={100}
          placeholder={say("Security key in the safe")}
          hint={say("Choose the other device in the browser's dialog.")}
          autofocus
        />
        <Submit action={action} text={say("Create passkey")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
