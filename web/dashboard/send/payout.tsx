/** Many recipients with one signature, from a table. */
import { useMemo, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { Link } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call } from "../frame/service.ts";
import { groupsWithPoint, itemOf, say, sayCount } from "../frame/texts.ts";
import { Button, Field, Notice } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { NetworkChoice } from "../parts/network-choice.tsx";
import { Amount, Screen, Table, USDC } from "../parts/page-parts.tsx";
import { readUnits, writeUnits } from "./check-signed-operation.ts";
import { actionsOf, toSign } from "./follow-send.ts";
import { LINES_MAX, type PayoutLine, readPayout, sumPayout } from "./parse-payout.ts";
import { RecentSends } from "./recent-sends.tsx";
import { SignSheet } from "./sign-sheet.tsx";

export function Payout({ me }: ScreenProps) {
  const [network, setNetwork] = useState(me.wallets[0]?.network ?? "base");
  const [text, setText] = useState("");
  /** The text of the last review. */
  const [asked, setAsked] = useState<string>();
  /** The service's response together with its request: lines may be edited meanwhile. */
  const [offer, setOffer] = useState<{
    prepared: Answer<"POST /v1/wallets/send/prepare">;
    shown: Parameters<typeof toSign>[1];
  }>();
  const { isBusy, fault, field, run } = useAction();
  const balance = useLoad("GET /v1/wallets/balance", { query: { network } });
  const own = me.wallets.find((wallet) => wallet.network === network)?.address ?? "";
  const lines = useMemo(() => readPayout(text, own, groupsWithPoint), [text, own]);
  const { payable, faulty, total } = sumPayout(lines);
  const held = balance.value?.balance.amount;
  const isTooMuch = held !== undefined && total > (readUnits(held) ?? 0n);
  const isReady = lines.length > 0 && lines.length <= LINES_MAX && faulty === 0 && !isTooMuch;
  const review = () => {
    setAsked(text);
    return run(async () => {
      const payments = lines.map(({ to, amount, note }) => ({ to, amount, ...(note ? { note } : {}) }));
      const prepared = await call("POST /v1/wallets/send/prepare", { body: { network, payments } });
      setOffer({ prepared, shown: { network, from: own, payments } });
    });
  };
  /** The line that the service refused, until the lines are edited. */
  const refused = text === asked && fault ? lines[itemOf(field)] : undefined;
  return (
    <Screen
      title={say("Payout")}
      lead={say("Up to {count} recipients with one signature: all of them are paid, or none.", {
        count: LINES_MAX,
      })}
      actions={
        <Link to="/send" class="button plain">
          {say("Send to one")}
        </Link>
      }
    >
      <section class="panel padded">
        <Form onSubmit={review}>
          <NetworkChoice wallets={me.wallets} value={network} onInput={setNetwork} />
          <Field
            label={say("Recipients")}
            isLong
            rows={8}
            value={text}
            onInput={setText}
            spellcheck={false}
            placeholder={"0x… , 12.50, note"}
            hint={say("One per line: address, amount, note. Paste them from a table, or choose a file.")}
          />
          <div class="file">
            <label for="payout-file">{say("CSV file")}</label>
            <input
              id="payout-file"
              type="file"
              accept=".csv,.tsv,.txt,text/csv,text/plain"
              onChange={(event) => void event.currentTarget.files?.[0]?.text().then(setText)}
            />
          </div>
          {lines.length > 0 && (
            <Lines lines={lines.map((line) => (line === refused ? { ...line, fault } : line))} />
          )}
          {lines.length > LINES_MAX && (
            <Notice kind="bad">
              {say("{count} lines: at most {max} fit into one signature.", {
                count: lines.length,
                max: LINES_MAX,
              })}
            </Notice>
          )}
          {isTooMuch && <Notice kind="bad">{say("The wallet holds less than the total.")}</Notice>}
          <Fault of={refused ? `${say("Line {number}", { number: refused.number })}: ${fault}` : fault} />
          <div class="actions">
            <Button kind="main" type="submit" isBusy={isBusy} isOff={!isReady}>
              {say("Review")}
            </Button>
            <p class="sum">
              {faulty > 0 && (
                <span class="error">
                  {sayCount(faulty, "{count} line has an error", "{count} lines have an error")} ·{" "}
                </span>
              )}
              {sayCount(payable, "{count} recipient", "{count} recipients")} ·{" "}
              <strong>
                <Amount of={writeUnits(total)} /> USDC
              </strong>
              {held !== undefined && (
                <span class="muted">
                  {" "}
                  · {say("The wallet holds")} <Amount of={held} />
                </span>
              )}
            </p>
          </div>
        </Form>
      </section>
      <RecentSends />
      {offer && (
        <SignSheet
          {...toSign(offer.prepared, offer.shown)}
          {...actionsOf(offer.prepared)}
          onClose={(isSigned) => {
            setOffer(undefined);
            if (isSigned) setText("");
          }}
        />
      )}
    </Screen>
  );
}

function Lines({ lines }: { lines: readonly PayoutLine[] }) {
  return (
    <Table label={say("Lines")} class="lines" columns={[say("Line"), say("Recipient"), USDC]}>
      {lines.map(({ number, to, amount, note, fault, twin }) => (
        <tr key={number}>
          <td class="when">{number}</td>
          <td class="main">
            <bdi class="mono">{to || "—"}</bdi>
            {fault ? (
              <span class="error">{say(fault, { number: twin ?? 0 })}</span>
            ) : (
              note && <bdi class="muted">{note}</bdi>
            )}
          </td>
          <td class="number">{amount || "—"}</td>
        </tr>
      ))}
    </Table>
  );
}
