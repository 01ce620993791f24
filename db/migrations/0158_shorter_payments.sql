-- needs: all processes stopped
-- Which request a payment came with is read by log lines while the payment is in flight. It is kept for an hour beside the payments, not in
-- each of them permanently: nine fit into a page with room for their next versions, instead of eight. Unlogged: a crash of Postgres ends them.
create unlogged table payment_requests (
  payment_id text primary key,
  request_id text not null,
  created_at timestamptz not null default now()
);
insert into payment_requests (payment_id, request_id)
select open_payments.payment_id, payments.request_id
from open_payments
join payments on payments.id = open_payments.payment_id
where payments.request_id is not null;
alter table payments drop column request_id;
