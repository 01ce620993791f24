/** Invitations to the signed-in person's address. */
import { useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { chooseMerchant } from "../frame/merchant.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Notice } from "../parts/controls.tsx";
import { Broken, Empty, Screen, Skeleton, Time } from "../parts/page-parts.tsx";
import { nameOfRole, whatRoleMay } from "./roles.ts";

type Invitation = Answer<"GET /v1/auth/invitations">["data"][number];

export function Invitations({ me }: ScreenProps) {
  const loaded = useLoad("GET /v1/auth/invitations");
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const answer = async (work: () => Promise<unknown>) => {
    setBusy(true);
    setFault(undefined);
    try {
      await work();
    } catch (error) {
      setFault(messageOf(error));
    }
    invalidate("/v1/auth/invitations");
    setBusy(false);
  };
  const accept = ({ id, merchantId }: Invitation) =>
    answer(async () => {
      await call("POST /v1/auth/invitations/{id}/accept", { id });
      chooseMerchant(me, merchantId);
    });
  const invitations = loaded.value?.data;
  return (
    <Screen
      title={say("Invitations")}
      lead={say("To act for another account, with your own passkey. Your own account stays as it is.")}
    >
      {fault && <Notice kind="bad">{fault}</Notice>}
      <section class="panel" aria-label={say("Invitations")}>
        {loaded.error && !invitations ? (
          <Broken loaded={loaded} />
        ) : !invitations ? (
          <Skeleton rows={2} />
        ) : invitations.length === 0 ? (
          <Empty title={say("No open invitations")}>
            {say("One to {email} appears here. It is valid for seven days.", { email: me.email })}
          </Empty>
        ) : (
          <ul class="rows">
            {invitations.map((invitation) => (
              <li key={invitation.id}>
                <span class="what">
                  <strong>
                    <bdi>{invitation.merchantName}</bdi>
                  </strong>
                  <span class="muted">
                    {nameOfRole(invitation.role)} · {whatRoleMay(invitation.role)}
                  </span>
                </span>
                <span class="muted">
                  {say("Ends")} <Time of={invitation.expiresAt} />
                </span>
                <Button kind="main" isBusy={isBusy} onClick={() => accept(invitation)}>
                  {say("Accept")}
                </Button>
                <Button
                  isBusy={isBusy}
                  onClick={() =>
                    answer(() => call("POST /v1/auth/invitations/{id}/decline", { id: invitation.id }))
                  }
                >
                  {say("Decline")}
                </Button>
              </li>
            ))}
          </ul>
        )}
      </section>
    </Screen>
  );
}
