-- Payments of a relay that this attempt does not carry: their links were paid by somebody else before it was signed.
alter table relay_attempts add column left_out text[] not null default '{}';
