-- A deleted webhook endpoint is at first a row without a user and secrets, which no statement about a user's endpoints finds, of the version
-- before neither; housekeeping removes its log and then the row. Whoever writes an event locks the endpoints that it goes to, as the foreign
-- key's check did: one that is removed meanwhile gets no delivery, and the event is written.
alter table webhook_endpoints
  alter column user_id drop not null;

create or replace function deliver_events() returns trigger language plpgsql as $$
begin
  insert into webhook_deliveries (id, endpoint_id, user_id, event_id)
  select 'whd_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, added.user_id, added.id
  from added
  join webhook_endpoints endpoint on endpoint.user_id = added.user_id
  where endpoint.enabled
    and case
      when added.type = 'webhook.test' then endpoint.id = added.subject_id
      else endpoint.event_types = '{}' or added.type = any(endpoint.event_types)
    end
  order by added.id
  for key share of endpoint;
  if found then
    perform graphile_worker.add_job(
      'deliver_webhooks', '{}'::json, max_attempts => 3, priority => 4,
      job_key => 'deliver_webhooks:' || pg_current_xact_id()::text
    );
  end if;
  return null;
end $$;
