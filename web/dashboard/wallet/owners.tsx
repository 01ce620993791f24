/** The owners of a wallet on one network, and removing one. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { nameOfNetwork, networkOf } from "../frame/page-data.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Dialog } from "../parts/controls.tsx";
import { Submit } from "../parts/forms.tsx";
import { Address, Broken, Name, Skeleton, Time } from "../parts/page-parts.tsx";
import { Warnings } from "../parts/warnings.tsx";
import { checkCall, tagOf } from "../send/check-signed-operation.ts";
import { encodeRemoveOwner, removedOwner } from "./owner-call.ts";
import { OwnerSheet, type PreparedChange } from "./owner-sheet.tsx";

type NetworkId = Answer<"GET /v1/wallets/owners">["network"];
type Owner = Answer<"GET /v1/wallets/owners">["owners"][number];

const nameOf = ({ name, type }: Pick<Owner, "name" | "type">) =>
  name ?? (type === "passkey" ? say("Passkey") : say("Address"));

export function Owners({ network, wallet }: { network: NetworkId; wallet: string }) {
  const loaded = useLoad("GET /v1/wallets/owners", { query: { network } });
  const [removing, setRemoving] = useState<Owner>();
  const { value } = loaded;
  return (
    <>
      <h3>{say("Owners")}</h3>
      {!value && (loaded.error ? <Broken loaded={loaded} /> : <Skeleton rows={1} />)}
      {value && (
        <ul class="rows flush">
          {value.owners.map((owner) => (
            <li key={owner.ownerId}>
              <span class="what">
                <Name of={nameOf(owner)} />
                {owner.address && <Address of={owner.address} />}
                {owner.addedAt && (
                  <span class="muted">
                    {say("Added")} <Time of={owner.addedAt} />
                  </span>
                )}
              </span>
              {can("owners:manage") && value.owners.length > 1 && (
                <Button
                  label={say("Remove {name}", { name: nameOf(owner) })}
                  onClick={() => setRemoving(owner)}
                >
                  {say("Remove")}
                </Button>
              )}
            </li>
          ))}
          {value.waiting.map((owner) => (
            <li key={owner.ownerId}>
              <span class="what">
                <Name of={nameOf(owner)} />
                <span class="muted">{say("Takes effect with the first send there.")}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {value && <Warnings of={value.warnings} />}
      {removing && (
        <Remove owner={removing} network={network} wallet={wallet} onClose={() => setRemoving(undefined)} />
      )}
    </>
  );
}

type RemoveProps = { owner: Owner; network: NetworkId; wallet: string; onClose: () => void };

function Remove({ owner, network, wallet, onClose }: RemoveProps) {
  const [prepared, setPrepared] = useState<PreparedChange>();
  const action = useAction();
  const prepare = () =>
    action.run(async () => {
      const body = { network, remove: { ownerId: owner.ownerId } };
      setPrepared(await call("POST /v1/wallets/owners/prepare", { body }));
    });
  if (prepared) {
    const check = async () => {
      const bytes = await removedOwner(prepared.userOperation.callData, owner.ownerId);
      checkCall(prepared, {
        chainId: networkOf(network)?.chainId ?? 0,
        from: wallet,
        callData: encodeRemoveOwner(
          wallet,
          { index: owner.index, owner: bytes },
          tagOf(prepared.ownerChangeId),
        ),
      });
    };
    const shown = { name: nameOf(owner), address: owner.address };
    return <OwnerSheet prepared={prepared} check={check} owner={shown} onClose={onClose} />;
  }
  const name = nameOfNetwork(network);
  return (
    <Dialog title={say("Remove this owner?")} onClose={onClose} narrow>
      <p>
        <bdi class="strong">{nameOf(owner)}</bdi>
      </p>
      {owner.address && <Address of={owner.address} />}
      <p class="muted">
        {say("It loses the wallet on {network} only: remove it on each network. One of the others signs.", {
          network: name,
        })}
      </p>
      <Submit
        action={action}
        text={say("Review")}
        kind="danger"
        onClick={prepare}
        onClose={onClose}
        closeText={say("Keep it")}
      />
    </Dialog>
  );
}
