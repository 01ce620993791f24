/** The session: who is signed in, and the dialog over the page that asks for the passkey when the session has ended, so that typed input stays. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "../parts/controls.tsx";
import { Submit } from "../parts/forms.tsx";
import { useAction } from "./action.ts";
import { signInWithPasskey } from "./passkey.ts";
import { type Answer, call, onPasskeyNeeded, type PasskeyReason } from "./service.ts";
import { say } from "./texts.ts";

export type Me = Answer<"GET /v1/auth/me">;

/** The account with this address signs in again. False: the person closed the dialog. */
export function PasskeyDialog({ email }: { email: string }) {
  const [reason, setReason] = useState<PasskeyReason>();
  const waiting = useRef<((isDone: boolean) => void)[]>([]);

  useEffect(() => {
    onPasskeyNeeded(
      (why) =>
        new Promise((resolve) => {
          waiting.current.push(resolve);
          setReason(why);
        }),
    );
    return () => onPasskeyNeeded(undefined);
  }, []);

  const finish = (isDone: boolean) => {
    for (const resolve of waiting.current.splice(0)) resolve(isDone);
    setReason(undefined);
  };
  return reason ? <Prompt key={reason} reason={reason} email={email} onEnd={finish} /> : null;
}

type PromptProps = { reason: PasskeyReason; email: string; onEnd: (isDone: boolean) => void };

function Prompt({ reason, email, onEnd }: PromptProps) {
  const action = useAction();
  const confirm = () =>
    action.run(async () => {
      const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true });
      if (!options.success) throw new Error(say("This account has no passkey yet. Sign in from the start."));
      await signInWithPasskey(email, options);
      onEnd(true);
    });
  return (
    <Dialog
      title={reason === "session" ? say("Sign in again") : say("Confirm that it is you")}
      onClose={() => onEnd(false)}
      narrow
    >
      <p class="muted">
        {reason === "session"
          ? say("Your session has ended. Use your passkey to continue: what you typed is still there.")
          : say("This change outlasts the session, so it needs a passkey used within the last 15 minutes.")}
      </p>
      <p class="who">{email}</p>
      <Submit
        action={action}
        text={say("Use passkey")}
        onClick={confirm}
        onClose={() => onEnd(false)}
        closeText={say("Not now")}
      />
    </Dialog>
  );
}
