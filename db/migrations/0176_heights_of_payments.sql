-- serves: undoing blocks. Summaries of page ranges are all but free to keep, and from Postgres 16 on leave updates of a height in their page (HOT)
create index concurrently payments_height on payments using brin (block_number, accepted_block) with (autosummarize = on);
create index concurrently relays_height on relays using brin (block_number) with (autosummarize = on);
