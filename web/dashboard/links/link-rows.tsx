/** A table of links; on a phone each row becomes two lines. */
import { Link } from "../frame/router.tsx";
import type { Answer } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Copy } from "../parts/controls.tsx";
import { Amount, Status, Table, Time, USDC } from "../parts/page-parts.tsx";

export type ListedLink = Answer<"GET /v1/payment-links">["links"][number];

export function LinkRows({ links, isOld }: { links: readonly ListedLink[]; isOld?: boolean }) {
  return (
    <Table
      label={say("Links")}
      columns={[
        say("What for"),
        say("Status"),
        say("Created"),
        say("Expires"),
        USDC,
        <span key="tool" class="hidden">
          {say("Copy")}
        </span>,
      ]}
      isOld={isOld}
    >
      {links.map((link) => (
        <tr key={link.id}>
          <td class="main">
            <Link to={`/links/${link.id}`}>
              <bdi>{link.description}</bdi>
            </Link>
            {link.reference && <bdi class="muted small">{link.reference}</bdi>}
          </td>
          <td class="state">
            <Status of={link.usedUp && link.status === "ACTIVE" ? "USED_UP" : link.status} />
            {link.exception !== "NONE" && <Status of={link.exception} />}
          </td>
          <td class="when">
            <Time of={link.createdAt} />
          </td>
          <td class="when second">
            <Time of={link.expiresAt} />
          </td>
          <td class="number">
            <AmountOf link={link} />
          </td>
          <td class="tool">
            <Copy text={link.url} label={say("Copy the link")} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export function AmountOf({ link }: { link: Pick<ListedLink, "amount" | "minAmount" | "maxAmount"> }) {
  if (link.amount !== null) return <Amount of={link.amount} />;
  return <span class="muted">{say("any amount")}</span>;
}
