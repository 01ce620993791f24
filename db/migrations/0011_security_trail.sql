-- The trail of security events is append-only: a row is never changed, and goes only together with its user.
create function refuse_trail_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and not exists (select from users where id = old.user_id) then
    return old;
  end if;
  raise exception 'security_events is append-only';
end
$$;

create trigger security_events_append_only
  before update or delete on security_events
  for each row execute function refuse_trail_change();
