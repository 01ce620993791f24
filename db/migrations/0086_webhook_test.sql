-- A test event goes to the endpoint it names, whichever types that one selected, and to no other.

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
  order by added.id;
  if found then
    perform graphile_worker.add_job(
      'deliver_webhooks', '{}'::json, max_attempts => 3, priority => 4,
      job_key => 'deliver_webhooks:' || pg_current_xact_id()::text
    );
  end if;
  return null;
end $$;
