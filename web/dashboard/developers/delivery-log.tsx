/** The log of deliveries to an endpoint: each message with its attempts and responses, and a button to send it again. */
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { setQuery } from "../frame/router.tsx";
import { type Answer, call } from "../frame/service.ts";
import { say, sayCount, sayReason } from "../frame/texts.ts";
import { Button, Dialog } from "../parts/controls.tsx";
import { Fault, Loading, Panel } from "../parts/forms.tsx";
import { Broken, Status, Time } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";

export type Endpoint = Answer<"GET /v1/webhook-endpoints">["data"][number];

const PAGE = 50;

type LogProps = { endpoint: Endpoint; query: URLSearchParams };

export function DeliveryLog({ endpoint: { id, url, enabled }, query }: LogProps) {
  const cursor = query.get("page") ?? undefined;
  const loaded = useLoad("GET /v1/webhook-endpoints/{id}/deliveries", { id, query: { limit: PAGE, cursor } });
  const opened = query.get("open");
  const { isBusy, fault, change } = useAction();
  const sendTest = () =>
    change(["/v1/webhook-endpoints"], () => call("POST /v1/webhook-endpoints/{id}/test", { id }));
  return (
    <Panel
      title={
        <>
          {say("Deliveries to")} <bdi class="mono">{new URL(url).host}</bdi>
        </>
      }
      actions={
        <div class="actions">
          <Button isBusy={isBusy} isOff={!enabled} onClick={sendTest}>
            {say("Send a test event")}
          </Button>
          <Button kind="quiet" onClick={loaded.retry}>
            {say("Refresh")}
          </Button>
        </div>
      }
    >
      <Fault of={fault} />
      <Loading of={loaded} rows={5}>
        {({ data }) =>
          data.length === 0 && cursor ? (
            <PastEnd />
          ) : data.length === 0 ? (
            <p class="muted pad">{say("Nothing was sent yet. Create a link, and its event appears here.")}</p>
          ) : (
            <ul class="rows">
              {data.map((delivery) => (
                <li key={delivery.id}>
                  <Status of={delivery.state} />
                  <span class="what">
                    <code>{delivery.eventType}</code>
                    {delivery.lastError && <span class="why small">{sayReason(delivery.lastError)}</span>}
                  </span>
                  <span class="muted">
                    {sayCount(delivery.attempts, "{count} attempt", "{count} attempts")}
                    {delivery.lastStatus !== null && ` · ${delivery.lastStatus}`}
                  </span>
                  <Time of={delivery.createdAt} />
                  <Button onClick={() => setQuery({ open: delivery.id })}>{say("Details")}</Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loading>
      <Pager cursor={cursor} next={loaded.value?.pagination.nextCursor} />
      {opened && <Delivery id={opened} onClose={() => setQuery({ open: undefined }, { replace: true })} />}
    </Panel>
  );
}

function Delivery({ id, onClose }: { id: string; onClose: () => void }) {
  const loaded = useLoad("GET /v1/webhook-deliveries/{id}", { id });
  const action = useAction();
  const delivery = loaded.value?.data;
  const again = () =>
    action.change(["/v1/webhook-"], () => call("POST /v1/webhook-deliveries/{id}/redeliver", { id }));
  return (
    <Dialog title={delivery?.eventType ?? say("Delivery")} onClose={onClose} side>
      {loaded.error && <Broken loaded={loaded} />}
      {delivery && (
        <>
          <p>
            <Status of={delivery.state} /> <Time of={delivery.createdAt} />
          </p>
          <h3>{say("Attempts")}</h3>
          {delivery.attemptLog.length === 0 && <p class="muted">{say("None yet.")}</p>}
          <ol class="rows to-sign">
            {delivery.attemptLog.map((attempt) => (
              <li key={attempt.number}>
                <strong>{attempt.status ?? say("no answer")}</strong>
                <span class="what muted">
                  {attempt.error ? sayReason(attempt.error) : say("{ms} ms", { ms: attempt.durationMs })}
                </span>
                <Time of={attempt.createdAt} />
                {attempt.response && <pre>{attempt.response}</pre>}
              </li>
            ))}
          </ol>
          {delivery.nextTryAt && (
            <p class="muted">
              {say("Next attempt:")} <Time of={delivery.nextTryAt} />
            </p>
          )}
          <Fault of={action.fault} />
          <div class="actions">
            <Button isBusy={action.isBusy} onClick={again}>
              {say("Send it again")}
            </Button>
          </div>
        </>
      )}
    </Dialog>
  );
}
