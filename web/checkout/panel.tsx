/** The panel of the payment page: ways to pay, the payment's progress, and its result. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatAmount, formatTime, isTouched, type Link, page, say, serverNowMs } from "./page-data.ts";
import { type Step, startFlow } from "./payment-flow.ts";
import { openInLinks, type Wallet, type Wallets } from "./wallets.ts";

type PanelProps = {
  link: Link;
  wallets: Wallets;
  isLost: boolean;
  /** Whether the manual ways to pay are shown next to the panel. */
  onChoice: (isChoosing: boolean) => void;
};

const amountOf = (link: Link) => formatAmount(link.amount);

export function Panel({ link, wallets, isLost, onChoice }: PanelProps) {
  const [step, setStep] = useState<Step>({ kind: "choose" });
  const flow = useMemo(() => startFlow(setStep), []);
  const heard = useRef(link.status);
  useEffect(() => flow.resume(link.status === "ACTIVE"), [flow]);
  useEffect(() => {
    if (heard.current === "PENDING" && link.status === "ACTIVE") flow.reopen();
    heard.current = link.status;
  }, [flow, link.status]);
  const isChoosing = link.payable && step.kind === "choose" && !link.seen;
  useEffect(() => onChoice(isChoosing), [isChoosing, onChoice]);
  return (
    <>
      <Content link={link} step={step} flow={flow} wallets={wallets} />
      {isLost && <p class="hint">{say("reconnecting")}</p>}
    </>
  );
}

type Flow = ReturnType<typeof startFlow>;

function Content({ link, step, flow, wallets }: { link: Link; step: Step; flow: Flow; wallets: Wallets }) {
  const merchant = link.merchantName;
  const isMine = step.kind === "settled" || flow.isMine(link);
  switch (link.status) {
    case "PAID":
      return <Paid link={link} isMine={isMine} />;
    case "EXPIRED":
    case "CANCELLED": {
      const isExpired = link.status === "EXPIRED";
      return (
        <State
          icon={isExpired ? "wait" : "off"}
          title={isExpired ? "expired" : "cancelled"}
          texts={[
            say(isExpired ? "expiredText" : "cancelledText", { merchant }),
            say("alreadySent", { merchant }),
          ]}
        />
      );
    }
  }
  switch (step.kind) {
    case "sent":
    case "settled":
      return <Progress link={link} />;
  }
  // also while a wallet is prompting: a confirmation now would be a second payment
  if (!link.payable) return <InProgress link={link} problem={step.kind === "choose" && step.problem} />;
  if (link.seen) return <Seen />;
  switch (step.kind) {
    case "busy":
      return <Busy link={link} step={step} onStartOver={flow.startOver} />;
    case "unclear":
      return (
        <>
          <State icon="ask" title="yourPayment" texts={[say("maybeSent")]} />
          <Button onClick={flow.forget} isSecond>
            {say("notSent")}
          </Button>
        </>
      );
    case "otherTab":
      return <State icon="wait" title="inProgress" texts={[say("otherTab")]} />;
    case "choose":
      return <Choice link={link} step={step} flow={flow} wallets={wallets} />;
  }
}

