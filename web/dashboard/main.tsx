/** Starts the dashboard: signed in, it shows the screens; otherwise, the sign-in. */
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { App } from "./app.tsx";
import { Later } from "./frame/later.tsx";
import { forgetAll } from "./frame/load.ts";
import { actAs } from "./frame/merchant.ts";
import { page } from "./frame/page-data.ts";
import { navigate, usePlace } from "./frame/router.tsx";
import { call, messageOf, Refusal } from "./frame/service.ts";
import type { Me } from "./frame/session.tsx";
import { say } from "./frame/texts.ts";
import { Button, Notice } from "./parts/controls.tsx";
import { SignIn } from "./sign-in/sign-in.tsx";

const UNKNOWN_PATH = page.isUnknown ? location.pathname : undefined;
/** Notifies the other tabs of this browser of a sign-in: they share the session. */
const signIns = new BroadcastChannel("sign-ins");
const RECOVER_PATH = "/recover";
const ENTRY_PATHS = new Set(["/sign-in", "/email-verification", "/wallet-setup", "/dashboard"]);

function Root() {
  const { path } = usePlace();
  const [me, setMe] = useState<Me | null>();
  const [fault, setFault] = useState<string>();
  /** Why signing out failed: shown until it succeeds. */
  const [signOutFault, setSignOutFault] = useState<string>();
  // an action may finish after its screens are gone: its effect depends on who is signed in by then
  const isInside = useRef(false);
  isInside.current = me?.status === "ACTIVE";
  const shownId = useRef<string | undefined>(undefined);
  shownId.current = me?.id;
  const newestRead = useRef(0);
  /** Of several concurrent reads the last one counts; after a sign-out none that started before it. */
  const read = async () => {
    const id = ++newestRead.current;
    // screens that are shown stay: if refused, this is repeated like any read, and then the passkey is requested over the page
    const isQuiet = !isInside.current;
    try {
      const account = await call("GET /v1/auth/me", { isQuiet });
      if (id !== newestRead.current) return;
      if (account.id !== shownId.current) signIns.postMessage(account.id);
      setMe(actAs(account));
      setFault(undefined);
    } catch (error) {
      if (id !== newestRead.current) return;
      const isSignedOut = isQuiet && error instanceof Refusal && error.status === 401;
      setFault(isSignedOut ? undefined : messageOf(error));
      if (isSignedOut) setMe(null);
    }
  };
  const begin = () => {
    forgetAll();
    void read();
  };
  useEffect(() => {
    void read();
    // a link created on one account's screens would be paid to the other
    signIns.onmessage = ({ data: id }) => {
      if (isInside.current && id !== shownId.current) begin();
    };
  }, []);
  const leave = () => {
    newestRead.current++;
    forgetAll();
    navigate("/sign-in", { replace: true });
    setFault(undefined);
    setSignOutFault(undefined);
    setMe(null);
  };
  const signOut = async () => {
    try {
      await call("POST /v1/auth/logout", { isQuiet: true });
    } catch (error) {
      // the session may still be there, and the next person at this device would find it
      if (!(error instanceof Refusal && error.status === 401)) {
        return setSignOutFault(`${say("You may still be signed in on this device.")} ${messageOf(error)}`);
      }
    }
    leave();
  };
  if (fault && me?.status !== "ACTIVE")
    return (
      <main class="entry">
        <Notice kind="bad">{fault}</Notice>
        <Button onClick={() => void read()}>{say("Try again")}</Button>
      </main>
    );
  if (me === undefined) return <p class="hidden">{say("Loading")}</p>;
  if (path === RECOVER_PATH)
    return <Later>{({ others: { Recover } }) => <Recover me={me} onDone={begin} onLeave={leave} />}</Later>;
  if (location.pathname === UNKNOWN_PATH && me?.status !== "ACTIVE") return <Unknown />;
  if (me === null || me.status !== "ACTIVE")
    return (
      <SignIn
        begin={me ? { step: "wallet", email: me.email } : { step: "email", email: "" }}
        onDone={begin}
        onLeave={leave}
      />
    );
  if (ENTRY_PATHS.has(location.pathname)) navigate("/", { replace: true });
  return (
    <App
      key={me.id}
      me={me}
      fault={signOutFault ?? fault}
      onRetry={() => void (signOutFault ? signOut() : read())}
      onChange={() => void read()}
      onSignOut={() => void signOut()}
    />
  );
}

/** For people who are not signed in; others see it inside the frame. */
function Unknown() {
  return (
    <main class="entry">
      <div class="card">
        <h1>{say("There is no such page")}</h1>
        <p class="muted">{say("The address may be mistyped.")}</p>
        <a class="button main" href="/">
          {say("Go to the start page")}
        </a>
      </div>
    </main>
  );
}

const place = document.getElementById("app");
if (place) {
  place.replaceChildren();
  render(<Root />, place);
}
