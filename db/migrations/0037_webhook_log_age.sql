-- serves: housekeeping of the webhook log
create index webhook_deliveries_ended on webhook_deliveries (created_at) where state <> 'PENDING';
