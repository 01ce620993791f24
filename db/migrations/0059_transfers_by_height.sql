-- Height first: with the network first, a look-up by (network, from, nonce) was planned on this index while the table was young, and read all of it.
drop index transfers_height;
create index transfers_height on transfers (block_number, network) where status <> 'ORPHANED';
