/** One link: its terms, its history so far, live, and the possible actions. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { Later } from "../frame/later.tsx";
import { invalidate, useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { nameOfNetwork, page } from "../frame/page-data.ts";
import { Link, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { ADVICE } from "../overview/link-exceptions.tsx";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Check, Copy, Notice } from "../parts/controls.tsx";
import { Fault, Panel } from "../parts/forms.tsx";
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
import { type LinkData, openRequests, type PublicData, type Refunds, SETTLED_BY } from "./link-data.ts";
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
      outdated={loaded.error && <Broken loaded={loaded} />}
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
  /** Why it could not be read again. */
  outdated: ComponentChildren;
  open: PublicData | undefined;
  refunds: Refunds | undefined;
  /** The wallet that refunds are sent from. */
  from: string;
  isNew: boolean;
  isRefunding: boolean;
};

function Found({ link, outdated, open, refunds, from, isNew, isRefunding }: FoundProps) {
  const isOpen = link.status === "ACTIVE" || link.status === "PENDING";
  const isReusable = open?.reusable === true;
  const isUsedUp = isReusable && link.status === "ACTIVE" && !open.payable;
  const isShared = isOpen && !isUsedUp;
  const isRequested = refunds !== undefined && openRequests(refunds).length > 0;
  const isRefundable = Number(refunds?.refundable ?? 0) > 0;
  const canSign = can("money:send");
  const canAsk = can("refunds:request");
  const mayRefund = canSign ? isRequested || isRefundable : canAsk && isRefundable;
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
          {mayRefund && (
            <Button onClick={() => setQuery({ open: "refund" })}>
              {canSign ? say("Refund") : say("Ask for a refund")}
            </Button>
          )}
          {link.status === "ACTIVE" && can("links:write") && <CancelLink id={link.id} />}
          {(link.status === "EXPIRED" || link.status === "CANCELLED") && can("links:write") && (
            <Link to="/links?new=1" class="button plain">
              {say("Create a new one")}
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
      {outdated}
      {isNew && isOpen && (
        <Notice kind="ok">{say("The link is ready. Send it, or show its QR code.")}</Notice>
      )}
      {isRequested && (
        <Notice kind="warn">
          <p>{say("A refund was requested")}</p>
          {canSign ? (
            <Button onClick={() => setQuery({ open: "refund" })}>{say("Review the request")}</Button>
          ) : (
            <p class="muted">{say("An owner of the wallet signs it, or declines.")}</p>
          )}
        </Notice>
      )}
      {isUsedUp && (
        <Notice kind="info">
          {say(
            "Its maximum number of payments is made or in progress, so no new one can begin. After 15 minutes, one that is begun but not paid gives its place to the next payer.",
          )}
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
            <Status of={isUsedUp ? "USED_UP" : link.status} />
            {link.exception !== "NONE" && <Status of={link.exception} />}
          </p>
          {!isReusable && <Timeline link={link} open={open} refunds={refunds} />}
          <Facts
            rows={[
              open?.payer && [
                say("Payer"),
                <>
                  <Address of={open.payer} /> <Copy text={open.payer} label={say("Copy the address")} />
                </>,
              ],
              open?.transactionHash && [
                say("Transaction"),
                <>
                  <Hash of={open.transactionHash} network={link.network} />{" "}
                  <Copy text={open.transactionHash} label={say("Copy the hash")} />
                </>,
              ],
              [say("Network"), nameOfNetwork(link.network)],
              link.minAmount !== null && [say("At least"), <Amount of={link.minAmount} />],
              link.maxAmount !== null && [say("At most"), <Amount of={link.maxAmount} />],
              isReusable && link.maxPayments !== null && [say("Payments at most"), link.maxPayments],
              [say("Open until"), <Time of={link.expiresAt} isWhole />],
              link.reference && [say("Reference"), <bdi>{link.reference}</bdi>],
              link.customerEmail && [say("Customer"), <bdi>{link.customerEmail}</bdi>],
              ...Object.entries(link.metadata).map(([name, value]) => [name, <bdi>{value}</bdi>] as const),
              link.settledBy && [say("Matched by"), say(SETTLED_BY[link.settledBy])],
            ]}
          />
        </section>
        <Panel class="share" title={isShared ? say("Share") : say("Addresses")}>
          {isShared && <QrCode text={link.url} label={say("QR code of the payment page")} />}
          <div class="address-line">
            <a href={link.url} target="_blank" rel="noopener" class="mono">
              {link.url}
            </a>
            <Copy text={link.url} label={say("Copy the link")} />
          </div>
          {isShared && (
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
            {isOpen && can("links:write") && <Listing link={link} />}
          </details>
        </Panel>
      </div>
      {isReusable && <LinkPayments id={link.id} />}
      {refunds && refunds.refunds.length > 0 && <RefundRows refunds={refunds} />}
      {/* stays when nothing is left to refund: it is still following what was signed */}
      {isRefunding && refunds && (canSign || canAsk) && (
        <Later>
          {({ others: { Refund } }) => (
            <Refund
              {...{ link, refunds, from }}
              onClose={() => setQuery({ open: undefined }, { replace: true })}
            />
          )}
        </Later>
      )}
    </Screen>
  );
}

/** Lists the link for agents that search for offers, or removes it from the list. */
function Listing({ link: { id, discoverable } }: { link: LinkData }) {
  const [isOn, setOn] = useState(discoverable);
  const { isBusy, fault, run } = useAction();
  const change = async (wanted: boolean) => {
    setOn(wanted);
    const isDone = await run(() =>
      call("PATCH /v1/payment-links/{id}", { id, body: { discoverable: wanted } }),
    );
    if (!isDone) setOn(!wanted);
    invalidate("/v1/payment-links");
  };
  return (
    <>
      <Check
        label={say("List it for agents")}
        isOn={isOn}
        isOff={isBusy}
        onInput={(wanted) => void change(wanted)}
        hint={say("Anyone then finds its description, its price and your name at /.well-known/x402.")}
      />
      <Fault of={fault} />
    </>
  );
}

function CancelLink({ id }: { id: string }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <Button onClick={() => setAsking(true)}>{say("Cancel link")}</Button>
      {isAsking && (
        <Confirm
          title={say("Cancel this link?")}
          word={say("Cancel link")}
          work={() => call("POST /v1/payment-links/{id}/cancel", { id })}
          changes={["/v1/payment-links", "/api/v1/public/"]}
          onClose={() => setAsking(false)}
          closeText={say("Keep it")}
        >
          {say(
            "Nobody can pay it any more. A payment already on its way still arrives, and can be refunded.",
          )}
        </Confirm>
      )}
    </>
  );
}

function RefundRows({ refunds: { refunds } }: { refunds: Refunds }) {
  return (
    <Panel title={say("Refunds")}>
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
    </Panel>
  );
}
