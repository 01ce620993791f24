-- Whose API key a facilitated payment belongs to: the one that asked first, and nobody else is answered its success.
alter table payments add column facilitator_key_id text;

-- How far the one answer that says success has come: claimed, handed to an open connection, or cut before it was.
-- Null beside a told_to: answered by a version before this one.
alter table payments add column answer_state text
  constraint payments_answer_state check (answer_state in ('SENDING', 'SENT', 'CUT'));
-- Who claimed it last, for which request (SHA-256 of its content), and when the state was reached.
alter table payments add column answer_claim text;
alter table payments add column answer_digest bytea;
alter table payments add column answered_at timestamptz;
