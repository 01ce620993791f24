/** Sign-up and sign-in in one sequence: an e-mail address, a code when it is new, then the passkey. */
import { useEffect, useRef, useState } from "preact/hooks";
import { page } from "../frame/page-data.ts";
import { signInFromList, signInWithPasskey } from "../frame/passkey.ts";
import { Link, usePlace } from "../frame/router.tsx";
import { call, messageOf, Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { CodeStep } from "./code-step.tsx";
import { Entry } from "./entry.tsx";
import { WalletStep } from "./wallet-step.tsx";

type Step = "email" | "code" | "wallet";

const NOT_LINKED =
  "This Google account is not linked here. Sign in with your passkey, then link it under Security.";
const GOOGLE_FAULTS: Readonly<Record<string, string>> = {
  link_required: NOT_LINKED,
  link_requires_passkey: NOT_LINKED,
};

type Props = { begin: { step: Step; email: string }; onDone: () => void; onLeave: () => void };

/** `begin`: "wallet" for somebody who is signed in and has no wallet yet. */
export function SignIn({ begin, onDone, onLeave }: Props) {
  const [{ step, email }, setState] = useState(begin);
  return (
    <Entry>
      {step === "email" && (
        <EmailStep
          initial={email}
          onCode={(address) => setState({ step: "code", email: address })}
          onDone={onDone}
        />
      )}
      {step === "code" && (
        <CodeStep
          email={email}
          verify={async (otp) => {
            await call("POST /v1/email-verification/verify", { body: { email, otp }, isQuiet: true });
            setState({ step: "wallet", email });
          }}
          resend={() => call("POST /v1/email-verification/resend", { body: { email }, isQuiet: true })}
          onBack={() => setState({ step: "email", email })}
          backText={say("Another address")}
        />
      )}
      {step === "wallet" && (
        <WalletStep
          email={email}
          onDone={onDone}
          onLeave={() => {
            setState({ step: "email", email: "" });
            onLeave();
          }}
        />
      )}
    </Entry>
  );
}

type EmailProps = { initial: string; onCode: (email: string) => void; onDone: () => void };

function EmailStep({ initial, onCode, onDone }: EmailProps) {
  const { query } = usePlace();
  const given = query.get("error");
  const [email, setEmail] = useState(initial);
  const [fault, setFault] = useState(
    given ? say(GOOGLE_FAULTS[given] ?? "The sign-in with Google did not work. Try again.") : undefined,
  );
  const [isBusy, setBusy] = useState(false);
  /** Passkey autofill at the field; only one passkey request may be open at a time. */
  const list = useRef<AbortController | undefined>(undefined);
  const offer = async () => {
    const own = new AbortController();
    list.current = own;
    try {
      if (await signInFromList(own.signal)) onDone();
    } catch (error) {
      if (!own.signal.aborted) setFault(messageOf(error));
    }
  };
  useEffect(() => {
    void offer();
    return () => list.current?.abort();
  }, []);

  const go = async () => {
    setBusy(true);
    setFault(undefined);
    list.current?.abort();
    try {
      const address = email.trim();
      const next = await begin(address);
      if (next === "code") onCode(address);
      else {
        await signInWithPasskey(address, next);
        onDone();
      }
    } catch (error) {
      setFault(messageOf(error));
      void offer();
    } finally {
      setBusy(false);
    }
  };
  return (
    <Form class="" onSubmit={go}>
      <h1>{say("Sign in or sign up")}</h1>
      <Field
        label={say("E-mail address")}
        type="email"
        name="email"
        value={email}
        onInput={setEmail}
        autocomplete="username webauthn"
        required
        maxLength={254}
        autofocus
      />
      <Fault of={fault} />
      <Button kind="main" type="submit" isBusy={isBusy}>
        {say("Continue")}
      </Button>
      {page.hasGoogle && (
        <a class="button plain" href="/v1/auth/google/authorize">
          {say("Continue with Google")}
        </a>
      )}
      <p class="muted small">
        {say("No password: your passkey is the only key to your wallet. We cannot move your money.")}
      </p>
      <Link to="/recover">{say("Lost your passkey?")}</Link>
    </Form>
  );
}

/** "code": a mail was sent. Otherwise the passkey's challenge. */
async function begin(email: string) {
  try {
    const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true });
    if (options.success) return options;
    // an unfinished account continues with a new code
    if (options.reason === "WALLET_SETUP_REQUIRED") await resend(email);
    return "code" as const;
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) throw error;
    await call("POST /v1/identity/register", { body: { email }, isQuiet: true });
    return "code" as const;
  }
}

/** A recently sent code is still valid. */
async function resend(email: string): Promise<void> {
  try {
    await call("POST /v1/email-verification/resend", { body: { email }, isQuiet: true });
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 429)) throw error;
  }
}
