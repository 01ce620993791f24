/** Who is signed in where, which passkeys there are, and what has happened to the account. */
import { useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Notice } from "../parts/controls.tsx";
import { Broken, Screen, Scroll, Skeleton, Time } from "../parts/page-parts.tsx";
import { Passkeys } from "./passkeys.tsx";

const PAGE = 30;
const METHODS: Readonly<Record<string, string>> = {
  otp: "by e-mail code",
  passkey: "by passkey",
  wallet_setup: "by wallet setup",
  google: "with Google",
  test: "by a test",
  recovery: "for a recovery",
};

export function Security({ query }: ScreenProps) {
  return (
    <Screen title={say("Security")}>
      <Sessions />
      <Passkeys />
      {can("trail:read") && <Trail cursor={query.get("page") ?? undefined} />}
    </Screen>
  );
}

function Sessions() {
  const loaded = useLoad("GET /v1/auth/sessions");
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const sessions = loaded.value?.data;
  const end = async (work: () => Promise<unknown>) => {
    setBusy(true);
    setFault(undefined);
    try {
      await work();
      invalidate("/v1/auth/sessions", "/v1/security-events");
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <section class="panel" aria-labelledby="sessions">
      <header>
        <h2 id="sessions">{say("Sessions")}</h2>
        {sessions && sessions.length > 1 && (
          <Button isBusy={isBusy} onClick={() => end(() => call("POST /v1/auth/sessions/revoke-others"))}>
            {say("End all others")}
          </Button>
        )}
      </header>
      {fault && <Notice kind="bad">{fault}</Notice>}
      {loaded.error && !sessions ? (
        <Broken loaded={loaded} />
      ) : !sessions ? (
        <Skeleton rows={2} />
      ) : (
        <ul class="rows">
          {sessions.map((session) => (
            <li key={session.id}>
              <span class="what">
                <strong>{session.userAgent ?? say("Unknown browser")}</strong>
                <span class="muted">
                  {say("Signed in {how}", { how: say(METHODS[session.method] ?? session.method) })}
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
    </section>
  );
}

function Trail({ cursor }: { cursor: string | undefined }) {
  const loaded = useLoad("GET /v1/security-events", { query: { limit: PAGE, cursor } });
  const { value } = loaded;
  return (
    <section class="panel" aria-labelledby="trail">
      <h2 id="trail">{say("What happened")}</h2>
      {loaded.error && !value ? (
        <Broken loaded={loaded} />
      ) : !value ? (
        <Skeleton rows={6} />
      ) : (
        <Scroll label={say("Events")}>
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{say("What")}</th>
                <th scope="col">{say("From")}</th>
                <th scope="col">{say("When")}</th>
              </tr>
            </thead>
            <tbody>
              {value.data.map((event) => (
                <tr key={event.id}>
                  <td class="main">
                    <strong>{nameOf(event.type)}</strong>
                    {event.actor?.email && <bdi class="muted small">{event.actor.email}</bdi>}
                    {Object.keys(event.details).length > 0 && (
                      <bdi class="muted small">{describe(event.details)}</bdi>
                    )}
                  </td>
                  <td class="second mono">{event.clientAddress ?? ""}</td>
                  <td class="when">
                    <Time of={event.createdAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {value && (cursor || value.pagination.nextCursor) && (
        <nav class="pager padded" aria-label={say("Pages")}>
          <Button isOff={!cursor} onClick={() => setQuery({ page: undefined })}>
            {say("Newest")}
          </Button>
          <Button
            isOff={!value.pagination.nextCursor}
            onClick={() => setQuery({ page: value.pagination.nextCursor ?? undefined })}
          >
            {say("Older")}
          </Button>
        </nav>
      )}
    </section>
  );
}

/** `sign_in_refused` reads "Sign in refused", `otp_sent` "Code sent". */
function nameOf(type: string): string {
  const text = type.replaceAll("_", " ").replace(/^otp\b/, "code");
  return say(text.charAt(0).toUpperCase() + text.slice(1));
}

function describe(details: Readonly<Record<string, unknown>>): string {
  return Object.entries(details)
    .map(([name, value]) => `${name}: ${value}`)
    .join(" · ");
}
