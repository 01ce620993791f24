/** The six digits from the mail. */
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { page } from "../frame/page-data.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";

const COOL_DOWN_S = 60;
const DIGITS = 6;

type Props = {
  email: string;
  verify: (otp: string) => Promise<unknown>;
  /** Undefined where a new code needs a new start. */
  resend?: () => Promise<unknown>;
  onBack: () => void;
  backText: string;
};

export function CodeStep({ email, onBack, backText, ...given }: Props) {
  const [code, setCode] = useState("");
  const action = useAction();
  const { isBusy, run } = action;
  const [waitS, setWaitS] = useState(COOL_DOWN_S);
  useEffect(() => {
    const timer = setInterval(() => setWaitS((left) => Math.max(0, left - 1)), 1_000);
    return () => clearInterval(timer);
  }, []);

  const verify = (otp: string) => run(() => given.verify(otp));
  const type = (text: string) => {
    const digits = text.replace(/\D/g, "").slice(0, DIGITS);
    setCode(digits);
    if (digits.length === DIGITS && digits !== code) void verify(digits);
  };
  const resend = () =>
    run(async () => {
      await given.resend?.();
      setWaitS(COOL_DOWN_S);
    });
  const readMailbox = () =>
    run(async () => {
      const { text } = await call("POST /v1/test/outbox", { body: { email }, isQuiet: true });
      const found = /\b\d{6}\b/.exec(text)?.[0];
      if (found) type(found);
    });
  return (
    <Form class="" onSubmit={() => verify(code)}>
      <h1>{say("Check your mail")}</h1>
      <p class="muted">
        {say("We sent a code to")} <bdi class="strong">{email}</bdi>
      </p>
      <Field
        label={say("6-digit code")}
        value={code}
        onInput={type}
        inputMode="numeric"
        autocomplete="one-time-code"
        pattern="[0-9]{6}"
        required
        autofocus
      />
      <Fault of={action.fault} />
      <Button kind="main" type="submit" isBusy={isBusy}>
        {say("Verify")}
      </Button>
      {page.hasMailbox && (
        <Button onClick={readMailbox} isBusy={isBusy}>
          {say("Read the code from the local mailbox")}
        </Button>
      )}
      <div class="actions between">
        <Button kind="quiet" onClick={onBack}>
          {backText}
        </Button>
        {given.resend && (
          <Button kind="quiet" isOff={waitS > 0} onClick={resend}>
            {waitS > 0 ? say("New code in {seconds} s", { seconds: waitS }) : say("Send a new code")}
          </Button>
        )}
      </div>
    </Form>
  );
}
