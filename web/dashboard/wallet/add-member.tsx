/** A member's own passkey as an owner of the wallet: from then on the member sends and refunds without the account's passkeys. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Dialog } from "../parts/controls.tsx";
import { Submit } from "../parts/forms.tsx";
import { checkCall, tagOf } from "../send/check-signed-operation.ts";
import { addedPoint, encodeAddPasskey } from "./owner-call.ts";
import { OwnerSheet, type PreparedChange } from "./owner-sheet.tsx";

type Props = { userId: string; email: string; wallet: string; onClose: () => void };

export function AddMember({ userId, email, wallet, onClose }: Props) {
  const [prepared, setPrepared] = useState<PreparedChange>();
  const action = useAction();
  const prepare = () =>
    action.run(async () => {
      const body = { add: { type: "member" as const, userId } };
      setPrepared(await call("POST /v1/wallets/owners/prepare", { body }));
    });
  if (prepared) {
    const check = async () => {
      const { userOperation, summary, ownerChangeId } = prepared;
      const point = await addedPoint(userOperation.callData, summary.owner.ownerId);
      const callData = encodeAddPasskey(point, tagOf(ownerChangeId));
      checkCall(prepared, { chainId: null, from: wallet, callData });
    };
    return (
      <OwnerSheet
        prepared={prepared}
        check={check}
        owner={{ name: email, address: null }}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog title={say("Make a member an owner")} onClose={onClose} narrow>
      <p>
        <bdi class="strong">{email}</bdi>
      </p>
      <p class="muted">
        {say(
          "The passkey that this person signs in with becomes an owner of the wallet. Do it only for someone you trust with all of its money.",
        )}
      </p>
      <Submit action={action} text={say("Review")} onClick={prepare} onClose={onClose} />
    </Dialog>
  );
}
