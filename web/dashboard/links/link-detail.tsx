/** One link: what it asks for, what has happened to it so far, live, and what can be done. */
import { useEffect, useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { networkOf, page } from "../frame/page-data.ts";
import { Link, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { ADVICE } from "../overview/attention.tsx";
import { Button, Copy, Dialog, Notice } from "../parts/controls.tsx";
import {
  Address,
  Amount,
  Broken,
  Empty,
  Facts,
  Hash,
  Screen,
  Skeleton,
  Status,
  Time,
} from "../parts/page-parts.tsx";
import { type LinkData, openRequests, type PublicData, type Refunds } from "./link-data.ts";
import { LinkPayments } from "./link-payments.tsx";
import { AmountOf } from "./link-rows.tsx";
import { QrCode } from "./qr-code.tsx";
import { Timeline } from "./timeline.tsx";

export function LinkDetail({ me, id, query }: ScreenProps) {
  const loaded = useLoad("GET /v1/payment-links/{id}", { id });
  const open = useLoad("GET /api/v1/public/payment-links/{linkId}/data", { id });
  const refunds = useLoad("GET /v1/payment-links/{id}/refunds", { id });
  const link = loaded.value;
  if (loaded.error?.status === 404)
    return (
      <Screen title={say("Link")}>
        <Empty title={say("There is no such link")} action={<Link to="/links">{say("All links")}</Link>}>
          {say("It may belong to another account.")}
        </Empty>
      </Screen>
    );
  if (!link)
    return (
      <Screen title={say("Link")}>{loaded.error ? <Broken loaded={loaded} /> : <Skeleton rows={8} />}</Screen>
    );
  return (
    <Found
      link={link}
      open={open.value}
      refunds={refunds.value}
      from={me.wallets.find(({ network }) => network === link.network)?.address ?? ""}
      isNew={query.get("new") === "1"}
      isRefunding={query.get("open") === "refund"}
    />
  );
}

type FoundProps = {
  link: LinkData;
  open: PublicData | undefined;
  refunds: Refunds | undefined;
  /** The wallet that refunds leave. */
  from: string;
  isNew: boolean;
  isRefunding: boolean;
};

function Found({ link, open, refunds, from, isNew, isRefunding }: FoundProps) {
  const isOpen = link.status === "ACTIVE" || link.status === "PENDING";
  const isReusable = open?.reusable === true;
  const isRequested = refunds !== undefined && openRequests(refunds).length > 0;
  const canRefund = can("money:send") && (isRequested || Number(refunds?.refundable ?? 0) > 0);
  return (
    <Screen
      title={link.description}
      lead={
        <>
          <Link to="/links">{say("Links")}</Link> <span aria-hidden="true">/</span>{" "}
          <bdi class="mono">{link.id}</bdi>
        </>
      }
      actions={
        <>
          {canRefund && <Button onClick={() => setQuery({ open: "refund" })}>{say("Refund")}</Button>}
          {link.status === "ACTIVE" && can("links:write") && <CancelLink id={link.id} />}
          {(link.status === "EXPIRED" || link.status === "CANCELLED") && can("links:write") && (
            <Link to="/links?new=1" class="button plain">
              {say("Make a new one")}
            </Link>
          )}
          {link.status === "PAID" && (
            <a class="button plain" href={`/pay/${link.id}/receipt`} target="_blank" rel="noopener">
              {say("Receipt")}
            </a>
          )}
        </>
      }
    >
      {isNew && isOpen && <Notice kind="ok">{say("The link is ready. Send it, or show its code.")}</Notice>}
      {isRequested && (
        <Notice kind="warn">
          <p>{say("A refund was requested")}</p>
          <Button onClick={() => setQuery({ open: "refund" })}>{say("Review the request")}</Button>
        </Notice>
      )}
      {link.exception !== "NONE" && <Notice kind="warn">{say(ADVICE[link.exception])}</Notice>}
      <div class="columns">
        <section class="panel" aria-labelledby="amount">
          <h2 id="amount" class="hidden">
            {say("Amount and progress")}
          </h2>
          <p class="big">
            <AmountOf link={link} /> <span class="unit">USDC</span>
            <Status of={link.status} />
            {link.exception !== "NONE" && <Status of={link.exception} />}
          </p>
          {!isReusable && <Timeline link={link} open={open} refunds={refunds} />}
          <Facts
            rows={[
              open?.payer && [say("Payer"), <Address of={open.payer} />],
              open?.transactionHash && [
                say("Transaction"),
                <Hash of={open.transactionHash} network={link.network} />,
              ],
              [say("Network"), networkOf(link.network)?.name ?? link.network],
              link.minAmount !== null && [say("At least"), <Amount of={link.minAmount} />],
              link.maxAmount !== null && [say("At most"), <Amount of={link.maxAmount} />],
              [say("Open until"), <Time of={link.expiresAt} />],
              link.reference && [say("Reference"), <bdi>{link.reference}</bdi>],
              link.customerEmail && [say("Customer"), <bdi>{link.customerEmail}</bdi>],
              ...Object.entries(link.metadata).map(([name, value]) => [name, <bdi>{value}</bdi>] as const),
              link.settledBy && [say("Known by"), say(link.settledBy)],
            ]}
          />
        </section>
        <section class="panel share" aria-labelledby="share">
          <h2 id="share">{isOpen ? say("Share") : say("Addresses")}</h2>
          {isOpen && <QrCode text={link.url} label={say("Code of the payment page")} />}
          <div class="address-line">
            <a href={link.url} target="_blank" rel="noopener" class="mono">
              {link.url}
            </a>
            <Copy text={link.url} label={say("Copy the link")} />
          </div>
          {isOpen && (
            <div class="actions">
              <Copy text={link.url} label={say("Copy the link")}>
                {say("Copy link")}
              </Copy>
              <a class="button plain" href={link.url} target="_blank" rel="noopener">
                {page.hasTestWallet ? say("Open and pay") : say("Open its page")}
              </a>
            </div>
          )}
          <details>
            <summary>{say("For agents (x402)")}</summary>
            <div class="address-line">
              <code>{link.aiUrl}</code>
              <Copy text={link.aiUrl} label={say("Copy the address for agents")} />
            </div>
            <pre>{`curl -i ${link.aiUrl}`}</pre>
          </details>
        </section>
      </div>
      {isReusable && <LinkPayments id={link.id} />}
      {refunds && refunds.refunds.length > 0 && <RefundRows refunds={refunds} />}
      {isRefunding && refunds && can("money:send") && (
        <RefundLater link={link} refunds={refunds} from={from} />
      )}
    </Screen>
  );
}

function CancelLink({ id }: { id: string }) {
  const [isAsking, setAsking] = useState(false);
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      await call("POST /v1/payment-links/{id}/cancel", { id });
      setAsking(false);
      invalidate("/v1/payment-links", "/api/v1/public/");
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <>
      <Button onClick={() => setAsking(true)}>{say("Cancel link")}</Button>
      {isAsking && (
        <Dialog title={say("Cancel this link?")} onClose={() => setAsking(false)} narrow>
          <p class="muted">
            {say(
              "Nobody can pay it any more. What is on its way already still arrives, and can be refunded.",
            )}
          </p>
          {fault && <Notice kind="bad">{fault}</Notice>}
          <div class="actions">
            <Button kind="danger" isBusy={isBusy} onClick={cancel}>
              {say("Cancel link")}
            </Button>
            <Button onClick={() => setAsking(false)}>{say("Keep it")}</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function RefundRows({ refunds: { refunds } }: { refunds: Refunds }) {
  return (
    <section class="panel" aria-labelledby="refunds">
      <h2 id="refunds">{say("Refunds")}</h2>
      <ul class="rows">
        {refunds.map((refund) => (
          <li key={refund.refundId}>
            <Status of={refund.status} />
            <span class="what">
              <Address of={refund.to} />
              {refund.note && <bdi class="muted">{refund.note}</bdi>}
            </span>
            <Time of={refund.createdAt} />
            <Amount of={refund.amount} sign="−" />
            {refund.transactionHash && <Hash of={refund.transactionHash} network={refund.network} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

type RefundPart = typeof import("../send/refund.tsx").Refund;

/** Signing is loaded when it is first needed. */
function RefundLater(props: { link: LinkData; refunds: Refunds; from: string }) {
  const [Part, setPart] = useState<RefundPart>();
  useEffect(() => void import("../send/refund.tsx").then(({ Refund }) => setPart(() => Refund)), []);
  return Part ? <Part {...props} onClose={() => setQuery({ open: undefined }, { replace: true })} /> : null;
}
