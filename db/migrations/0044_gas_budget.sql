-- serves: what the relayers of a network have paid for gas in the last day
create index relays_mined_at on relays (network, mined_at) where mined_at is not null;
