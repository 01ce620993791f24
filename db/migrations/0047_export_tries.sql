-- A file's pieces belong to the try that wrote them, each in a commit of its own: the event log is read up to the oldest transaction
-- that writes, and one as long as the making of a file would hold it up. A file is the pieces of the try that made it READY.
alter table export_chunks add column attempt int;

update export_chunks
set attempt = exports.attempts
from exports
where exports.id = export_chunks.export_id;

alter table export_chunks
  alter column attempt set not null,
  drop constraint export_chunks_pkey,
  add primary key (export_id, attempt, position);
