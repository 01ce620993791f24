/** Payments of a link that can be paid more than once. */
import { useLoad } from "../frame/load.ts";
import { Link, usePlace } from "../frame/router.tsx";
import { say } from "../frame/texts.ts";
import { Loading, Panel } from "../parts/forms.tsx";
import { Address, Amount, Status, Time } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";

const PAGE = 50;

export function LinkPayments({ id }: { id: string }) {
  const cursor = usePlace().query.get("page") ?? undefined;
  const loaded = useLoad("GET /v1/payment-links/{id}/payments", { id, query: { limit: PAGE, cursor } });
  return (
    <Panel title={say("Payments")}>
      <Loading of={loaded} rows={3}>
        {({ payments }) =>
          payments.length === 0 && cursor ? (
            <PastEnd />
          ) : payments.length === 0 ? (
            <p class="muted pad">{say("Nobody has paid it yet.")}</p>
          ) : (
            <ul class="rows">
              {payments.map((payment) => (
                <li key={payment.linkId}>
                  <Status of={payment.status} />
                  <span class="what">
                    {payment.payer ? <Address of={payment.payer} /> : say("Not paid yet")}
                  </span>
                  <Time of={payment.paidAt ?? payment.createdAt} />
                  <Amount of={payment.amount} />
                  <Link to={`/links/${payment.linkId}`}>{say("Show")}</Link>
                </li>
              ))}
            </ul>
          )
        }
      </Loading>
      <Pager cursor={cursor} next={loaded.value?.nextCursor} />
    </Panel>
  );
}
