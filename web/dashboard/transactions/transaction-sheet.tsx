/** Every field of a transaction, and the link that it may be assigned to. */
import { useAction } from "../frame/action.ts";
import { can } from "../frame/merchant.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import { Link } from "../frame/router.tsx";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { SETTLED_BY } from "../links/link-data.ts";
import { Button, Copy, Dialog } from "../parts/controls.tsx";
import { explainFailure } from "../parts/explain-failure.ts";
import { Fault } from "../parts/forms.tsx";
import { Address, Amount, Facts, Hash, Status, Time } from "../parts/page-parts.tsx";
import { sayTitle } from "./say-title.ts";
import { type Transaction, unsigned } from "./transaction-rows.tsx";

type Props = { transaction: Transaction; onClose: () => void };

export function TransactionSheet({ transaction, onClose }: Props) {
  const { id, type, metadata, network, transactionHash, candidates } = transaction;
  const isOut = type === "SEND";
  return (
    <Dialog title={sayTitle(transaction.title)} onClose={onClose} side>
      <p class="big plain">
        <Amount of={unsigned(transaction)} sign={isOut ? "−" : "+"} /> <span class="unit">USDC</span>
        <Status of={transaction.status} />
      </p>
      <Facts
        rows={[
          transaction.description && [say("Description"), <bdi>{transaction.description}</bdi>],
          [
            isOut ? say("Recipient") : say("Payer"),
            <>
              <Address of={transaction.clientWalletAddress} />{" "}
              <Copy text={transaction.clientWalletAddress} label={say("Copy the address")} />
            </>,
          ],
          [say("Network"), nameOfNetwork(network)],
          [say("First seen"), <Time of={transaction.detectedAt} isWhole />],
          transaction.confirmedAt && [say("Confirmed"), <Time of={transaction.confirmedAt} isWhole />],
          transactionHash && [
            say("Hash"),
            <>
              <Hash of={transactionHash} network={network} />{" "}
              <Copy text={transactionHash} label={say("Copy the hash")} />
            </>,
          ],
          transaction.blockNumber !== null && [say("Block"), String(transaction.blockNumber)],
          metadata.reference && [say("Reference"), <bdi>{metadata.reference}</bdi>],
          metadata.linkId && [
            say("Link"),
            <Link to={`/links/${metadata.linkId}`}>{say("Show the link")}</Link>,
          ],
          transaction.settledBy && [say("Matched by"), say(SETTLED_BY[transaction.settledBy])],
          metadata.failureReason && [say("Why it failed"), explainFailure(metadata.failureReason)],
          [
            "ID",
            <>
              <bdi class="mono">{id}</bdi> <Copy text={id} label={say("Copy the ID")} />
            </>,
          ],
        ]}
      />
      {candidates.length > 0 && can("transfers:assign") && (
        <Assign id={id} candidates={candidates} onDone={onClose} />
      )}
    </Dialog>
  );
}

type AssignProps = Pick<Transaction, "id" | "candidates"> & { onDone: () => void };

/** Several links match and nothing distinguishes them: the merchant chooses. */
function Assign({ id, candidates, onDone }: AssignProps) {
  const { isBusy, fault, change } = useAction();
  const assign = (linkId: string) =>
    change(["/v1/transactions", "/v1/payment-links", "/api/v1/public/"], async () => {
      await call("POST /v1/transactions/{id}/assign", { id, body: { linkId } });
      onDone();
    });
  return (
    <section aria-labelledby="assign">
      <h2 id="assign">{say("Which link does it pay?")}</h2>
      <ul class="rows">
        {candidates.map((linkId) => (
          <li key={linkId}>
            <span class="what">
              <Link to={`/links/${linkId}`}>
                <bdi class="mono">{linkId}</bdi>
              </Link>
            </span>
            <Button isBusy={isBusy} onClick={() => assign(linkId)}>
              {say("This one")}
            </Button>
          </li>
        ))}
      </ul>
      <Fault of={fault} />
    </section>
  );
}
