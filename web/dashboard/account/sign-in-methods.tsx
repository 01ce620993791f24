/** Sign-in methods besides the passkey: Google accounts, linked and unlinked by the signed-in owner. */
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { page } from "../frame/page-data.ts";
import { setQuery } from "../frame/router.tsx";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Notice } from "../parts/controls.tsx";
import { Fault, Loading, Panel } from "../parts/forms.tsx";
import { Time } from "../parts/page-parts.tsx";

type Account = Answer<"GET /v1/auth/google/accounts">["data"][number];

const ACCOUNTS_MAX = 5;

export function SignInMethods({ outcome: given }: { outcome: string | null }) {
  const loaded = useLoad("GET /v1/auth/google/accounts");
  const { isBusy, fault, run } = useAction();
  const [outcome, setOutcome] = useState(given);
  // shown once: neither a reload nor a copied URL repeats it
  useEffect(() => {
    if (given) setQuery({ google: undefined }, { replace: true });
  }, []);
  const link = () =>
    run(async () => {
      setOutcome(null);
      location.assign((await call("POST /v1/auth/google/link")).data.url);
    });
  const accounts = loaded.value?.data;
  return (
    <Panel
      title={say("Sign-in methods")}
      actions={
        page.hasGoogle &&
        accounts &&
        accounts.length < ACCOUNTS_MAX && (
          <Button isBusy={isBusy} onClick={link}>
            {say("Link a Google account")}
          </Button>
        )
      }
    >
      {(outcome || fault) && (
        <div class="pad">
          {outcome === "linked" ? (
            <Notice kind="ok">{say("The Google account is linked. You can now sign in with it.")}</Notice>
          ) : (
            outcome && <Notice kind="bad">{explain(outcome)}</Notice>
          )}
          <Fault of={fault} />
        </div>
      )}
      <ul class="rows">
        <li>
          <span class="what">
            <strong>{say("Passkey")}</strong>
            <span class="muted">{say("Signs in, and signs everything that moves money.")}</span>
          </span>
          <span class="status ok">{say("On")}</span>
        </li>
        {accounts?.map((account) => (
          <AccountRow key={account.id} account={account} />
        ))}
        {accounts?.length === 0 && (
          <li>
            <span class="what">
              <strong>Google</strong>
              <span class="muted">
                {page.hasGoogle
                  ? say("No account is linked. A linked one signs in, but can never move money.")
                  : say("This service is not set up for it.")}
              </span>
            </span>
            <span class="status off">{say("Off")}</span>
          </li>
        )}
      </ul>
      {/* neither a placeholder nor an error may be a child of the list */}
      <Loading of={loaded} rows={1}>
        {() => null}
      </Loading>
    </Panel>
  );
}

function AccountRow({ account: { id, email, linkedAt } }: { account: Account }) {
  const [isEnding, setEnding] = useState(false);
  return (
    <li>
      <span class="what">
        <strong>{say("Google account")}</strong>
        {email && <bdi>{email}</bdi>}
        <span class="muted">{say("Signs in, but can never move money.")}</span>
      </span>
      <span class="muted">
        {say("Linked")} <Time of={linkedAt} />
      </span>
      <Button
        kind="danger"
        {...(email ? { label: say("Unlink {email}", { email }) } : {})}
        onClick={() => setEnding(true)}
      >
        {say("Unlink")}
      </Button>
      {isEnding && (
        <Confirm
          title={say("Unlink this Google account?")}
          word={say("Unlink")}
          work={() => call("DELETE /v1/auth/google/accounts/{id}", { id })}
          changes={["/v1/auth/google/accounts", "/v1/auth/sessions", "/v1/security-events"]}
          onClose={() => setEnding(false)}
          closeText={say("Keep it")}
        >
          {email && (
            <>
              <bdi class="who">{email}</bdi>
              <br />
            </>
          )}
          {say("It can no longer be used to sign in, and its sessions end. Your passkey still works.")}
        </Confirm>
      )}
    </li>
  );
}

function explain(outcome: string): string {
  if (outcome === "linked_elsewhere")
    return say("This Google account is linked to another account here. Unlink it there first.");
  if (outcome === "too_many")
    return say("The maximum number of Google accounts is linked. Unlink one first.");
  if (outcome === "access_denied") return say("No account was chosen: nothing was linked.");
  if (outcome === "session_ended")
    return say("Your session ended in the meantime: nothing was linked. Try again.");
  return say("Google did not confirm the account: nothing was linked. Try again.");
}
