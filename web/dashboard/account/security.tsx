/** The account's sign-in methods, sessions and security events. */
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Fault, Loading, Panel } from "../parts/forms.tsx";
import { Screen, Time } from "../parts/page-parts.tsx";
import { Passkeys } from "./passkeys.tsx";
import { nameOfMethod } from "./security-event-texts.ts";
import { SecurityEvents } from "./security-events.tsx";
import { SignInMethods } from "./sign-in-methods.tsx";

export function Security({ query }: ScreenProps) {
  return (
    <Screen title={say("Security")}>
      <SignInMethods outcome={query.get("google")} />
      <Passkeys />
      <Sessions />
      {can("trail:read") && <SecurityEvents cursor={query.get("page") ?? undefined} />}
    </Screen>
  );
}

function Sessions() {
  const loaded = useLoad("GET /v1/auth/sessions");
  const { isBusy, fault, change } = useAction();
  const sessions = loaded.value?.data;
  const end = (work: () => Promise<unknown>) => change(["/v1/auth/sessions", "/v1/security-events"], work);
  const endOthers = sessions && sessions.length > 1 && (
    <Button isBusy={isBusy} onClick={() => end(() => call("POST /v1/auth/sessions/revoke-others"))}>
      {say("End all others")}
    </Button>
  );
  return (
    <Panel title={say("Sessions")} actions={endOthers}>
      <Fault of={fault} />
      <Loading of={loaded} rows={2}>
        {({ data }) => (
          <ul class="rows">
            {data.map((session) => (
              <li key={session.id}>
                <span class="what">
                  <strong>{session.userAgent ?? say("Unknown browser")}</strong>
                  <span class="muted">
                    {say("Signed in {how}", { how: nameOfMethod(session.method) })}
                    {session.ip && ` · ${session.ip}`}
                  </span>
                </span>
                <span class="muted">
                  {say("Seen")} <Time of={session.lastSeenAt} />
                </span>
                {session.current ? (
                  <span class="status ok">{say("This one")}</span>
                ) : (
                  <Button
                    isBusy={isBusy}
                    onClick={() => end(() => call("DELETE /v1/auth/sessions/{id}", { id: session.id }))}
                  >
                    {say("End")}
                  </Button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loading>
    </Panel>
  );
}
