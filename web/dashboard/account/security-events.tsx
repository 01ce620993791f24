/** The account's security events, newest first. */
import { useLoad } from "../frame/load.ts";
import { setQuery } from "../frame/router.tsx";
import { say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Loading, Panel } from "../parts/forms.tsx";
import { Table, Time } from "../parts/page-parts.tsx";
import { describeEvent, nameOfEvent } from "./security-event-texts.ts";

const PAGE = 30;

export function SecurityEvents({ cursor }: { cursor: string | undefined }) {
  const loaded = useLoad("GET /v1/security-events", { query: { limit: PAGE, cursor } });
  const { value } = loaded;
  return (
    <Panel title={say("What happened")}>
      <Loading of={loaded} rows={6}>
        {({ data }) => (
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
        )}
      </Loading>
      {value && (cursor || value.pagination.nextCursor) && (
        <nav class="pager padded" aria-label={say("Pages")}>
          <Button isOff={!cursor} onClick={() => setQuery({ page: undefined })}>
            {say("Newest")}
          </Button>
          <Button
            isOff={!value.pagination.nextCursor}
            onClick={() => setQuery({ page: value.pagination.nextCursor ?? undefined })}
          >
            {say("Older")}
          </Button>
        </nav>
      )}
    </Panel>
  );
}
