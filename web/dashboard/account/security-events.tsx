/** The account's security events, newest first. */
import { useLoad } from "../frame/load.ts";
import { say } from "../frame/texts.ts";
import { Loading, Panel } from "../parts/forms.tsx";
import { Table, Time } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";
import { describeEvent, nameOfEvent } from "./security-event-texts.ts";

const PAGE = 30;

export function SecurityEvents({ cursor }: { cursor: string | undefined }) {
  const loaded = useLoad("GET /v1/security-events", { query: { limit: PAGE, cursor } });
  return (
    <Panel title={say("What happened")}>
      <Loading of={loaded} rows={6}>
        {({ data }) =>
          data.length === 0 && cursor ? (
            <PastEnd />
          ) : (
            <Table label={say("Events")} columns={[say("What"), say("From"), say("When")]}>
              {data.map((event) => (
                <tr key={event.id}>
                  <td class="main">
                    <strong>{nameOfEvent(event)}</strong>
                    {event.actor?.email && <bdi class="muted small">{event.actor.email}</bdi>}
                    {describeEvent(event) && <bdi class="muted small whole">{describeEvent(event)}</bdi>}
                  </td>
                  <td class="second mono">{event.clientAddress ?? ""}</td>
                  <td class="when">
                    <Time of={event.createdAt} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loading>
      <Pager cursor={cursor} next={loaded.value?.pagination.nextCursor} />
    </Panel>
  );
}
