-- Exports that are made by themselves: a profile, every week or month, announced by mail or webhook.

create table export_schedules (
  id text primary key check (starts_with(id, 'exs_')),
  user_id text not null references users on delete cascade,
  profile_id text not null references export_profiles on delete cascade,
  frequency text not null check (frequency in ('weekly', 'monthly')),
  delivery text not null check (delivery in ('mail', 'webhook')),
  -- the person who made it: it ends with their membership
  created_by text not null references users on delete cascade,
  created_at timestamptz not null default now()
);
-- serves: a merchant's schedules
create index export_schedules_user on export_schedules (user_id, created_at, id);
-- serves: a profile or a person that is deleted
create index export_schedules_profile on export_schedules (profile_id);
create index export_schedules_created_by on export_schedules (created_by);

-- Each period once. Days are those of the profile's time zone, both included.
create table export_schedule_runs (
  schedule_id text not null references export_schedules on delete cascade,
  first_day date not null,
  last_day date not null,
  export_id text references exports on delete set null,
  announced_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (schedule_id, first_day),
  check (first_day <= last_day)
);
-- serves: which are still to be announced
create index export_schedule_runs_unannounced on export_schedule_runs (created_at) where announced_at is null;
-- serves: an export that is deleted
create index export_schedule_runs_export on export_schedule_runs (export_id) where export_id is not null;
