/** Links with an exception (underpaid, overpaid, late, duplicate), each with the action to take. */
import { useLoad } from "../frame/load.ts";
import { Link } from "../frame/router.tsx";
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Panel } from "../parts/forms.tsx";
import { Amount, Status } from "../parts/page-parts.tsx";

type ListedLink = Answer<"GET /v1/payment-links">["links"][number];

const SHOWN = 5;

export const ADVICE: Readonly<Record<ListedLink["exception"], string>> = {
  NONE: "",
  UNDERPAID: "Less than requested arrived. Refund it, or accept it on the transaction.",
  OVERPAID: "More than requested arrived. Refund the surplus.",
  DUPLICATE: "Two payments arrived. Refund the extra one.",
  PAID_LATE: "Paid after it expired. Deliver, or refund.",
};

export function LinkExceptions() {
  const { value } = useLoad("GET /v1/payment-links", { query: { exception: "any", limit: SHOWN } });
  const open = value?.links.filter(({ refundedAmount }) => refundedAmount === 0) ?? [];
  if (open.length === 0) return null;
  return (
    <Panel
      class="attention"
      title={say("Needs attention")}
      actions={<Link to="/links?exception=any">{say("All of them")}</Link>}
    >
      <ul class="rows">
        {open.map((link) => (
          <li key={link.id}>
            <Status of={link.exception} />
            <span class="what">
              <bdi>{link.description}</bdi>
              <span class="muted">{say(ADVICE[link.exception])}</span>
            </span>
            {link.amount !== null && <Amount of={link.amount} />}
            <Link to={`/links/${link.id}`} class="button plain">
              {say("Review")}
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
