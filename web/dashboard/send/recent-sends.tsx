/** Recent sends of the wallet, pending ones included. */
import { useLoad } from "../frame/load.ts";
import { usePlace } from "../frame/router.tsx";
import { say, sayCount } from "../frame/texts.ts";
import { Loading, Panel } from "../parts/forms.tsx";
import { Address, Amount, Hash, Status, Time } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";

const PAGE = 20;

export function RecentSends() {
  const cursor = usePlace().query.get("page") ?? undefined;
  const loaded = useLoad("GET /v1/wallets/sends", { query: { limit: PAGE, cursor } });
  return (
    <Panel title={say("Latest sends")}>
      <Loading of={loaded} rows={3}>
        {({ sends }) =>
          sends.length === 0 && cursor ? (
            <PastEnd />
          ) : sends.length === 0 ? (
            <p class="muted pad">{say("Nothing has been sent yet.")}</p>
          ) : (
            <ul class="rows">
              {sends.map((send) => (
                <li key={send.sendId}>
                  <Status of={send.status} />
                  <span class="what">
                    {send.payments.length === 1 && send.payments[0] ? (
                      <Address of={send.payments[0].to} />
                    ) : (
                      sayCount(send.payments.length, "{count} recipient", "{count} recipients")
                    )}
                    {send.payments.length === 1 && send.payments[0]?.note && (
                      <bdi class="muted">{send.payments[0].note}</bdi>
                    )}
                    {send.stillPossible && (
                      <span class="muted">
                        {say("May still be executed until the wallet's next operation.")}
                      </span>
                    )}
                  </span>
                  <Time of={send.createdAt} />
                  <Amount of={send.total} sign="−" />
                  {send.transactionHash && <Hash of={send.transactionHash} network={send.network} />}
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
