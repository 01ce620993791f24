/** The form for a transfer that the page does not show: its hash and sender, and a signature when it matches several links. */
import { useState } from "preact/hooks";
import { type Hex, page, say } from "./page-data.ts";
import { Button } from "./panel.tsx";
import { claim } from "./service.ts";
import { connectToSign, Stop, signTypedData } from "./wallet-calls.ts";
import type { Wallet } from "./wallets.ts";

type Said = { text: string; tone: "" | "bad" | "warn" };

const TONES = {
  claimDone: "",
  claimProof: "warn",
  claimInvalid: "bad",
  claimUnrelated: "bad",
  claimFailed: "bad",
} as const;

export function ClaimForm({ wallets }: { wallets: readonly Wallet[] }) {
  const [hash, setHash] = useState("");
  const [sender, setSender] = useState("");
  /** Null while the service is asked. */
  const [said, setSaid] = useState<Said | null>();
  const [typedData, setTypedData] = useState<unknown>();

  async function send(signature?: Hex): Promise<void> {
    const given = { transactionHash: hash.trim(), clientWalletAddress: sender.trim() };
    setSaid(null);
    const { key, typedData } = await claim(page.link.linkId, {
      ...given,
      ...(signature ? { signature } : {}),
    });
    setTypedData(typedData);
    setSaid({ text: say(key), tone: TONES[key] });
  }

  async function prove(wallet: Wallet): Promise<void> {
    try {
      await connectToSign(wallet);
      await send(await signTypedData(wallet, sender.trim() as Hex, typedData));
    } catch (error) {
      setSaid({ text: error instanceof Stop ? error.message : say("claimFailed"), tone: "bad" });
    }
  }

  return (
    <details class="claim">
      <summary>{say("claimTitle")}</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <p class="small">{say("claimText")}</p>
        <Field label={say("claimHash")} value={hash} digits={64} onChange={setHash} />
        <Field label={say("claimFrom")} value={sender} digits={40} onChange={setSender} />
        <div role="status">{said && <p class={`note ${said.tone}`}>{said.text}</p>}</div>
        {typedData === undefined ? (
          <button type="submit" class="button second" disabled={said === null}>
            {say("claimSend")}
          </button>
        ) : (
          wallets.map((wallet) => (
            <Button key={wallet.id} isSecond onClick={() => prove(wallet)}>
              {say("claimSign", { wallet: wallet.name })}
            </Button>
          ))
        )}
      </form>
    </details>
  );
}

type FieldProps = { label: string; value: string; digits: number; onChange: (value: string) => void };

function Field({ label, value, digits, onChange }: FieldProps) {
  return (
    <label>
      {label}
      <input
        value={value}
        onInput={(event) => onChange(event.currentTarget.value)}
        pattern={`\\s*0x[0-9a-fA-F]{${digits}}\\s*`}
        placeholder="0x…"
        dir="ltr"
        autocomplete="off"
        spellcheck={false}
        required
      />
    </label>
  );
}