function Choice({ link, step, flow, wallets }: { link: Link; step: Step; flow: Flow; wallets: Wallets }) {
  const { problem, offersTransfer, wallet: last } = step.kind === "choose" ? step : {};
  const merchant = link.merchantName;
  const isMisfit = link.exception === "UNDERPAID" || link.exception === "OVERPAID";
  const pay = (wallet: Wallet, isTransfer = false) => flow.pay(wallet, link, isTransfer);
  const transferWallet = last ?? wallets.found[0];
  return (
    <>
      {link.paymentUncertain && <p class="note warn">{say("uncertain")}</p>}
      {isMisfit && <p class="note warn">{say("otherAmount", { merchant })}</p>}
      {problem && (
        <p class="note bad" role="alert">
          {problem}
        </p>
      )}
      {wallets.found.length > 1 && <p class="hint first">{say("chooseWallet")}</p>}
      {wallets.found.map((wallet, index) => (
        <Button key={wallet.id} onClick={() => pay(wallet)} isSecond={index > 0} icon={wallet.icon}>
          {say("payWith", { wallet: wallet.name })}
        </Button>
      ))}
      {wallets.found.length > 0 && !offersTransfer && <p class="hint">{say("noFee")}</p>}
      {offersTransfer && transferWallet && (
        <>
          <Button onClick={() => pay(transferWallet, true)} isSecond>
            {say("transferInstead")}
          </Button>
          <p class="hint">{say("transferFee")}</p>
        </>
      )}
      {wallets.found.length === 0 && (wallets.isSearching ? <Searching /> : <NoWallet />)}
      {wallets.outside.map((wallet) => (
        <Button key={wallet.id} onClick={() => pay(wallet)} isSecond>
          {say("payWith", { wallet: wallet.name })}
        </Button>
      ))}
      <Until link={link} />
    </>
  );
}

function Searching() {
  return (
    <>
      <div class="button second first">{say("lookingForWallets")}</div>
      <p class="hint">&nbsp;</p>
    </>
  );
}

function NoWallet() {
  const isPhone = isTouched();
  return (
    <>
      <p class="note">
        <strong>{say("noWallet")}</strong>
        <br />
        {say(isPhone ? "noWalletPhone" : "noWalletDesk")}
      </p>
      {isPhone &&
        openInLinks(location.href).map(({ name, href }) => (
          // none of these apps opens from within a shop's frame
          <a key={name} class="button second" href={href} rel="noopener" target="_top">
            {say("openIn", { app: name })}
          </a>
        ))}
    </>
  );
}

const HOUR_S = 3_600;
/** Seconds before the end at which the remaining time is announced. */
const SPOKEN_S: readonly number[] = [300, 60];

function Until({ link }: { link: Link }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const leftS = Math.max(0, Math.floor((Date.parse(link.expiresAt) - serverNowMs()) / 1_000));
  if (leftS >= HOUR_S) return <p class="until">{say("openUntil", { time: formatTime(link.expiresAt) })}</p>;
  const time = `${Math.floor(leftS / 60)}:${String(leftS % 60).padStart(2, "0")}`;
  const spoken = SPOKEN_S.find((mark) => leftS <= mark && leftS > mark - 10);
  return (
    <>
      <p class="until" role="timer" aria-live="off">
        {say("expiresIn", { time })}
      </p>
      <span class="hidden">{spoken && say("expiresIn", { time: `${spoken / 60}:00` })}</span>
    </>
  );
}

type BusyProps = { link: Link; step: Extract<Step, { kind: "busy" }>; onStartOver: () => void };

function Busy({ link, step, onStartOver }: BusyProps) {
  const { wallet, isTransfer, key } = step;
  const values = { wallet, network: page.network.name, amount: amountOf(link), merchant: link.merchantName };
  const isAsked = key === "confirm";
  return (
    <div class="state">
      <div class="spinner" />
      <h2>{say(key, values)}</h2>
      {isAsked && <p>{say(isTransfer ? "transferFee" : "confirmHint", values)}</p>}
      {!(isAsked && isTransfer) && (
        <button type="button" class="plain" onClick={onStartOver}>
          {say("startOver")}
        </button>
      )}
    </div>
  );
}

function Progress({ link }: { link: Link }) {
  return (
    <>
      <State title="sending" texts={[say("doNotPayAgain")]} />
      <Steps link={link} />
    </>
  );
}

function Steps({ link: { confirmations: done, confirmationsNeeded: needed } }: { link: Link }) {
  return (
    <ol class="steps">
      <li class="done">{say("stepSent")}</li>
      <li class={done === null ? "" : "done"}>
        {say("stepBlock")}
        {done !== null && needed > 1 && (
          <>
            <br />
            {say("confirmations", { done: String(done), needed: String(needed) })}
          </>
        )}
      </li>
      <li>{say("stepPaid")}</li>
    </ol>
  );
}

