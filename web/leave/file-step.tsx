/** Step 1: the wallet file, chosen or pasted. It never leaves this page. */
import { useState } from "preact/hooks";
import { checksummed } from "./amounts.ts";
import { Card, Fact, Facts, Hash, Problem } from "./parts.tsx";
import { isOnDomain } from "./passkey.ts";
import { explain } from "./user-error.ts";
import { readWalletFile, type WalletFile } from "./wallet-file.ts";

type FileStepProps = {
  file: WalletFile | undefined;
  onFile: (file: WalletFile) => void;
  onChange: (() => void) | undefined;
};

export function FileStep({ file, onFile, onChange }: FileStepProps) {
  const [problem, setProblem] = useState<string>();
  const [pasted, setPasted] = useState("");

  async function take(read: () => Promise<string>): Promise<void> {
    try {
      const taken = readWalletFile(await read());
      setProblem(undefined);
      onFile(taken);
    } catch (error) {
      setProblem(explain(error));
    }
  }

  if (file)
    return (
      <Card title="1. Your wallet file" isCurrent={false} onChange={onChange}>
        <Facts>
          <Fact label="Wallet">
            <Hash>{checksummed(file.address)}</Hash>
          </Fact>
          <Fact label="Passkeys of">{file.rpId}</Fact>
        </Facts>
        <Place rpId={file.rpId} />
      </Card>
    );
  return (
    <Card title="1. Your wallet file" isCurrent={true}>
      <p>
        It is called <code>wallet-0x….json</code>. You got it by mail when your wallet was set up, and could
        download it at any time. The file is read here and sent nowhere.
      </p>
      <Problem text={problem} />
      <label class="button file">
        <span>Choose the wallet file</span>
        <input
          type="file"
          accept=".json,application/json"
          onChange={({ currentTarget }) => {
            const chosen = currentTarget.files?.[0];
            // so that the same file can be chosen again
            if (chosen)
              take(() => chosen.text()).finally(() => {
                currentTarget.value = "";
              });
          }}
        />
      </label>
      <details>
        <summary>Paste its text instead</summary>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            take(async () => pasted);
          }}
        >
          <label for="pasted">Text of the wallet file</label>
          <textarea
            id="pasted"
            rows={6}
            spellcheck={false}
            value={pasted}
            onInput={({ currentTarget }) => setPasted(currentTarget.value)}
          />
          <button type="submit" class="button second">
            Read it
          </button>
        </form>
      </details>
    </Card>
  );
}

/** A browser lets a passkey sign only on its own domain, no matter who serves the page there. */
function Place({ rpId }: { rpId: string }) {
  const here = location.host || "a file";
  const isRight = isOnDomain(location.hostname, rpId) && isSecureContext;
  if (isRight) return <p class="note ok">Passkeys of {rpId} can sign on this page.</p>;
  return (
    <div class="note warn">
      <p>
        <strong>
          This page was opened at {here}. Passkeys of {rpId} sign here only if that domain still lists this
          address.
        </strong>{" "}
        Everything else works, and an owner address can move the funds from anywhere.
      </p>
      <details>
        <summary>Where this page must be opened</summary>
        <p>
          At <code>https://{rpId}</code>, on any port. It does not matter who serves it: your own computer
          can, if it takes that name for itself.
        </p>
        <ol>
          <li>
            Add the line <code>127.0.0.1 {rpId}</code> to the hosts file of your computer.
          </li>
          <li>
            Serve this file at <code>https://{rpId}:8443</code> with a certificate that your browser trusts.
            The service's sources make one and serve the page with <code>npm run leave -- {rpId}</code>;{" "}
            <code>mkcert</code> and any web server do as well.
          </li>
          <li>Open it there, and remove the line when you are done.</li>
        </ol>
      </details>
    </div>
  );
}
