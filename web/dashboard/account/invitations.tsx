/** Invitations to the signed-in person's address. */
import { useAction } from "../frame/action.ts";
import { invalidate, useLoad } from "../frame/load.ts";
import { chooseMerchant } from "../frame/merchant.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Fault, Loading } from "../parts/forms.tsx";
import { Empty, Name, Screen, Time } from "../parts/page-parts.tsx";
import { nameOfRole, whatRoleMay } from "./roles.ts";

type Invitation = Answer<"GET /v1/auth/invitations">["data"][number];

export function Invitations({ me }: ScreenProps) {
  const loaded = useLoad("GET /v1/auth/invitations");
  const { isBusy, fault, run } = useAction();
  const answer = async (work: () => Promise<unknown>) => {
    await run(work);
    invalidate("/v1/auth/invitations");
  };
  const accept = ({ id, merchantId }: Invitation) =>
    answer(async () => {
      await call("POST /v1/auth/invitations/{id}/accept", { id });
      chooseMerchant(me, merchantId);
    });
  return (
    <Screen
      title={say("Invitations")}
      lead={say("To act for another account, with your own passkey. Your own account stays as it is.")}
    >
      <Fault of={fault} />
      <section class="panel" aria-label={say("Invitations")}>
        <Loading of={loaded} rows={2}>
          {({ data: invitations }) =>
            invitations.length === 0 ? (
              <Empty title={say("No open invitations")}>
                {say("An invitation to {email} appears here. It is valid for seven days.", {
                  email: me.email,
                })}
              </Empty>
            ) : (
              <ul class="rows">
                {invitations.map((invitation) => (
                  <li key={invitation.id}>
                    <span class="what">
                      <Name of={invitation.merchantName} />
                      <span class="muted">
                        {nameOfRole(invitation.role)} · {whatRoleMay(invitation.role)}
                      </span>
                    </span>
                    <span class="muted">
                      {say("Expires")} <Time of={invitation.expiresAt} />
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
            )
          }
        </Loading>
      </section>
    </Screen>
  );
}
