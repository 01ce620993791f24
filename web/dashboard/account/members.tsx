/** Members: who may act for the account, in which role, and open invitations. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate, useLoad } from "../frame/load.ts";
import { actingMerchant, can, chooseMerchant } from "../frame/merchant.ts";
import { Link } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Choice, Dialog, Field } from "../parts/controls.tsx";
import { Fault, Form, Loading, Panel, Submit } from "../parts/forms.tsx";
import { Broken, Name, Screen, Time } from "../parts/page-parts.tsx";
import { AddMember } from "../wallet/add-member.tsx";
import { nameOfRole, ROLES, type Role, whatRoleMay } from "./roles.ts";

type Member = Answer<"GET /v1/members">["data"][number];

export function Members({ me }: ScreenProps) {
  const [isInviting, setInviting] = useState(false);
  const [leaving, setLeaving] = useState(false);
  const [removing, setRemoving] = useState<Member>();
  const [promoted, setPromoted] = useState<Member>();
  const { fault, run } = useAction();
  const loaded = useLoad("GET /v1/members");
  const isManager = can("members:manage");
  const wallet = can("owners:manage") ? me.wallets[0]?.address : undefined;
  const change = async (userId: string, role: string) => {
    await run(() => call("PATCH /v1/members/{userId}", { id: userId, body: { role: role as Role } }));
    invalidate("/v1/members");
  };
  return (
    <Screen
      title={say("Members")}
      lead={
        <>
          {say("People who act for this account, each with a passkey of their own.")}{" "}
          <Link to="/invitations">{say("Invitations to you")}</Link>
        </>
      }
      actions={
        <>
          {actingMerchant() && <Button onClick={() => setLeaving(true)}>{say("Leave this account")}</Button>}
          {isManager && (
            <Button kind="main" onClick={() => setInviting(true)}>
              {say("Invite a person")}
            </Button>
          )}
        </>
      }
    >
      <Fault of={fault} />
      <Panel title={say("Members")}>
        <Loading of={loaded} rows={2}>
          {({ data: members }) => (
            <ul class="rows">
              {members.map((member) => (
                <li key={member.userId}>
                  <span class="what">
                    <Name of={member.email} />
                    <span class="muted">{describe(member)}</span>
                  </span>
                  {isManager && !member.isAccount ? (
                    <>
                      {wallet && member.role !== member.effectiveRole && (
                        <Button
                          label={`${say("Make an owner")}: ${member.email}`}
                          onClick={() => setPromoted(member)}
                        >
                          {say("Make an owner")}
                        </Button>
                      )}
                      <Choice
                        label={say("Role of {email}", { email: member.email })}
                        isHidden
                        value={member.role}
                        onInput={(role) => void change(member.userId, role)}
                        options={ROLES.map((role) => [role, nameOfRole(role)] as const)}
                      />
                      <Button
                        kind="danger"
                        label={say("Remove {email}", { email: member.email })}
                        onClick={() => setRemoving(member)}
                      >
                        {say("Remove")}
                      </Button>
                    </>
                  ) : (
                    <span class="status off">{nameOfRole(member.role)}</span>
                  )}
                </li>
              ))}
            </ul>
          )}
        </Loading>
      </Panel>
      {isManager && <Open />}
      {promoted && wallet && (
        <AddMember
          userId={promoted.userId}
          email={promoted.email}
          wallet={wallet}
          onClose={() => setPromoted(undefined)}
        />
      )}
      {isInviting && <Invite onClose={() => setInviting(false)} />}
      {removing && (
        <Confirm
          title={say("Remove {email}?", { email: removing.email })}
          word={say("Remove")}
          work={() => call("DELETE /v1/members/{userId}", { id: removing.userId })}
          changes={["/v1/members"]}
          onClose={() => setRemoving(undefined)}
        >
          {say("Their sessions for this account end immediately, as do the API keys they created.")}
        </Confirm>
      )}
      {leaving && (
        <Confirm
          title={say("Leave this account?")}
          word={say("Leave this account")}
          work={async () => {
            await call("POST /v1/members/leave");
            chooseMerchant(me, undefined);
          }}
          onClose={() => setLeaving(false)}
        >
          {say("You are signed out. You need a new invitation to return.")}
        </Confirm>
      )}
    </Screen>
  );
}

function describe({ isAccount, role, effectiveRole }: Member): string {
  if (isAccount) return say("The account itself");
  if (role !== effectiveRole)
    return say("Operator until a passkey of theirs is an owner of the wallet on the chain");
  return whatRoleMay(role);
}

function Open() {
  const loaded = useLoad("GET /v1/members/invitations");
  const { fault, run } = useAction();
  const open = loaded.value?.data ?? [];
  const revoke = async (id: string) => {
    await run(() => call("DELETE /v1/members/invitations/{id}", { id }));
    invalidate("/v1/members");
  };
  if (open.length === 0 && !loaded.error) return null;
  return (
    <Panel title={say("Open invitations")}>
      <Fault of={fault} />
      {loaded.error && <Broken loaded={loaded} />}
      <ul class="rows">
        {open.map(({ id, email, role, expiresAt }) => (
          <li key={id}>
            <span class="what">
              <Name of={email} />
              <span class="muted">
                {nameOfRole(role)} · {say("Expires")} <Time of={expiresAt} />
              </span>
            </span>
            <Button label={say("Revoke the invitation of {email}", { email })} onClick={() => revoke(id)}>
              {say("Revoke")}
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Invite({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("accountant");
  const action = useAction();
  const invite = () =>
    action.change(["/v1/members"], async () => {
      await call("POST /v1/members/invitations", { body: { email, role } });
      onClose();
    });
  return (
    <Dialog title={say("Invite a person")} onClose={onClose} narrow>
      <Form onSubmit={invite}>
        <Field
          label={say("E-mail address")}
          type="email"
          value={email}
          onInput={setEmail}
          required
          maxLength={254}
          autocomplete="off"
          autofocus
        />
        <Choice
          label={say("Role")}
          value={role}
          onInput={(value) => setRole(value as Role)}
          options={ROLES.map((one) => [one, nameOfRole(one)] as const)}
          hint={whatRoleMay(role)}
        />
        <Submit action={action} text={say("Send the invitation")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
