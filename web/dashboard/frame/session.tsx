/** Who is signed in, and the dialog that asks for the passkey over the page when the session is over: what was typed stays. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Dialog, Notice } from "../parts/controls.tsx";
import { signInWithPasskey } from "./passkey.ts";
import { type Answer, call, messageOf, onPasskeyNeeded, type PasskeyReason } from "./service.ts";
import { say } from "./words.ts";

export type Me = Answer<"GET /v1/auth/me">;

/** The account with this address signs in again. False: the person closed the dialog. */
export function PasskeyDialog({ email }: { email: string }) {
  const [reason, setReason] = useState<PasskeyReason>();
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const waiting = useRef<((isDone: boolean) => void)[]>([]);

  useEffect(() => {
    onPasskeyNeeded(
      (why) =>
        new Promise((resolve) => {
          waiting.current.push(resolve);
          setFault(undefined);
          setReason(why);
        }),
    );
    return () => onPasskeyNeeded(undefined);
  }, []);

  const finish = (isDone: boolean) => {
    for (const resolve of waiting.current.splice(0)) resolve(isDone);
    setReason(undefined);
  };
  const confirm = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true });
      if (!options.success) throw new Error(say("This account has no passkey yet. Sign in from the start."));
      await signInWithPasskey(email, options);
      finish(true);
    } catch (error) {
      setFault(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  if (!reason) return null;
  return (
    <Dialog
      title={reason === "session" ? say("Sign in again") : say("Confirm that it is you")}
      onClose={() => finish(false)}
      narrow
    >
      <p class="muted">
        {reason === "session"
          ? say("Your session is over. Use your passkey to go on: what you typed is still there.")
          : say(
              "This change outlives the session, so it takes your passkey, used within the last 15 minutes.",
            )}
      </p>
      <p class="who">{email}</p>
      {fault && <Notice kind="bad">{fault}</Notice>}
      <div class="actions">
        <Button kind="main" isBusy={isBusy} onClick={confirm}>
          {say("Use passkey")}
        </Button>
        <Button onClick={() => finish(false)}>{say("Not now")}</Button>
      </div>
    </Dialog>
  );
}
