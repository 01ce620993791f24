/** The history of a link in order; the last line is its current state. */
import type { ComponentChildren } from "preact";
import { say } from "../frame/texts.ts";
import { Amount, Time } from "../parts/page-parts.tsx";
import type { LinkData, PublicData, Refunds } from "./link-data.ts";

type Step = { tone: "done" | "now" | "ended"; text: ComponentChildren; at?: string | null | undefined };

type Props = { link: LinkData; open: PublicData | undefined; refunds: Refunds | undefined };

export function Timeline({ link, open, refunds }: Props) {
  return (
    <ol class="timeline" aria-live="polite">
      {stepsOf(link, open, refunds).map(({ tone, text, at }, index) => (
        <li key={index} class={tone}>
          <span>{text}</span>
          {at && <Time of={at} isWhole />}
        </li>
      ))}
    </ol>
  );
}

function stepsOf(link: LinkData, open: PublicData | undefined, refunds: Refunds | undefined): Step[] {
  const steps: Step[] = [{ tone: "done", text: say("Created"), at: link.createdAt }];
  const refunded = (refunds?.refunds ?? [])
    .filter(({ status }) => status === "CONFIRMED")
    .map(
      (refund): Step => ({
        tone: "done",
        text: (
          <>
            {say("Refunded")} <Amount of={refund.amount} />
          </>
        ),
        at: refund.confirmedAt,
      }),
    )
    .reverse();
  switch (link.status) {
    case "ACTIVE":
      return [...steps, { tone: "now", text: say("Waiting for a payment") }];
    case "PENDING": {
      const { confirmations = null, confirmationsNeeded = 1 } = open ?? {};
      const seen: Step = { tone: "done", text: say("A payment was seen") };
      if (confirmations === null)
        return [...steps, seen, { tone: "now", text: say("Waiting for its block") }];
      const text = say("{done} of {needed} confirmations", {
        done: confirmations,
        needed: confirmationsNeeded,
      });
      return [...steps, seen, { tone: "now", text }];
    }
    case "PAID":
      return [...steps, { tone: "done", text: say("Paid"), at: link.paidAt }, ...refunded];
    case "EXPIRED":
      return [
        ...steps,
        { tone: "ended", text: say("Expired without a payment"), at: link.expiresAt },
        ...refunded,
      ];
    case "CANCELLED":
      return [...steps, { tone: "ended", text: say("Cancelled"), at: link.updatedAt }, ...refunded];
  }
}
