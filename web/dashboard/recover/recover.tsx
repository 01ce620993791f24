/**
 * A lost passkey: a recovery wallet and the code from the mailbox open a session that may only register another passkey, which the wallet then
 * makes an owner on the chain. What is left to do is kept in this tab, so that a reload continues.
 */
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { navigate } from "../frame/router.tsx";
import { call, Refusal } from "../frame/service.ts";
import type { Me } from "../frame/session.tsx";
import { say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Fault } from "../parts/forms.tsx";
import { CodeStep } from "../sign-in/code-step.tsx";
import { Entry } from "../sign-in/entry.tsx";
import { NewPasskeyStep } from "./new-passkey-step.tsx";
import { OwnerStep } from "./owner-step.tsx";
import { type Proof, ProofStep } from "./proof-step.tsx";
import { forgetRegistered, type Registered, readRegistered, storeRegistered } from "./registered.ts";

type Step =
  | { is: "proof"; email: string }
  | { is: "code"; proof: Proof }
  | { is: "passkey"; email: string }
  | { is: "owner"; registered: Registered };

export type RecoverProps = {
  /** Who is signed in, perhaps only to recover. */
  me: Me | null;
  onDone: () => void;
  onLeave: () => void;
};

export function Recover({ me, onDone, onLeave }: RecoverProps) {
  const [step, setStep] = useState<Step | undefined>(() => {
    const registered = readRegistered();
    // what is left needs no session, which may have ended meanwhile
    if (registered && (!me || registered.email.toLowerCase() === me.email))
      return { is: "owner", registered };
    return me ? undefined : { is: "proof", email: "" };
  });
  const action = useAction();
  const restart = () =>
    action.run(async () => {
      forgetRegistered();
      if (me || step?.is === "passkey" || step?.is === "owner")
        await call("POST /v1/auth/logout", { isQuiet: true }).catch((error: unknown) => {
          if (!(error instanceof Refusal && error.status === 401)) throw error;
        });
      onLeave();
    });
  useEffect(() => {
    if (!me || step) return;
    void action.run(async () => {
      if (await isRecovering()) setStep({ is: "passkey", email: me.email });
      else navigate("/", { replace: true });
    });
  }, []);
  return (
    <Entry>
      {step?.is === "proof" && (
        <ProofStep initial={step.email} onProven={(proof) => setStep({ is: "code", proof })} />
      )}
      {step?.is === "code" && (
        <CodeStep
          email={step.proof.email}
          verify={async (otp) => {
            await call("POST /v1/auth/recover", { body: { ...step.proof, otp }, isQuiet: true });
            setStep({ is: "passkey", email: step.proof.email });
          }}
          onBack={() => setStep({ is: "proof", email: step.proof.email })}
          backText={say("Start again")}
        />
      )}
      {step?.is === "passkey" && (
        <NewPasskeyStep
          onMade={(made) => {
            const registered = { email: step.email, ...made };
            storeRegistered(registered);
            setStep({ is: "owner", registered });
          }}
        />
      )}
      {step?.is === "owner" && (
        <OwnerStep
          registered={step.registered}
          onSignedIn={() => {
            forgetRegistered();
            navigate("/wallet", { replace: true });
            onDone();
          }}
        />
      )}
      <Fault of={action.fault} />
      <Button kind="quiet" isBusy={action.isBusy} onClick={restart}>
        {say("Back to sign-in")}
      </Button>
    </Entry>
  );
}

/** Whether this is the session of a recovery, which reads nothing else. */
async function isRecovering(): Promise<boolean> {
  try {
    await call("GET /v1/auth/sessions", { isQuiet: true });
    return false;
  } catch (error) {
    if (error instanceof Refusal && error.issue === "recovery_session") return true;
    throw error;
  }
}
