/** Test events: sent to one endpoint on its owner's request, through the log and the deliveries of every other event. */
import type { EventType } from "../../core/domain/event-types.ts";
import type { Tx } from "../postgres/client.ts";
import { type Delivery, findDelivery } from "./deliveries.ts";

/** Undefined while the endpoint is disabled, or is not the user's. */
export async function recordTestEvent(
  tx: Tx,
  { endpointId, userId, sampleType }: { endpointId: string; userId: string; sampleType: EventType },
): Promise<Delivery | undefined> {
  const [event] = await tx<{ id: bigint }[]>`
    insert into events (user_id, type, subject_id, data)
    select user_id, 'webhook.test', id, jsonb_build_object('test', true, 'sampleType', ${sampleType}::text)
    from webhook_endpoints
    where id = ${endpointId} and user_id = ${userId} and enabled
    returning id`;
  if (!event) return undefined;
  const [made] = await tx<{ id: string }[]>`
    select id
    from webhook_deliveries
    where endpoint_id = ${endpointId} and event_id = ${event.id}::bigint`;
  return made && findDelivery(tx, { id: made.id, userId });
}
