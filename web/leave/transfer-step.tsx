/** Step 3: how much goes where, and which owner signs. */
import { useState } from "preact/hooks";
import type { Hex } from "../chain/networks.ts";
import type { Account } from "./account.ts";
import { checksummed, formatAmount, readAmount, readRecipient } from "./amounts.ts";
import { ownerAddress } from "./network-step.tsx";
import { Card, Fact, Facts, Hash, Problem } from "./parts.tsx";
import { explain } from "./user-error.ts";
import type { Transfer } from "./user-operation.ts";

/** `anyPasskey`: also one that is not in the file. */
export type Signer =
  | { readonly kind: "passkey" }
  | { readonly kind: "anyPasskey" }
  | { readonly kind: "address"; readonly address: Hex };

export type Draft = { readonly transfer: Transfer; readonly signer: Signer };

type TransferStepProps = {
  account: Account;
  draft: Draft | undefined;
  onDraft: (draft: Draft) => void;
  onChange: (() => void) | undefined;
};

const TITLE = "3. What to move";

export function TransferStep({ account, draft, onDraft, onChange }: TransferStepProps) {
  const [to, setTo] = useState("");
  const [amount, setAmount] = useState(() => formatAmount(account.balanceUnits));
  const signers = signersOf(account);
  const [chosen, setChosen] = useState(0);
  const [problem, setProblem] = useState<string>();

  function review(): void {
    try {
      const transfer = { to: readRecipient(to, account), amountUnits: readAmount(amount, account) };
      setProblem(undefined);
      onDraft({ transfer, signer: signers[chosen]?.signer ?? { kind: "passkey" } });
    } catch (error) {
      setProblem(explain(error));
    }
  }

  if (draft)
    return (
      <Card title={TITLE} isCurrent={false} onChange={onChange}>
        <Facts>
          <Fact label="Amount">{formatAmount(draft.transfer.amountUnits)} USDC</Fact>
          <Fact label="To">
            <Hash>{checksummed(draft.transfer.to)}</Hash>
          </Fact>
        </Facts>
      </Card>
    );
  if (account.balanceUnits === 0n)
    return (
      <Card title={TITLE} isCurrent={true}>
        <p class="note warn">
          This wallet holds no USDC on {account.network.name}. There is nothing to move.
        </p>
      </Card>
    );
  return (
    <Card title={TITLE} isCurrent={true}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          review();
        }}
      >
        <label for="to">Recipient's address</label>
        <input
          id="to"
          type="text"
          autocomplete="off"
          spellcheck={false}
          required
          placeholder="0x…"
          value={to}
          onInput={({ currentTarget }) => setTo(currentTarget.value)}
        />
        <p class="hint">
          An address of yours on {account.network.name}. At an exchange, ask first whether it takes USDC from
          this network.
        </p>
        <label for="amount">Amount in USDC</label>
        <input
          id="amount"
          type="text"
          inputMode="decimal"
          autocomplete="off"
          required
          value={amount}
          onInput={({ currentTarget }) => setAmount(currentTarget.value)}
        />
        <fieldset>
          <legend>Signed by</legend>
          {signers.map(({ label }, index) => (
            <label key={label} class="choice">
              <input
                type="radio"
                name="signer"
                checked={index === chosen}
                onChange={() => setChosen(index)}
              />
              <span>{label}</span>
            </label>
          ))}
        </fieldset>
        <Problem text={problem} />
        <button type="submit" class="button">
          Review
        </button>
      </form>
    </Card>
  );
}

function signersOf({ file, owners }: Account): { label: string; signer: Signer }[] {
  const addresses = owners.filter(({ bytes }) => bytes.length === 66).map(({ bytes }) => ownerAddress(bytes));
  return [
    ...(file.credentials.length > 0
      ? [{ label: "a passkey in the wallet file", signer: { kind: "passkey" } as const }]
      : []),
    { label: "another passkey of this wallet", signer: { kind: "anyPasskey" } },
    ...addresses.map((address) => ({
      label: `the owner address ${checksummed(address)}, in a browser wallet`,
      signer: { kind: "address", address } as const,
    })),
  ];
}
