-- needs: all processes stopped
-- The pieces of export files are compressed by the worker, with zstd, in less time than Postgres takes for it, and Postgres stores
-- them as they are. An API of the version before would send such a piece as it is stored. Pieces that are there are not rewritten.
alter table export_chunks
  add column is_zstd boolean not null default false,
  alter column bytes set storage external;
