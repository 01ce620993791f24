/** The history as a table; a row opens its details next to it. */
import { setQuery } from "../frame/router.tsx";
import type { Answer } from "../frame/service.ts";
import { say, shorten } from "../frame/texts.ts";
import { Amount, Status, Table, Time, USDC } from "../parts/page-parts.tsx";
import { sayTitle } from "./say-title.ts";

export type Transaction = Answer<"GET /v1/transactions">["data"]["transactions"][number];

type Props = { transactions: readonly Transaction[]; isOld: boolean };

export function TransactionRows({ transactions, isOld }: Props) {
  return (
    <Table
      label={say("Transactions")}
      columns={[say("What"), say("Status"), say("Counterparty"), say("When"), USDC]}
      isOld={isOld}
    >
      {transactions.map((transaction) => (
        <tr key={transaction.id}>
          <td class="main">
            <button type="button" onClick={() => setQuery({ open: transaction.id })}>
              <bdi>{sayTitle(transaction.title)}</bdi>
            </button>
            {transaction.candidates.length > 0 && (
              <span class="status warn">{say("Several links match")}</span>
            )}
          </td>
          <td class="state">
            <Status of={transaction.status} />
          </td>
          <td class="second mono">
            <bdi title={transaction.clientWalletAddress}>{shorten(transaction.clientWalletAddress)}</bdi>
          </td>
          <td class="when">
            <Time of={transaction.detectedAt} />
          </td>
          <td class={`number ${transaction.type === "SEND" ? "minus" : "plus"}`}>
            <Amount of={unsigned(transaction)} sign={transaction.type === "SEND" ? "−" : "+"} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export const unsigned = ({ amount }: Pick<Transaction, "amount">) => amount.replace(/^[-+]/, "");
