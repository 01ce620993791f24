/** The form for a transfer that the page does not show: its hash and sender, and a signature when it matches several links. */
import { useState } from "preact/hooks";
import { type Hex, type Messages, page, say } from "./page-data.ts";
import { Button } from "./panel.tsx";
import { claim } from "./service.ts";
import { connectToSign, Stop, signTypedData } from "./wallet-calls.ts";
import type { Wallet } from "./wallets.ts";

type Said = { key: keyof Messages; tone: "" | "bad" | "warn" } | { text: string; tone: "bad" };

const SAID = {
  taken: { key: "claimDone", tone: "" },
  needsProof: { key: "claimProof", tone: "warn" },
} as const;

export function ClaimForm({ wallets }: { wallets: readonly Wallet[] }) {
  const [hash, setHash] = useState("");
  const [sender, setSender] = useState("");
  const [said, setSaid] = useState<Said>();
  const [typedData, setTypedData] = useState<unknown>();

  async function send(signature?: Hex): Promise<void> {
    const given = { transactionHash: hash.trim(), clientWalletAddress: sender.trim() };
    const answer = await claim(page.link.linkId, { ...given, ...(signature ? { signature } : {}) });
    setTypedData(answer.kind === "needsProof" ? answer.typedData : undefined);
    setSaid(answer.kind === "refused" ? { key: answer.key, tone: "bad" } : SAID[answer.kind]);
  }

  async function prove(wallet: Wallet): Promise<void> {
    try {
      await connectToSign(wallet, page);
      await send(await signTypedData(wallet, sender.trim() as Hex, typedData));
    } catch (error) {
      setSaid(
        error instanceof Stop ? { text: error.message, tone: "bad" } : { key: "claimFailed", tone: "bad" },
      );
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
        <div role="status">
          {said && <p class={`note ${said.tone}`}>{"text" in said ? said.text : say(said.key)}</p>}
        </div>
        {typedData === undefined ? (
          <button type="submit" class="button second">
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
