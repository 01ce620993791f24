/** From the new account to the first paid link. */
import { page } from "../frame/page-data.ts";
import { Link } from "../frame/router.tsx";
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Panel } from "../parts/forms.tsx";

type ListedLink = Answer<"GET /v1/payment-links">["links"][number];

export function Checklist({ links }: { links: readonly ListedLink[] }) {
  const first = links.at(-1);
  const isOpen = first?.status === "ACTIVE" || first?.status === "PENDING";
  const steps = [
    {
      isDone: true,
      text: say("Your wallet is ready"),
      more: say("Only its owners can move what it holds; the service cannot."),
    },
    {
      isDone: first !== undefined,
      text: say("Create a payment link"),
      more: say("An amount and what it is for. It has a page for people and an address for agents."),
      action: (
        <Link to="/links?new=1" class="button plain">
          {say("Create a link")}
        </Link>
      ),
    },
    {
      isDone: false,
      text: say("Have it paid"),
      more: page.hasTestWallet
        ? say("Open its page and pay with the test wallet: it costs nothing.")
        : say("Send its page to your customer, or pay it yourself."),
      action: isOpen && first && (
        <a class="button plain" href={first.url} target="_blank" rel="noopener">
          {say("Open its page")}
        </a>
      ),
    },
    {
      isDone: false,
      text: say("See it arrive, and refund it"),
      more: say("This page changes by itself when the payment is seen."),
      action: first && (
        <Link to={`/links/${first.id}`} class="button plain">
          {say("Show the link")}
        </Link>
      ),
    },
  ];
  const next = steps.findIndex(({ isDone }) => !isDone);
  return (
    <Panel class="checklist" title={say("First steps")}>
      <ol>
        {steps.map(({ isDone, text, more, action }, index) => (
          <li key={text} class={isDone ? "done" : index === next ? "next" : undefined}>
            <span class="tick" aria-hidden="true">
              {isDone ? "✓" : index + 1}
            </span>
            <span class="what">
              <strong>{text}</strong>
              {isDone && <span class="hidden"> ({say("done")})</span>}
              <span class="muted">{more}</span>
            </span>
            {index >= next && action}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
