-- Outside, an event's name says nothing of how many there are.
alter table events add column public_id text not null default 'evt_' || replace(gen_random_uuid()::text, '-', '');
