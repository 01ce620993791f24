-- serves: housekeeping of accounts whose address was never verified
create index concurrently users_unverified on users (created_at) where status = 'REGISTERED';