/** Somebody's payment holds the link; its steps are shown once it is in a block. */
function InProgress({ link, problem }: { link: Link; problem: string | undefined | false }) {
  return (
    <>
      <State icon="wait" title="inProgress" texts={[problem || say("inProgressText")]} />
      {link.confirmations !== null && <Steps link={link} />}
    </>
  );
}

/** Not in a block yet: it may still disappear, and then the ways to pay return. */
function Seen() {
  return <State icon="wait" title="seen" texts={[say("seenText"), say("doNotPayAgain")]} />;
}

function Paid({ link, isMine }: { link: Link; isMine: boolean }) {
  const { merchantName: merchant, refundedAmount } = link;
  const thanks = say("thanks", { merchant, amount: amountOf(link) });
  const isRefunded = refundedAmount > 0;
  const refund = say("refundedText", { merchant, amount: formatAmount(refundedAmount) });
  return (
    <>
      {isRefunded ? (
        <State
          icon="back"
          title={refundedAmount < link.amount ? "partlyRefunded" : "refunded"}
          texts={[refund]}
        />
      ) : (
        <State icon="ok" title="paid" texts={[isMine ? thanks : say("paidByOther")]} />
      )}
      <dl class="facts">
        {link.paidAt && <Fact label={say("paidOn")}>{formatTime(link.paidAt)}</Fact>}
        {isMine && link.payer && (
          <Fact label={say("from")}>
            <bdi>{shorten(link.payer)}</bdi>
          </Fact>
        )}
        {link.transactionHash && (
          <Fact label={say("transaction")}>
            <a href={link.explorerUrl + link.transactionHash} target="_blank" rel="noopener noreferrer">
              <bdi>{shorten(link.transactionHash)}</bdi>
            </a>
          </Fact>
        )}
      </dl>
      <a
        class="button second"
        href={`/pay/${link.linkId}/receipt?lang=${page.language}`}
        target={page.shopOrigin ? "_blank" : undefined}
      >
        {say("receipt")}
      </a>
    </>
  );
}

const shorten = (hex: string) => `${hex.slice(0, 8)}…${hex.slice(-6)}`;

function Fact({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

type ButtonProps = {
  onClick: () => void;
  isSecond?: boolean;
  icon?: string | undefined;
  children: ComponentChildren;
};

export function Button({ onClick, isSecond, icon, children }: ButtonProps) {
  return (
    <button type="button" class={isSecond ? "button second" : "button"} onClick={onClick}>
      {icon && <img src={icon} alt="" />}
      <span>{children}</span>
    </button>
  );
}

/** The same icons as the server renders. */
const ICONS = {
  ok: "M14.5 24.5l6.5 6.5 12.5-13.5",
  wait: "M24 13.5V24l7 4.5",
  off: "M17 17l14 14M31 17L17 31",
  back: "M21 15l-8 8 8 8M13.5 23H27a7 7 0 0 1 0 14",
  ask: "M18.5 19.5a5.5 5.5 0 1 1 8 4.9c-1.6.9-2.5 1.8-2.5 3.6M24 33.5v.5",
};

/** Without an icon it is busy. */
type StateProps = { icon?: keyof typeof ICONS; title: Parameters<typeof say>[0]; texts: string[] };

function State({ icon, title, texts }: StateProps) {
  return (
    <div class="state">
      {icon ? (
        <svg class={`icon ${icon}`} viewBox="0 0 48 48" aria-hidden="true">
          <circle cx="24" cy="24" r="24" />
          <path d={ICONS[icon]} />
        </svg>
      ) : (
        <div class="spinner" />
      )}
      <h2>{say(title)}</h2>
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
    </div>
  );
}
