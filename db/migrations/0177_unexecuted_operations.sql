-- serves: operations that ended unexecuted within a day, whose nonce may still be spent
create index concurrently wallet_operations_unexecuted on wallet_operations (network, updated_at) where state in ('EXPIRED', 'CANCELLED', 'FAILED');
