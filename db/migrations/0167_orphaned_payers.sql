-- serves: what paid a link before a reorganisation, little or nothing
create index concurrently transfers_orphaned_link on transfers (link_id) where pays and status = 'ORPHANED';
