create table account_changes (
  block_hash text not null,
  block_number bigint not null,
  confirmed_at timestamp with time zone,
  log_index integer not null,
  network text not null,
  owner_index bigint,
  subject text not null,
  tx_hash text not null,
  type text not null,
  wallet_address text not null,
  constraint account_changes_pkey PRIMARY KEY (network, block_hash, log_index),
  constraint account_changes_type_check CHECK ((type = ANY (ARRAY['OWNER_ADDED'::text, 'OWNER_REMOVED'::text, 'UPGRADED'::text])))
);
CREATE INDEX account_changes_height ON public.account_changes USING btree (network, block_number);
CREATE INDEX account_changes_subject ON public.account_changes USING btree (network, wallet_address, subject, block_number DESC, log_index DESC);
CREATE INDEX account_changes_unconfirmed ON public.account_changes USING btree (network, block_number) WHERE (confirmed_at IS NULL);

create table api_keys (
  created_at timestamp with time zone default now() not null,
  created_by text,
  id text not null,
  key_hash bytea not null,
  last_used_at timestamp with time zone,
  name text not null,
  prefix text not null,
  revoked_at timestamp with time zone,
  scopes text[] not null,
  user_id text not null,
  constraint api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint api_keys_key_hash_check CHECK ((octet_length(key_hash) = 32)),
  constraint api_keys_key_hash_key UNIQUE (key_hash),
  constraint api_keys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX api_keys_user ON public.api_keys USING btree (user_id, created_at DESC);

create table assignments (
  accept boolean default false not null,
  link_id text,
  log_index integer not null,
  network text not null,
  orphaned_transfer_id bigint,
  tx_hash text not null,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint assignments_link_id_fkey FOREIGN KEY (link_id) REFERENCES payment_links(id) ON DELETE CASCADE DEFERRABLE,
  constraint assignments_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint assignments_pkey PRIMARY KEY (network, tx_hash, log_index),
  constraint assignments_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX assignments_orphaned ON public.assignments USING btree (network) WHERE (orphaned_transfer_id IS NOT NULL);

create table blocks (
  block_time timestamp with time zone not null,
  hash text not null,
  network text not null,
  number bigint not null,
  parent_hash text not null,
  constraint blocks_pkey PRIMARY KEY (network, number)
);

create table challenges (
  challenge bytea not null,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  id text not null,
  network text,
  purpose text not null,
  user_id text,
  constraint challenges_id_check CHECK (starts_with(id, 'ch_'::text)),
  constraint challenges_pkey PRIMARY KEY (id),
  constraint challenges_purpose_check CHECK ((purpose = ANY (ARRAY['register'::text, 'login'::text, 'send'::text, 'owner'::text, 'recover'::text, 'recover_proven'::text]))),
  constraint challenges_user_check CHECK (((user_id IS NOT NULL) OR (purpose = 'login'::text))),
  constraint challenges_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX challenges_expires ON public.challenges USING btree (expires_at);

create table claims (
  client_address text not null,
  created_at timestamp with time zone default now() not null,
  id text not null,
  is_early boolean default true not null,
  lease_until timestamp with time zone not null,
  link_id text not null,
  looks integer default 0 not null,
  network text not null,
  payer_language text,
  proof text,
  reason text,
  request_id text,
  state text default 'OPEN'::text not null,
  tx_hash text not null,
  updated_at timestamp with time zone default now() not null,
  constraint claims_client_address_check CHECK ((client_address ~ '^0x[0-9a-f]{40}$'::text)),
  constraint claims_link_id_fkey FOREIGN KEY (link_id) REFERENCES payment_links(id) ON DELETE CASCADE,
  constraint claims_payer_language_check CHECK ((payer_language = ANY (ARRAY['en'::text, 'es'::text, 'pt-BR'::text, 'fr'::text, 'de'::text, 'tr'::text, 'ar'::text, 'hi'::text, 'id'::text, 'vi'::text, 'zh-Hans'::text]))),
  constraint claims_pkey PRIMARY KEY (id),
  constraint claims_proof_check CHECK ((proof = ANY (ARRAY['EOA'::text, 'CONTRACT'::text]))),
  constraint claims_state_check CHECK ((state = ANY (ARRAY['OPEN'::text, 'HINT'::text, 'DISPUTED'::text, 'MATCHED'::text, 'REJECTED'::text, 'EXPIRED'::text]))),
  constraint claims_tx_hash_check CHECK ((tx_hash ~ '^0x[0-9a-f]{64}$'::text))
);
CREATE INDEX claims_disputed ON public.claims USING btree (network) WHERE (state = 'DISPUTED'::text);
CREATE INDEX claims_ended ON public.claims USING btree (updated_at) WHERE (state = ANY (ARRAY['HINT'::text, 'REJECTED'::text, 'EXPIRED'::text]));
CREATE INDEX claims_hash ON public.claims USING btree (network, tx_hash) WHERE (state <> 'REJECTED'::text);
CREATE UNIQUE INDEX claims_link_hash_payer_key ON public.claims USING btree (link_id, tx_hash, client_address);
CREATE INDEX claims_open ON public.claims USING btree (network) WHERE (state = 'OPEN'::text);

create table closing_balances (
  balance_units numeric(78,0) not null,
  block_hash text not null,
  block_number bigint not null,
  block_time timestamp with time zone not null,
  ends_at timestamp with time zone not null,
  recorded_at timestamp with time zone default now() not null,
  wallet_id text not null,
  constraint closing_balances_block_hash_check CHECK ((block_hash ~ '^0x[0-9a-f]{64}$'::text)),
  constraint closing_balances_check CHECK ((block_time < ends_at)),
  constraint closing_balances_pkey PRIMARY KEY (wallet_id, ends_at),
  constraint closing_balances_wallet_id_fkey FOREIGN KEY (wallet_id) REFERENCES wallets(id) ON DELETE CASCADE
);

create table cursors (
  account_logs_number bigint,
  epoch bigint default 0 not null,
  finalized_number bigint default 0 not null,
  hash text not null,
  head_number bigint not null,
  head_time timestamp with time zone,
  last_error text,
  last_error_at timestamp with time zone,
  ledger_version bigint default 0 not null,
  network text not null,
  number bigint not null,
  rechecked_number bigint default 0 not null,
  reconciled_number bigint default '-1'::integer not null,
  recounted_wallet text default ''::text not null,
  started_at timestamp with time zone,
  updated_at timestamp with time zone default now() not null,
  constraint cursors_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint cursors_pkey PRIMARY KEY (network)
);

create table document_counters (
  kind text not null,
  last_number integer not null,
  user_id text not null,
  year integer not null,
  constraint document_counters_kind_check CHECK ((kind = ANY (ARRAY['RECEIPT'::text, 'CREDIT_NOTE'::text, 'TEST_RECEIPT'::text, 'TEST_CREDIT_NOTE'::text]))),
  constraint document_counters_last_number_check CHECK ((last_number > 0)),
  constraint document_counters_pkey PRIMARY KEY (user_id, kind, year),
  constraint document_counters_year_check CHECK (((year >= 2000) AND (year <= 9999)))
);

create table documents (
  amount_units numeric(78,0) not null,
  block_hash bytea not null,
  facts jsonb not null,
  happened_at timestamp with time zone not null,
  id text not null,
  is_test boolean default false not null,
  issued_at timestamp with time zone default now() not null,
  kind text not null,
  language text,
  link_id text not null,
  log_index integer not null,
  network text not null,
  number integer not null,
  receipt_id text,
  refund_id text,
  tx_hash bytea not null,
  user_id text not null,
  void_reason text,
  voided_at timestamp with time zone,
  year integer not null,
  constraint documents_amount_units_check CHECK ((amount_units > (0)::numeric)),
  constraint documents_check CHECK (((kind = 'CREDIT_NOTE'::text) = (refund_id IS NOT NULL))),
  constraint documents_check1 CHECK (((voided_at IS NULL) = (void_reason IS NULL))),
  constraint documents_kind_check CHECK ((kind = ANY (ARRAY['RECEIPT'::text, 'CREDIT_NOTE'::text]))),
  constraint documents_language_check CHECK ((language = ANY (ARRAY['en'::text, 'es'::text, 'pt-BR'::text, 'fr'::text, 'de'::text, 'tr'::text, 'ar'::text, 'hi'::text, 'id'::text, 'vi'::text, 'zh-Hans'::text]))),
  constraint documents_lengths_check CHECK (((octet_length(tx_hash) = 32) AND (octet_length(block_hash) = 32))),
  constraint documents_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint documents_number_check CHECK ((number > 0)),
  constraint documents_pkey PRIMARY KEY (id),
  constraint documents_receipt_id_fkey FOREIGN KEY (receipt_id) REFERENCES documents(id) ON DELETE CASCADE,
  constraint documents_void_reason_check CHECK ((void_reason = ANY (ARRAY['REORGANISED'::text, 'REASSIGNED'::text])))
);
CREATE INDEX documents_credit_notes ON public.documents USING btree (owner_key(user_id), happened_at DESC) WHERE (kind = 'CREDIT_NOTE'::text);
CREATE INDEX documents_credit_notes_of_uses ON public.documents USING btree (link_moment(COALESCE((facts ->> 'linkId'::text), (facts ->> 7))), happened_at DESC) WHERE ((COALESCE((facts ->> 'linkId'::text), (facts ->> 7)) <> link_id) AND (kind = 'CREDIT_NOTE'::text));
CREATE INDEX documents_link_moment ON public.documents USING btree (link_moment(link_id));
CREATE INDEX documents_of_uses ON public.documents USING btree (link_moment(COALESCE((facts ->> 'linkId'::text), (facts ->> 7))), happened_at DESC) WHERE (COALESCE((facts ->> 'linkId'::text), (facts ->> 7)) <> link_id);
CREATE INDEX documents_owner_happened ON public.documents USING btree (owner_key(user_id), happened_at DESC);
CREATE UNIQUE INDEX documents_owner_place_key ON public.documents USING btree (owner_key(user_id), document_place(kind, is_test, year, number));
CREATE INDEX documents_receipt ON public.documents USING btree (receipt_id) WHERE (receipt_id IS NOT NULL);
CREATE UNIQUE INDEX documents_transfer_digest_key ON public.documents USING btree (log_digest(network, tx_hash, log_index), kind) WHERE (voided_at IS NULL);
CREATE INDEX documents_void ON public.documents USING btree (owner_key(user_id), kind, happened_at DESC) WHERE (voided_at IS NOT NULL);
CREATE INDEX documents_void_of_uses ON public.documents USING btree (link_moment(COALESCE((facts ->> 'linkId'::text), (facts ->> 7))), happened_at DESC) WHERE ((COALESCE((facts ->> 'linkId'::text), (facts ->> 7)) <> link_id) AND (voided_at IS NOT NULL));

create unlogged table drain_leases (
  holder text not null,
  network text not null,
  until timestamp with time zone not null,
  constraint drain_leases_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint drain_leases_pkey PRIMARY KEY (network)
) with (fillfactor=50);

create table event_epochs (
  cluster text,
  created_at timestamp with time zone default now() not null,
  name text default replace((gen_random_uuid())::text, '-'::text, ''::text) not null,
  number integer not null,
  constraint event_epochs_name_key UNIQUE (name),
  constraint event_epochs_pkey PRIMARY KEY (number)
);

create unlogged table event_readers (
  reader uuid not null,
  until timestamp with time zone not null,
  user_id text not null,
  constraint event_readers_pkey PRIMARY KEY (user_id, reader)
) with (fillfactor=50);

create table events (
  created_at timestamp with time zone default now() not null,
  data jsonb not null,
  ended_before xid8 default pg_snapshot_xmin(pg_current_snapshot()),
  epoch integer default write_event_epoch() not null,
  id bigint generated always as identity not null,
  public_id uuid default gen_random_uuid() not null,
  subject_id text not null,
  type text not null,
  user_id text not null,
  written_by xid8 default pg_current_xact_id() not null,
  constraint events_pkey PRIMARY KEY (id)
);
CREATE INDEX events_created ON public.events USING brin (created_at);
CREATE INDEX events_of_user ON public.events USING btree (owner_key(user_id), epoch, written_by);
CREATE TRIGGER events_add_order_data BEFORE INSERT ON public.events FOR EACH ROW WHEN (((new.type ~~ 'payment_link.%'::text) OR ((new.type ~~ 'transaction.%'::text) AND ((new.data -> 'linkId'::text) IS DISTINCT FROM 'null'::jsonb)))) EXECUTE FUNCTION add_order_data();
CREATE TRIGGER events_deliver AFTER INSERT ON public.events REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION deliver_events();
CREATE TRIGGER events_notify_readers AFTER INSERT ON public.events REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION notify_event_readers();

create table exchange_rate_sources (
  attempted_at timestamp with time zone default now() not null,
  error text,
  fetched_at timestamp with time zone,
  newest_day date,
  source text not null,
  constraint exchange_rate_sources_error_check CHECK ((length(error) <= 500)),
  constraint exchange_rate_sources_pkey PRIMARY KEY (source),
  constraint exchange_rate_sources_source_check CHECK (((source ~ '^[a-z][a-z0-9-]{0,31}$'::text) AND (source <> ALL (ARRAY['own'::text, 'par'::text]))))
);

create table exchange_rates (
  base text not null,
  currency text not null,
  day date not null,
  fetched_at timestamp with time zone default now() not null,
  rate_e10 numeric(78,0) not null,
  revision integer not null,
  source text not null,
  constraint exchange_rates_base_check CHECK ((base ~ '^[A-Z]{3}$'::text)),
  constraint exchange_rates_currency_check CHECK ((currency ~ '^[A-Z]{3,4}$'::text)),
  constraint exchange_rates_pkey PRIMARY KEY (source, currency, day, revision),
  constraint exchange_rates_rate_e10_check CHECK ((rate_e10 > (0)::numeric)),
  constraint exchange_rates_revision_check CHECK ((revision >= 1)),
  constraint exchange_rates_source_check CHECK ((source ~ '^[a-z][a-z0-9-]{0,31}$'::text))
);

create table export_chunks (
  attempt integer not null,
  bytes bytea storage external not null,
  export_id text not null,
  is_zstd boolean default false not null,
  position integer not null,
  constraint export_chunks_export_id_fkey FOREIGN KEY (export_id) REFERENCES exports(id) ON DELETE CASCADE,
  constraint export_chunks_pkey PRIMARY KEY (export_id, attempt, "position")
);

create table export_profiles (
  created_at timestamp with time zone default now() not null,
  definition jsonb not null,
  id text not null,
  name text not null,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint export_profiles_id_check CHECK (starts_with(id, 'epr_'::text)),
  constraint export_profiles_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
  constraint export_profiles_name_key UNIQUE (user_id, name),
  constraint export_profiles_pkey PRIMARY KEY (id),
  constraint export_profiles_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table export_schedule_runs (
  announced_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  ends_at timestamp with time zone,
  export_id text,
  first_day date not null,
  last_day date not null,
  schedule_id text not null,
  constraint export_schedule_runs_check CHECK ((first_day <= last_day)),
  constraint export_schedule_runs_export_id_fkey FOREIGN KEY (export_id) REFERENCES exports(id) ON DELETE SET NULL,
  constraint export_schedule_runs_pkey PRIMARY KEY (schedule_id, first_day),
  constraint export_schedule_runs_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES export_schedules(id) ON DELETE CASCADE
);
CREATE INDEX export_schedule_runs_export ON public.export_schedule_runs USING btree (export_id) WHERE (export_id IS NOT NULL);
CREATE INDEX export_schedule_runs_unannounced ON public.export_schedule_runs USING btree (created_at) WHERE (announced_at IS NULL);

create table export_schedules (
  created_at timestamp with time zone default now() not null,
  created_by text not null,
  delivery text not null,
  frequency text not null,
  id text not null,
  paused_at timestamp with time zone,
  profile_id text not null,
  user_id text not null,
  constraint export_schedules_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE CASCADE,
  constraint export_schedules_delivery_check CHECK ((delivery = ANY (ARRAY['mail'::text, 'webhook'::text]))),
  constraint export_schedules_frequency_check CHECK ((frequency = ANY (ARRAY['weekly'::text, 'monthly'::text]))),
  constraint export_schedules_id_check CHECK (starts_with(id, 'exs_'::text)),
  constraint export_schedules_pkey PRIMARY KEY (id),
  constraint export_schedules_profile_id_fkey FOREIGN KEY (profile_id) REFERENCES export_profiles(id) ON DELETE CASCADE,
  constraint export_schedules_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX export_schedules_created_by ON public.export_schedules USING btree (created_by);
CREATE INDEX export_schedules_profile ON public.export_schedules USING btree (profile_id);
CREATE INDEX export_schedules_user ON public.export_schedules USING btree (user_id, created_at, id);

create table exports (
  attempts integer default 0 not null,
  byte_size bigint,
  created_at timestamp with time zone default now() not null,
  error text,
  expires_at timestamp with time zone not null,
  format text not null,
  id text not null,
  ready_at timestamp with time zone,
  refusal text,
  request jsonb not null,
  request_id text,
  rows_done integer default 0 not null,
  rows_matched bigint,
  rows_total integer,
  started_at timestamp with time zone,
  status text default 'QUEUED'::text not null,
  truncated boolean default false not null,
  user_id text not null,
  constraint exports_format_check CHECK ((format ~ '^[a-z][a-z0-9_]{1,31}$'::text)),
  constraint exports_pkey PRIMARY KEY (id),
  constraint exports_refusal_check CHECK ((length(refusal) <= 500)),
  constraint exports_status_check CHECK ((status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text, 'READY'::text, 'FAILED'::text]))),
  constraint exports_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX exports_expires ON public.exports USING btree (expires_at);
CREATE INDEX exports_unfinished ON public.exports USING btree (user_id, created_at) WHERE (status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text]));
CREATE INDEX exports_user_created ON public.exports USING btree (user_id, created_at DESC, id DESC);

create table idempotency_keys (
  body json,
  created_at timestamp with time zone default now() not null,
  key text not null,
  request_hash bytea not null,
  scope text not null,
  status integer,
  constraint idempotency_keys_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255))),
  constraint idempotency_keys_pkey PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_keys_created ON public.idempotency_keys USING btree (created_at);

create table identities (
  created_at timestamp with time zone default now() not null,
  email text,
  issuer text not null,
  subject text not null,
  user_id text not null,
  constraint identities_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
  constraint identities_pkey PRIMARY KEY (issuer, subject),
  constraint identities_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX identities_user ON public.identities USING btree (user_id);

create table indexer_leaders (
  alive_at timestamp with time zone not null,
  backend_pid integer not null,
  network text not null,
  constraint indexer_leaders_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint indexer_leaders_pkey PRIMARY KEY (network)
);

create table last_backup (
  is_only boolean default true not null,
  taken_at timestamp with time zone not null,
  constraint last_backup_is_only_check CHECK (is_only),
  constraint last_backup_pkey PRIMARY KEY (is_only)
);

create table link_count_deltas (
  amount_units numeric(78,0),
  count bigint not null,
  prior_amount_units numeric(78,0),
  prior_refunded_units numeric(78,0),
  prior_status text,
  refunded_units numeric(78,0),
  status text,
  user_id text not null
);
CREATE INDEX link_count_deltas_owner ON public.link_count_deltas USING btree (owner_key(user_id));

create table link_counts (
  amount_units numeric(78,0) not null,
  count bigint not null,
  refunded_units numeric(78,0) not null,
  status text not null,
  user_id text not null,
  constraint link_counts_pkey PRIMARY KEY (user_id, status)
) with (fillfactor=50);

create table link_watches (
  network text not null,
  watched_until timestamp with time zone not null,
  constraint link_watches_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint link_watches_pkey PRIMARY KEY (network)
);

create table member_invitations (
  created_at timestamp with time zone default now() not null,
  email text not null,
  ended_at timestamp with time zone,
  expires_at timestamp with time zone not null,
  id text not null,
  invited_by text not null,
  merchant_id text not null,
  outcome text,
  role text not null,
  sent_at timestamp with time zone,
  constraint member_invitations_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
  constraint member_invitations_end_check CHECK (((outcome IS NULL) = (ended_at IS NULL))),
  constraint member_invitations_id_check CHECK (starts_with(id, 'inv_'::text)),
  constraint member_invitations_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint member_invitations_outcome_check CHECK ((outcome = ANY (ARRAY['ACCEPTED'::text, 'DECLINED'::text, 'REVOKED'::text]))),
  constraint member_invitations_pkey PRIMARY KEY (id),
  constraint member_invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'operator'::text, 'accountant'::text, 'viewer'::text])))
);
CREATE INDEX member_invitations_email ON public.member_invitations USING btree (email) WHERE (outcome IS NULL);
CREATE UNIQUE INDEX member_invitations_open_key ON public.member_invitations USING btree (merchant_id, email) WHERE (outcome IS NULL);

create table members (
  created_at timestamp with time zone default now() not null,
  invited_by text not null,
  merchant_id text not null,
  role text not null,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint members_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint members_other_check CHECK ((merchant_id <> user_id)),
  constraint members_pkey PRIMARY KEY (merchant_id, user_id),
  constraint members_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'operator'::text, 'accountant'::text, 'viewer'::text]))),
  constraint members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX members_user ON public.members USING btree (user_id);

create table merchant_books (
  datev jsonb,
  document_language text default 'en'::text not null,
  fiat_currency text,
  legal_name text,
  monthly_since timestamp with time zone,
  monthly_statements boolean default false not null,
  postal_address text,
  rate_source text default 'ecb'::text not null,
  tax_id text,
  time_zone text default 'UTC'::text not null,
  updated_at timestamp with time zone default now() not null,
  usdc_rate text default 'par'::text not null,
  user_id text not null,
  constraint merchant_books_check CHECK (((NOT monthly_statements) OR (monthly_since IS NOT NULL))),
  constraint merchant_books_document_language_check CHECK ((document_language = ANY (ARRAY['en'::text, 'es'::text, 'pt-BR'::text, 'fr'::text, 'de'::text, 'tr'::text, 'ar'::text, 'hi'::text, 'id'::text, 'vi'::text, 'zh-Hans'::text]))),
  constraint merchant_books_fiat_currency_check CHECK ((fiat_currency ~ '^[A-Z]{3}$'::text)),
  constraint merchant_books_legal_name_check CHECK (((length(legal_name) >= 1) AND (length(legal_name) <= 200))),
  constraint merchant_books_pkey PRIMARY KEY (user_id),
  constraint merchant_books_postal_address_check CHECK (((length(postal_address) >= 1) AND (length(postal_address) <= 500))),
  constraint merchant_books_rate_source_check CHECK ((rate_source ~ '^[a-z][a-z0-9-]{0,31}$'::text)),
  constraint merchant_books_tax_id_check CHECK (((length(tax_id) >= 1) AND (length(tax_id) <= 50))),
  constraint merchant_books_time_zone_check CHECK (((length(time_zone) >= 1) AND (length(time_zone) <= 64))),
  constraint merchant_books_usdc_rate_check CHECK ((usdc_rate = ANY (ARRAY['par'::text, 'source'::text]))),
  constraint merchant_books_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX merchant_books_monthly ON public.merchant_books USING btree (user_id) WHERE monthly_statements;

create table merchant_pages (
  accent text,
  frame_origins text[] default '{}'::text[] not null,
  logo bytea,
  logo_digest text,
  sealed_return_secret bytea,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint merchant_pages_accent_check CHECK ((accent ~ '^#[0-9a-f]{6}$'::text)),
  constraint merchant_pages_frame_origins_check CHECK ((cardinality(frame_origins) <= 20)),
  constraint merchant_pages_logo_check CHECK (((octet_length(logo) >= 1) AND (octet_length(logo) <= 65536))),
  constraint merchant_pages_logo_digest_check CHECK ((logo_digest ~ '^[0-9a-f]{32}$'::text)),
  constraint merchant_pages_logo_named_check CHECK (((logo IS NULL) = (logo_digest IS NULL))),
  constraint merchant_pages_pkey PRIMARY KEY (user_id),
  constraint merchant_pages_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX merchant_pages_logo_digest ON public.merchant_pages USING btree (logo_digest) WHERE (logo_digest IS NOT NULL);

create table merchant_rates (
  currency text not null,
  day date not null,
  entered_at timestamp with time zone default now() not null,
  rate_e10 numeric(78,0) not null,
  user_id text not null,
  constraint merchant_rates_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  constraint merchant_rates_pkey PRIMARY KEY (user_id, currency, day),
  constraint merchant_rates_rate_e10_check CHECK ((rate_e10 > (0)::numeric)),
  constraint merchant_rates_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create unlogged table monitor_leases (
  holder text not null,
  network text not null,
  until timestamp with time zone not null,
  constraint monitor_leases_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint monitor_leases_pkey PRIMARY KEY (network)
) with (fillfactor=50);

create table monthly_statements (
  announced_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  csv_export_id text,
  month text not null,
  pdf_export_id text,
  user_id text not null,
  wallet_id text not null,
  constraint monthly_statements_csv_export_id_fkey FOREIGN KEY (csv_export_id) REFERENCES exports(id) ON DELETE SET NULL,
  constraint monthly_statements_month_check CHECK ((month ~ '^\d{4}-(0[1-9]|1[0-2])$'::text)),
  constraint monthly_statements_pdf_export_id_fkey FOREIGN KEY (pdf_export_id) REFERENCES exports(id) ON DELETE SET NULL,
  constraint monthly_statements_pkey PRIMARY KEY (wallet_id, month),
  constraint monthly_statements_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint monthly_statements_wallet_id_fkey FOREIGN KEY (wallet_id) REFERENCES wallets(id) ON DELETE CASCADE
);
CREATE INDEX monthly_statements_csv ON public.monthly_statements USING btree (csv_export_id) WHERE (csv_export_id IS NOT NULL);
CREATE INDEX monthly_statements_pdf ON public.monthly_statements USING btree (pdf_export_id) WHERE (pdf_export_id IS NOT NULL);
CREATE INDEX monthly_statements_unannounced ON public.monthly_statements USING btree (created_at) WHERE (announced_at IS NULL);
CREATE INDEX monthly_statements_user ON public.monthly_statements USING btree (user_id, month DESC, wallet_id);

create table notices (
  created_at timestamp with time zone default now() not null,
  details jsonb default '{}'::jsonb not null,
  id bigint generated always as identity not null,
  key text not null,
  kind text not null,
  sent_at timestamp with time zone,
  user_id text not null,
  constraint notices_pkey PRIMARY KEY (id),
  constraint notices_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint notices_user_id_key_key UNIQUE (user_id, key)
);
CREATE INDEX notices_created ON public.notices USING brin (created_at);

create table oauth_flows (
  code_verifier text not null,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  nonce text not null,
  state_hash bytea not null,
  constraint oauth_flows_pkey PRIMARY KEY (state_hash),
  constraint oauth_flows_state_hash_check CHECK ((octet_length(state_hash) = 32))
);
CREATE INDEX oauth_flows_expires ON public.oauth_flows USING btree (expires_at);

create table open_payments (
  network text not null,
  owner uuid default '00000000-0000-0000-0000-000000000000'::uuid not null,
  payment_id text not null,
  constraint open_payments_pkey PRIMARY KEY (network, owner, payment_id)
);

create table otps (
  attempts integer default 0 not null,
  code_hmac bytea not null,
  consumed_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  id text not null,
  request_id text,
  sealed_code bytea,
  sent_at timestamp with time zone,
  superseded_at timestamp with time zone,
  user_id text not null,
  constraint otps_attempts_check CHECK (((attempts >= 0) AND (attempts <= 5))),
  constraint otps_code_hmac_check CHECK ((octet_length(code_hmac) = 32)),
  constraint otps_pkey PRIMARY KEY (id),
  constraint otps_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX otps_live_key ON public.otps USING btree (user_id) WHERE (superseded_at IS NULL);
CREATE INDEX otps_sealed ON public.otps USING btree (expires_at) WHERE (sealed_code IS NOT NULL);
CREATE INDEX otps_user_created ON public.otps USING btree (user_id, created_at);

create table owner_changes (
  action text not null,
  created_at timestamp with time zone default now() not null,
  id text not null,
  member_id text,
  name text,
  owner text not null,
  passkey_id text,
  user_id text not null,
  constraint owner_changes_action_check CHECK ((action = ANY (ARRAY['ADD'::text, 'REMOVE'::text]))),
  constraint owner_changes_id_check CHECK ((id ~ '^own_[0-9a-f]{44}$'::text)),
  constraint owner_changes_member_id_fkey FOREIGN KEY (member_id) REFERENCES users(id) ON DELETE SET NULL,
  constraint owner_changes_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
  constraint owner_changes_owner_check CHECK ((owner ~ '^0x([0-9a-f]{64}){1,2}$'::text)),
  constraint owner_changes_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES passkeys(id),
  constraint owner_changes_pkey PRIMARY KEY (id),
  constraint owner_changes_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
);
CREATE INDEX owner_changes_user ON public.owner_changes USING btree (user_id, id DESC);

create table passkeys (
  aaguid text,
  backed_up boolean not null,
  cose_key bytea not null,
  counter bigint default 0 not null,
  created_at timestamp with time zone default now() not null,
  device_type text not null,
  id text not null,
  last_used_at timestamp with time zone,
  name text,
  public_key_x bytea not null,
  public_key_y bytea not null,
  rp_id text not null,
  transports text[] default '{}'::text[] not null,
  user_id text not null,
  constraint passkeys_device_type_check CHECK ((device_type = ANY (ARRAY['singleDevice'::text, 'multiDevice'::text]))),
  constraint passkeys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
  constraint passkeys_pkey PRIMARY KEY (id),
  constraint passkeys_public_key_x_check CHECK ((octet_length(public_key_x) = 32)),
  constraint passkeys_public_key_y_check CHECK ((octet_length(public_key_y) = 32)),
  constraint passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX passkeys_user ON public.passkeys USING btree (user_id);

create table pay_amounts (
  link_id text not null,
  network text not null,
  recipient bytea not null,
  units bigint not null,
  used_at timestamp with time zone default now() not null,
  constraint pay_amounts_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint pay_amounts_pkey PRIMARY KEY (network, recipient, units),
  constraint pay_amounts_wallet_fkey FOREIGN KEY (network, recipient) REFERENCES wallets(network, address) ON DELETE CASCADE
);

create unlogged table payment_leases (
  payment_id text not null,
  until timestamp with time zone not null,
  constraint payment_leases_pkey PRIMARY KEY (payment_id)
) with (fillfactor=100);

create table payment_links (
  amount_units bigint not null,
  cancel_url text,
  cancelled_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  created_block bigint,
  customer_email text,
  description text not null,
  exception text default 'NONE'::text not null,
  expires_at timestamp with time zone not null,
  id text not null,
  is_addressed boolean generated always as ((is_reusable OR (parent_id IS NOT NULL))) stored not null,
  is_discoverable boolean default false not null,
  is_released boolean generated always as (((status = 'PENDING'::text) AND (exception = 'DUPLICATE'::text))) stored not null,
  is_reusable boolean default false not null,
  is_unpaid boolean generated always as ((status <> 'PAID'::text)) stored not null,
  max_payments integer default 1,
  max_units bigint,
  metadata jsonb default '{}'::jsonb not null,
  min_units bigint,
  network text not null,
  open_until timestamp with time zone generated always as (
CASE
    WHEN (status = ANY (ARRAY['ACTIVE'::text, 'PENDING'::text])) THEN expires_at
    ELSE NULL::timestamp with time zone
END) stored,
  paid_at timestamp with time zone,
  paid_units bigint,
  parent_id text,
  pay_amount_units bigint,
  place_rank smallint,
  recipient bytea not null,
  reference text,
  refunded_units bigint default 0 not null,
  settled_by text,
  stage text generated always as (
CASE
    WHEN (status = ANY (ARRAY['ACTIVE'::text, 'PENDING'::text])) THEN 'OPEN'::text
    ELSE status
END) stored not null,
  status text default 'ACTIVE'::text not null,
  success_url text,
  tag bytea,
  unique_reference boolean default false not null,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint payment_links_amount_units_check CHECK (((amount_units >= 1) AND (amount_units <= '1000000000000'::bigint))),
  constraint payment_links_cancel_url_check CHECK ((length(cancel_url) <= 2000)),
  constraint payment_links_customer_email_check CHECK (((length(customer_email) >= 3) AND (length(customer_email) <= 254))),
  constraint payment_links_description_check CHECK (((length(description) >= 1) AND (length(description) <= 500))),
  constraint payment_links_discoverable_check CHECK (((NOT is_discoverable) OR (parent_id IS NULL))),
  constraint payment_links_exception_check CHECK ((exception = ANY (ARRAY['NONE'::text, 'PAID_LATE'::text, 'UNDERPAID'::text, 'OVERPAID'::text, 'DUPLICATE'::text]))),
  constraint payment_links_id_check CHECK (starts_with(id, 'link_'::text)),
  constraint payment_links_lengths_check CHECK (((octet_length(recipient) = 20) AND (octet_length(tag) = 16))),
  constraint payment_links_max_payments_check CHECK ((max_payments >= 1)),
  constraint payment_links_max_units_check CHECK (((max_units >= 1) AND (max_units <= '1000000000000'::bigint))),
  constraint payment_links_metadata_check CHECK ((jsonb_typeof(metadata) = 'object'::text)),
  constraint payment_links_min_units_check CHECK (((min_units >= 1) AND (min_units <= '1000000000000'::bigint))),
  constraint payment_links_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint payment_links_open_amount_check CHECK ((((min_units IS NULL) = (max_units IS NULL)) AND ((min_units IS NULL) OR (is_reusable AND (min_units <= max_units))))),
  constraint payment_links_paid_at_check CHECK (((status = 'PAID'::text) = (paid_at IS NOT NULL))),
  constraint payment_links_paid_units_check CHECK ((paid_units > 0)),
  constraint payment_links_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES payment_links(id) ON DELETE CASCADE,
  constraint payment_links_pay_amount_check CHECK ((pay_amount_units > amount_units)),
  constraint payment_links_pkey PRIMARY KEY (id),
  constraint payment_links_reference_check CHECK (((length(reference) >= 1) AND (length(reference) <= 100))),
  constraint payment_links_refunded_units_check CHECK ((refunded_units >= 0)),
  constraint payment_links_reusable_check CHECK ((is_reusable OR (max_payments = 1))),
  constraint payment_links_settled_by_check CHECK ((settled_by = ANY (ARRAY['authorization'::text, 'tag'::text, 'proof'::text, 'early_claim'::text, 'pay_amount'::text, 'amount'::text, 'merchant'::text]))),
  constraint payment_links_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'PENDING'::text, 'PAID'::text, 'EXPIRED'::text, 'CANCELLED'::text]))),
  constraint payment_links_success_url_check CHECK ((length(success_url) <= 2000)),
  constraint payment_links_template_check CHECK (((NOT is_reusable) OR ((tag IS NULL) AND (pay_amount_units IS NULL) AND (status = ANY (ARRAY['ACTIVE'::text, 'EXPIRED'::text, 'CANCELLED'::text]))))),
  constraint payment_links_unique_reference_check CHECK (((NOT unique_reference) OR (reference IS NOT NULL))),
  constraint payment_links_use_check CHECK (((parent_id IS NULL) OR (NOT is_reusable))),
  constraint payment_links_wallet_fkey FOREIGN KEY (network, recipient) REFERENCES wallets(network, address) ON DELETE CASCADE
) with (fillfactor=58);
CREATE INDEX payment_links_created_block ON public.payment_links USING brin (created_block);
CREATE INDEX payment_links_customer ON public.payment_links USING btree (user_id, customer_email, created_at DESC, id DESC) WHERE (customer_email IS NOT NULL);
CREATE INDEX payment_links_discoverable ON public.payment_links USING btree (created_at DESC, id DESC) WHERE (is_discoverable AND (stage = 'OPEN'::text));
CREATE INDEX payment_links_exception_any ON public.payment_links USING btree (owner_key(user_id), created_at DESC, id DESC) WHERE (exception <> 'NONE'::text);
CREATE INDEX payment_links_fitting ON public.payment_links USING btree (address_key(recipient), amount_units, expires_at) WHERE is_unpaid;
CREATE INDEX payment_links_listed_by_time ON public.payment_links USING btree (owner_key(user_id), stage, created_at DESC) WHERE (parent_id IS NULL);
CREATE INDEX payment_links_open_by_time ON public.payment_links USING btree (network, open_until) WHERE (open_until IS NOT NULL);
CREATE INDEX payment_links_reference ON public.payment_links USING btree (user_id, reference, created_at DESC, id DESC) WHERE (reference IS NOT NULL);
CREATE INDEX payment_links_released ON public.payment_links USING btree (network) WHERE is_released;
CREATE INDEX payment_links_tag ON public.payment_links USING hash (tag);
CREATE INDEX payment_links_unique_amount ON public.payment_links USING btree (address_key(recipient), pay_amount_units) WHERE (is_unpaid AND (pay_amount_units IS NOT NULL));
CREATE UNIQUE INDEX payment_links_unique_reference_key ON public.payment_links USING btree (user_id, reference) WHERE unique_reference;
CREATE INDEX payment_links_uses ON public.payment_links USING btree (parent_id, created_at DESC, id DESC) WHERE (parent_id IS NOT NULL);
CREATE TRIGGER payment_links_count_added AFTER INSERT ON public.payment_links REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added_links();
CREATE TRIGGER payment_links_count_changed AFTER UPDATE ON public.payment_links REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_changed_links();
CREATE TRIGGER payment_links_count_removed AFTER DELETE ON public.payment_links REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_links();
CREATE TRIGGER payment_links_note_cancellation BEFORE UPDATE OF status ON public.payment_links FOR EACH ROW WHEN (((new.status = 'CANCELLED'::text) AND (old.status <> 'CANCELLED'::text))) EXECUTE FUNCTION note_cancellation();

create unlogged table payment_requests (
  created_at timestamp with time zone default now() not null,
  payment_id text not null,
  request_id text not null,
  constraint payment_requests_pkey PRIMARY KEY (payment_id)
);

create table payments (
  accepted_block bigint,
  alone boolean default false not null,
  amount_units bigint not null,
  answer_claim text,
  answer_digest bytea,
  answer_state text,
  answered_at timestamp with time zone,
  block_number bigint,
  created_at timestamp with time zone default now() not null,
  doubt_since timestamp with time zone,
  doubt_until timestamp with time zone,
  facilitated_mined_block bigint generated always as (
CASE
    WHEN ((link_id IS NULL) AND (state = 'MINED'::text)) THEN block_number
    ELSE NULL::bigint
END) stored,
  facilitator_key_id text,
  facilitator_user_id text,
  id text not null,
  idempotency_key text,
  is_live boolean generated always as ((state <> 'FAILED'::text)) stored not null,
  is_open boolean generated always as ((state = ANY (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text]))) stored not null,
  link_id text,
  log_index integer,
  network text not null,
  next_try_at timestamp with time zone default now() not null,
  nonce bytea not null,
  payer bytea not null,
  payer_kind text not null,
  payer_language text,
  reason text,
  reason_text text,
  recipient bytea not null,
  refusals integer default 0 not null,
  relay_id bigint,
  reverts integer default 0 not null,
  signature bytea not null,
  state text default 'QUEUED'::text not null,
  token bytea not null,
  told_to text,
  tx_hash bytea,
  unavailable_since timestamp with time zone,
  updated_at timestamp with time zone default now() not null,
  valid_after numeric(78,0) not null,
  valid_before numeric(78,0) not null,
  constraint payments_amount_units_check CHECK ((amount_units > 0)),
  constraint payments_answer_state CHECK ((answer_state = ANY (ARRAY['SENDING'::text, 'SENT'::text, 'CUT'::text]))),
  constraint payments_doubt_check CHECK (((doubt_since IS NULL) = (doubt_until IS NULL))),
  constraint payments_lengths_check CHECK (((octet_length(token) = 20) AND (octet_length(payer) = 20) AND (octet_length(recipient) = 20) AND (octet_length(nonce) = 32) AND (octet_length(tx_hash) = 32))),
  constraint payments_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint payments_one_purpose CHECK ((num_nonnulls(link_id, facilitator_user_id) = 1)),
  constraint payments_payer_kind_check CHECK ((payer_kind = ANY (ARRAY['EOA'::text, 'CONTRACT'::text]))),
  constraint payments_payer_language_check CHECK ((payer_language = ANY (ARRAY['en'::text, 'es'::text, 'pt-BR'::text, 'fr'::text, 'de'::text, 'tr'::text, 'ar'::text, 'hi'::text, 'id'::text, 'vi'::text, 'zh-Hans'::text]))),
  constraint payments_pkey PRIMARY KEY (id),
  constraint payments_reason_check CHECK (((state = 'FAILED'::text) = (reason IS NOT NULL))),
  constraint payments_state_check CHECK ((state = ANY (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text, 'MINED'::text, 'CONFIRMED'::text, 'FAILED'::text])))
) with (fillfactor=46);
CREATE UNIQUE INDEX payments_authorization_key ON public.payments USING btree (authorization_digest(network, token, payer, nonce));
CREATE INDEX payments_doubtful ON public.payments USING btree (link_id) WHERE (doubt_until IS NOT NULL);
CREATE INDEX payments_facilitated_mined ON public.payments USING btree (network, facilitated_mined_block) WHERE (facilitated_mined_block IS NOT NULL);
CREATE INDEX payments_height ON public.payments USING brin (block_number, accepted_block) WITH (autosummarize='on');
CREATE UNIQUE INDEX payments_idempotency_key ON public.payments USING btree (link_id, idempotency_key) WHERE ((idempotency_key IS NOT NULL) AND is_live);
CREATE UNIQUE INDEX payments_live_link_key ON public.payments USING btree (link_id) WHERE is_live;
CREATE INDEX payments_reverted ON public.payments USING btree (network, payer) WHERE (reverts > 0);
CREATE TRIGGER payments_note_added AFTER INSERT ON public.payments REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_added_payments();
CREATE TRIGGER payments_note_changed AFTER UPDATE ON public.payments REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_changed_payments();
CREATE TRIGGER payments_note_removed AFTER DELETE ON public.payments REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION note_removed_payments();

create unlogged table processes (
  details jsonb default '{}'::jsonb not null,
  host text not null,
  id uuid not null,
  kind text not null,
  pid integer not null,
  seen_at timestamp with time zone default now() not null,
  started_at timestamp with time zone default now() not null,
  version text not null,
  constraint processes_kind_check CHECK ((kind = ANY (ARRAY['api'::text, 'worker'::text, 'indexer'::text]))),
  constraint processes_pkey PRIMARY KEY (id)
) with (fillfactor=50);

create unlogged table rate_counters (
  count integer not null,
  ends_at timestamp with time zone not null,
  key text not null,
  constraint rate_counters_pkey PRIMARY KEY (key)
) with (fillfactor=50);
CREATE INDEX rate_counters_ends ON public.rate_counters USING btree (ends_at);

create table receipt_mails (
  created_at timestamp with time zone default now() not null,
  id text default ('rcp_'::text || replace((gen_random_uuid())::text, '-'::text, ''::text)) not null,
  link_id text not null,
  log_index integer not null,
  sent_at timestamp with time zone,
  tx_hash text not null,
  user_id text not null,
  constraint receipt_mails_link_id_fkey FOREIGN KEY (link_id) REFERENCES payment_links(id) ON DELETE CASCADE,
  constraint receipt_mails_pkey PRIMARY KEY (id),
  constraint receipt_mails_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX receipt_mails_payment_key ON public.receipt_mails USING btree (link_id, tx_hash);
CREATE INDEX receipt_mails_user ON public.receipt_mails USING btree (user_id, created_at);

create table reconciliations (
  checked integer not null,
  created_at timestamp with time zone default now() not null,
  details jsonb default '[]'::jsonb not null,
  differences integer not null,
  from_block bigint not null,
  id bigint generated always as identity not null,
  kind text not null,
  network text not null,
  repaired integer default 0 not null,
  to_block bigint not null,
  constraint reconciliations_kind_check CHECK ((kind = ANY (ARRAY['LOGS'::text, 'BALANCES'::text, 'NONCES'::text]))),
  constraint reconciliations_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint reconciliations_pkey PRIMARY KEY (id)
);
CREATE INDEX reconciliations_newest ON public.reconciliations USING btree (network, kind, id DESC);

create table refunds (
  amount_units bigint not null,
  cancelled_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  id text not null,
  link_id text not null,
  network text not null,
  orphaned_transfer_id bigint,
  paid_log_index integer not null,
  paid_tx_hash text not null,
  reason text,
  request_hash bytea,
  request_key text,
  requested_by text,
  to_address text not null,
  to_source text not null,
  user_id text not null,
  constraint refunds_amount_units_check CHECK ((amount_units > 0)),
  constraint refunds_id_check CHECK ((id ~ '^rfd_[0-9a-f]{44}$'::text)),
  constraint refunds_link_id_fkey FOREIGN KEY (link_id) REFERENCES payment_links(id),
  constraint refunds_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint refunds_pkey PRIMARY KEY (id),
  constraint refunds_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 500))),
  constraint refunds_request_hash_check CHECK (((request_key IS NULL) = (request_hash IS NULL))),
  constraint refunds_requested_by_check CHECK ((requested_by ~ '^(user|key)_'::text)),
  constraint refunds_to_address_check CHECK ((to_address ~ '^0x[0-9a-f]{40}$'::text)),
  constraint refunds_to_source_check CHECK ((to_source = ANY (ARRAY['x402_payer'::text, 'transfer_sender'::text, 'given'::text]))),
  constraint refunds_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
);
CREATE INDEX refunds_link ON public.refunds USING btree (link_id, id DESC);
CREATE INDEX refunds_orphaned ON public.refunds USING btree (network) WHERE (orphaned_transfer_id IS NOT NULL);
CREATE INDEX refunds_paid ON public.refunds USING hash (paid_tx_hash);
CREATE UNIQUE INDEX refunds_request_key ON public.refunds USING btree (user_id, request_key) WHERE ((request_key IS NOT NULL) AND (cancelled_at IS NULL));
CREATE INDEX refunds_user ON public.refunds USING btree (user_id, id DESC);

create table relay_attempts (
  created_at timestamp with time zone default now() not null,
  is_noop boolean default false not null,
  last_answer text,
  last_sent_at timestamp with time zone,
  left_out text[] default '{}'::text[] not null,
  max_fee_per_gas numeric(78,0) not null,
  max_priority_fee_per_gas numeric(78,0) not null,
  raw bytea,
  relay_id bigint not null,
  sends integer default 0 not null,
  tx_hash text not null,
  constraint relay_attempts_pkey PRIMARY KEY (tx_hash),
  constraint relay_attempts_tx_hash_check CHECK (((tx_hash ~ '^0x[0-9a-f]*$'::text) AND (length(tx_hash) = 66)))
);
CREATE INDEX relay_attempts_bytes ON public.relay_attempts USING btree (created_at) WHERE (raw IS NOT NULL);
CREATE UNIQUE INDEX relay_attempts_fee_key ON public.relay_attempts USING btree (relay_id, max_fee_per_gas);

create table relay_budgets (
  day date not null,
  maximum numeric(78,0),
  network text not null,
  reserved numeric(78,0) default 0 not null,
  scope text not null,
  subject text not null,
  used numeric(78,0) default 0 not null,
  constraint relay_budgets_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint relay_budgets_pkey PRIMARY KEY (network, scope, subject, day),
  constraint relay_budgets_reserved_check CHECK ((reserved >= (0)::numeric)),
  constraint relay_budgets_scope_check CHECK ((scope = ANY (ARRAY['FEES'::text, 'MERCHANT'::text, 'REVERTED'::text, 'SENDS'::text, 'SENDER'::text]))),
  constraint relay_budgets_used_check CHECK ((used >= (0)::numeric))
);
CREATE INDEX relay_budgets_day ON public.relay_budgets USING btree (day);

create table relay_charges (
  amount numeric(78,0) not null,
  day date not null,
  items integer not null,
  network text not null,
  relay_id bigint not null,
  scope text not null,
  settled boolean default false not null,
  subject text not null,
  constraint relay_charges_amount_check CHECK ((amount >= (0)::numeric)),
  constraint relay_charges_pkey PRIMARY KEY (relay_id, scope, subject)
) with (fillfactor=75);
CREATE INDEX relay_charges_day ON public.relay_charges USING brin (day);

create table relay_payments (
  payment_ids text[] not null,
  relay_id bigint not null,
  constraint relay_payments_pkey PRIMARY KEY (relay_id)
);

create table relayers (
  address text not null,
  created_at timestamp with time zone default now() not null,
  network text not null,
  next_nonce bigint not null,
  constraint relayers_address_check CHECK ((address ~ '^0x[0-9a-f]{40}$'::text)),
  constraint relayers_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint relayers_next_nonce_check CHECK ((next_nonce >= 0)),
  constraint relayers_pkey PRIMARY KEY (network, address)
);

create table relays (
  block_hash text,
  block_number bigint,
  call_data_bytes integer not null,
  call_data_start integer not null,
  call_to text not null,
  created_at timestamp with time zone default now() not null,
  fee_wei numeric(78,0),
  gas_limit bigint not null,
  gas_used bigint,
  id bigint generated always as identity not null,
  is_reopened boolean default false not null,
  kind text not null,
  mined_at timestamp with time zone,
  misses integer default 0 not null,
  network text not null,
  nonce bigint not null,
  relayer text not null,
  state text default 'SIGNED'::text not null,
  succeeded boolean,
  tx_hash text,
  wallet_id text,
  constraint relays_kind_check CHECK ((kind = ANY (ARRAY['PAYMENTS'::text, 'DEPLOY'::text, 'NOOP'::text, 'OPERATIONS'::text]))),
  constraint relays_network_relayer_fkey FOREIGN KEY (network, relayer) REFERENCES relayers(network, address),
  constraint relays_pkey PRIMARY KEY (id),
  constraint relays_state_check CHECK ((state = ANY (ARRAY['SIGNED'::text, 'BROADCAST'::text, 'MINED'::text, 'CONFIRMED'::text, 'LOST'::text]))),
  constraint relays_wallet_id_fkey FOREIGN KEY (wallet_id) REFERENCES wallets(id) ON DELETE SET NULL
) with (fillfactor=70);
CREATE INDEX relays_height ON public.relays USING brin (block_number) WITH (autosummarize='on');
CREATE INDEX relays_in_flight ON public.relays USING btree (network, relayer, nonce) WHERE (state = ANY (ARRAY['SIGNED'::text, 'BROADCAST'::text, 'MINED'::text]));
CREATE UNIQUE INDEX relays_nonce_key ON public.relays USING btree (network, relayer, nonce) WHERE (state <> 'LOST'::text);
CREATE INDEX relays_wallet ON public.relays USING btree (wallet_id) WHERE (wallet_id IS NOT NULL);

create table security_events (
  actor_id text,
  client_address text,
  created_at timestamp with time zone default now() not null,
  details jsonb default '{}'::jsonb not null,
  id bigint generated always as identity not null,
  request_id text,
  type text not null,
  user_id text,
  constraint security_events_pkey PRIMARY KEY (id),
  constraint security_events_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX security_events_created ON public.security_events USING brin (created_at);
CREATE INDEX security_events_user ON public.security_events USING btree (user_id, id DESC);
CREATE TRIGGER security_events_append_only BEFORE DELETE OR UPDATE ON public.security_events FOR EACH ROW EXECUTE FUNCTION refuse_trail_change();

create table sessions (
  absolute_end_at timestamp with time zone not null,
  acted_for text[] default '{}'::text[] not null,
  client_address text,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  id text not null,
  last_seen_at timestamp with time zone default now() not null,
  method text not null,
  passkey_at timestamp with time zone,
  passkey_id text,
  user_agent text,
  user_id text not null,
  constraint sessions_method_check CHECK ((method = ANY (ARRAY['otp'::text, 'passkey'::text, 'wallet_setup'::text, 'google'::text, 'test'::text, 'recovery'::text]))),
  constraint sessions_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES passkeys(id) ON DELETE SET NULL,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_user_agent_check CHECK ((length(user_agent) <= 300)),
  constraint sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX sessions_expires ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_passkey ON public.sessions USING btree (passkey_id) WHERE (passkey_id IS NOT NULL);
CREATE INDEX sessions_user ON public.sessions USING btree (user_id);

create unlogged table traces (
  created_at timestamp with time zone default now() not null,
  subject_id text not null,
  traceparent text not null,
  constraint traces_pkey PRIMARY KEY (subject_id)
);

create table transaction_amount_counts (
  bucket integer not null,
  count bigint not null,
  network text not null,
  status text not null,
  type text not null,
  user_id text not null,
  constraint transaction_amount_counts_pkey PRIMARY KEY (user_id, network, type, status, bucket)
);
CREATE TRIGGER transaction_amount_counts_added AFTER INSERT ON public.transaction_amount_counts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION widen_added_amount_counts();
CREATE TRIGGER transaction_amount_counts_changed AFTER UPDATE ON public.transaction_amount_counts REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION widen_changed_amount_counts();
CREATE TRIGGER transaction_amount_counts_removed AFTER DELETE ON public.transaction_amount_counts REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION widen_removed_amount_counts();

create table transaction_count_deltas (
  amount_bucket integer not null,
  count bigint not null,
  day date not null,
  network text not null,
  status text not null,
  type text not null,
  units numeric(78,0) default 0 not null,
  user_id text not null
);
CREATE INDEX transaction_count_deltas_owner ON public.transaction_count_deltas USING btree (owner_key(user_id));

create table transaction_counts (
  count bigint not null,
  day date not null,
  network text not null,
  status text not null,
  type text not null,
  units numeric(78,0) default 0 not null,
  user_id text not null,
  constraint transaction_counts_pkey PRIMARY KEY (user_id, network, type, status, day)
);
CREATE INDEX transaction_counts_all_time ON public.transaction_counts USING btree (user_id) WHERE (day = 'infinity'::date);

create table transaction_wide_amount_counts (
  bucket integer not null,
  cell smallint not null,
  count bigint not null,
  owner uuid not null,
  constraint transaction_wide_amount_counts_pkey PRIMARY KEY (owner, cell, bucket)
) with (fillfactor=75);

create table transactions (
  amount_units numeric(78,0) not null,
  block_number bigint,
  candidates text[],
  cell smallint generated always as (transaction_cell(type, status, network)) stored not null,
  claim_id text,
  confirmed_at timestamp with time zone,
  counterparty bytea not null,
  created_at timestamp with time zone default now() not null,
  description text default ''::text not null,
  detected_at timestamp with time zone not null,
  failure_reason text,
  id text not null,
  is_settled boolean generated always as ((status <> 'PENDING'::text)) stored not null,
  link_id text,
  log_index integer,
  network text not null,
  operation_id text,
  operation_item_id bigint,
  operation_note text,
  owner uuid not null,
  payment_id text,
  reference text,
  settled_by text,
  status text not null,
  transfer_id bigint,
  tx_hash bytea,
  type text not null,
  updated_at timestamp with time zone default now() not null,
  constraint transactions_claim_id_fkey FOREIGN KEY (claim_id) REFERENCES claims(id) ON DELETE SET NULL,
  constraint transactions_id_check CHECK (starts_with(id, 'txn_'::text)),
  constraint transactions_lengths_check CHECK (((octet_length(counterparty) = 20) AND (octet_length(tx_hash) = 32))),
  constraint transactions_operation_item_id_fkey FOREIGN KEY (operation_item_id) REFERENCES wallet_operation_items(id) ON DELETE SET NULL,
  constraint transactions_pkey PRIMARY KEY (id),
  constraint transactions_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'DETECTED'::text, 'CONFIRMED'::text, 'FAILED'::text, 'ORPHANED'::text]))),
  constraint transactions_type_check CHECK ((type = ANY (ARRAY['SEND'::text, 'RECEIVE'::text, 'PAYMENT_LINK'::text])))
);
CREATE INDEX transactions_by_amount ON public.transactions USING btree (owner, amount_units, detected_at DESC, id DESC) INCLUDE (cell) WHERE is_settled;
CREATE INDEX transactions_by_cell ON public.transactions USING btree (owner, cell, detected_at DESC, id DESC) INCLUDE (amount_units) WHERE is_settled;
CREATE UNIQUE INDEX transactions_claim_key ON public.transactions USING btree (claim_id) WHERE (claim_id IS NOT NULL);
CREATE INDEX transactions_described ON public.transactions USING gin (description gin_trgm_ops) WITH (gin_pending_list_limit='512') WHERE (is_settled AND (description <> ''::text));
CREATE INDEX transactions_newest ON public.transactions USING btree (owner, detected_at DESC) WHERE is_settled;
CREATE INDEX transactions_numbered ON public.transactions USING gin (number_parts(description, reference)) WITH (gin_pending_list_limit='512') WHERE (is_settled AND ((description ~ '[0-9]{5}'::text) OR (reference ~ '[0-9]{5}'::text)));
CREATE INDEX transactions_operation ON public.transactions USING btree (operation_id) WHERE (operation_id IS NOT NULL);
CREATE UNIQUE INDEX transactions_operation_item_key ON public.transactions USING btree (operation_item_id) WHERE (operation_item_id IS NOT NULL);
CREATE UNIQUE INDEX transactions_payment_key ON public.transactions USING btree (payment_id) WHERE (payment_id IS NOT NULL);
CREATE INDEX transactions_pending_of ON public.transactions USING btree (owner) WHERE (NOT is_settled);
CREATE INDEX transactions_reference ON public.transactions USING gin (reference gin_trgm_ops) WITH (gin_pending_list_limit='512') WHERE (is_settled AND (reference IS NOT NULL));
CREATE UNIQUE INDEX transactions_transfer_key ON public.transactions USING btree (transfer_id, ((type = 'SEND'::text))) WHERE (transfer_id IS NOT NULL);
CREATE INDEX transactions_user_hash ON public.transactions USING btree (owner, substr(tx_hash, 1, 6)) WHERE (is_settled AND (tx_hash IS NOT NULL));
CREATE TRIGGER transactions_count_added AFTER INSERT ON public.transactions REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added_transactions();
CREATE TRIGGER transactions_count_changed AFTER UPDATE ON public.transactions REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_changed_transactions();
CREATE TRIGGER transactions_count_removed AFTER DELETE ON public.transactions REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_transactions();
CREATE TRIGGER transactions_note_added_reference BEFORE INSERT ON public.transactions FOR EACH ROW WHEN ((new.link_id IS NOT NULL)) EXECUTE FUNCTION note_reference();
CREATE TRIGGER transactions_note_changed_reference AFTER UPDATE OF link_id ON public.transactions FOR EACH ROW WHEN ((new.link_id IS DISTINCT FROM old.link_id)) EXECUTE FUNCTION note_changed_reference();

create table transfers (
  amount_units numeric(78,0) not null,
  authorization_nonce bytea,
  block_hash bytea not null,
  block_number bigint not null,
  block_time timestamp with time zone not null,
  candidates text[],
  confirmed_at timestamp with time zone,
  detected_at timestamp with time zone default now() not null,
  from_address bytea not null,
  id bigint generated always as identity not null,
  link_id text,
  log_index integer not null,
  network text not null,
  payment_id text,
  pays boolean default false not null,
  settled_by text,
  status text default 'DETECTED'::text not null,
  to_address bytea not null,
  tx_hash bytea not null,
  constraint transfers_candidates_check CHECK (((candidates IS NULL) OR ((cardinality(candidates) > 0) AND (link_id IS NULL)))),
  constraint transfers_lengths_check CHECK (((octet_length(block_hash) = 32) AND (octet_length(tx_hash) = 32) AND (octet_length(from_address) = 20) AND (octet_length(to_address) = 20) AND (octet_length(authorization_nonce) = 32))),
  constraint transfers_pays_check CHECK (((NOT pays) OR (link_id IS NOT NULL))),
  constraint transfers_pkey PRIMARY KEY (id),
  constraint transfers_settled_by_check CHECK ((settled_by = ANY (ARRAY['authorization'::text, 'tag'::text, 'proof'::text, 'early_claim'::text, 'pay_amount'::text, 'amount'::text, 'merchant'::text]))),
  constraint transfers_status_check CHECK ((status = ANY (ARRAY['DETECTED'::text, 'CONFIRMED'::text, 'ORPHANED'::text])))
);
CREATE INDEX transfers_authorization ON public.transfers USING hash (authorization_nonce) WHERE (authorization_nonce IS NOT NULL);
CREATE INDEX transfers_detected ON public.transfers USING btree (network, block_number) WHERE (status = 'DETECTED'::text);
CREATE INDEX transfers_from ON public.transfers USING btree (address_key(from_address), block_number);
CREATE INDEX transfers_hash ON public.transfers USING hash (tx_hash);
CREATE INDEX transfers_height ON public.transfers USING btree (block_number, network) WHERE (status <> 'ORPHANED'::text);
CREATE UNIQUE INDEX transfers_log_key ON public.transfers USING btree (log_digest(network, block_hash, log_index));
CREATE INDEX transfers_misfit_link ON public.transfers USING btree (link_id) WHERE ((link_id IS NOT NULL) AND (NOT pays));
CREATE INDEX transfers_orphaned_link ON public.transfers USING btree (link_id) WHERE (pays AND (status = 'ORPHANED'::text));
CREATE UNIQUE INDEX transfers_payment_key ON public.transfers USING btree (payment_id) WHERE ((payment_id IS NOT NULL) AND (status <> 'ORPHANED'::text));
CREATE UNIQUE INDEX transfers_pays_link_key ON public.transfers USING btree (link_id) WHERE (pays AND (status <> 'ORPHANED'::text));
CREATE INDEX transfers_to ON public.transfers USING btree (address_key(to_address), block_number);

create table unlinked_issuers (
  issuer text not null,
  unlinked_at timestamp with time zone default now() not null,
  user_id text not null,
  constraint unlinked_issuers_pkey PRIMARY KEY (user_id, issuer),
  constraint unlinked_issuers_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table users (
  claim_policy text default 'early'::text not null,
  created_at timestamp with time zone default now() not null,
  display_name text,
  email text not null,
  id text not null,
  match_by_amount boolean default true not null,
  relay_gas_per_day bigint,
  status text default 'REGISTERED'::text not null,
  updated_at timestamp with time zone default now() not null,
  constraint users_claim_policy_check CHECK ((claim_policy = ANY (ARRAY['early'::text, 'proven'::text]))),
  constraint users_display_name_check CHECK (((length(display_name) >= 1) AND (length(display_name) <= 100))),
  constraint users_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
  constraint users_id_check CHECK ((id = ('user_'::text || (owner_key(id))::text))),
  constraint users_pkey PRIMARY KEY (id),
  constraint users_relay_gas_per_day_check CHECK ((relay_gas_per_day >= 0)),
  constraint users_status_check CHECK ((status = ANY (ARRAY['REGISTERED'::text, 'WALLET_SETUP_PENDING'::text, 'ACTIVE'::text])))
);
CREATE UNIQUE INDEX users_email_key ON public.users USING btree (email);
CREATE INDEX users_unverified ON public.users USING btree (created_at) WHERE (status = 'REGISTERED'::text);

create table wallet_operation_events (
  block_hash text not null,
  block_number bigint not null,
  failure text,
  gas_used numeric(78,0) not null,
  log_index integer not null,
  network text not null,
  nonce numeric(78,0) not null,
  sender text not null,
  succeeded boolean not null,
  tx_hash text not null,
  user_op_hash text not null,
  constraint wallet_operation_events_pkey PRIMARY KEY (network, block_hash, log_index)
);
CREATE INDEX wallet_operation_events_height ON public.wallet_operation_events USING btree (network, block_number);
CREATE INDEX wallet_operation_events_nonce ON public.wallet_operation_events USING btree (network, sender, nonce);

create table wallet_operation_items (
  amount_units bigint not null,
  id bigint generated always as identity not null,
  is_fee boolean default false not null,
  note text default ''::text not null,
  operation_id text not null,
  position integer not null,
  to_address text not null,
  constraint wallet_operation_items_amount_units_check CHECK ((amount_units > 0)),
  constraint wallet_operation_items_note_check CHECK ((length(note) <= 500)),
  constraint wallet_operation_items_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES wallet_operations(id) ON DELETE CASCADE,
  constraint wallet_operation_items_operation_id_position_key UNIQUE (operation_id, "position"),
  constraint wallet_operation_items_pkey PRIMARY KEY (id),
  constraint wallet_operation_items_to_address_check CHECK ((to_address ~ '^0x[0-9a-f]{40}$'::text))
);

create table wallet_operations (
  account_nonce numeric(78,0) not null,
  assertion_hash bytea,
  block_number bigint,
  call_data text not null,
  call_gas bigint not null,
  challenge_id text not null,
  confirmed_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  former_relay_ids bigint[],
  gas_used bigint,
  id text not null,
  idempotency_key text,
  is_any_chain boolean default false not null,
  is_extra boolean default false not null,
  kind text not null,
  log_index integer,
  missed_relays integer default 0 not null,
  network text not null,
  next_try_at timestamp with time zone default now() not null,
  owner_change_id text,
  owner_index integer,
  passkey_id text,
  prior_reason text,
  prior_state text,
  queued_at timestamp with time zone,
  reason text,
  refusals integer default 0 not null,
  relay_id bigint,
  relayed_at timestamp with time zone,
  request_hash bytea,
  request_id text,
  restored_at timestamp with time zone,
  signature text,
  signature_refused_block bigint,
  state text default 'AWAITING_SIGNATURE'::text not null,
  succeeded boolean,
  terms jsonb not null,
  tx_hash text,
  updated_at timestamp with time zone default now() not null,
  user_id text not null,
  user_op_hash text not null,
  verification_gas bigint not null,
  void_of text,
  wallet_id text not null,
  constraint wallet_operations_account_nonce_check CHECK ((account_nonce >= (0)::numeric)),
  constraint wallet_operations_check CHECK (((state = 'FAILED'::text) = (reason IS NOT NULL))),
  constraint wallet_operations_check1 CHECK (((state <> ALL (ARRAY['SIGNED'::text, 'BROADCAST'::text])) OR (relay_id IS NOT NULL))),
  constraint wallet_operations_check2 CHECK (((state <> ALL (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text])) OR (signature IS NOT NULL))),
  constraint wallet_operations_check3 CHECK (((state <> ALL (ARRAY['MINED'::text, 'CONFIRMED'::text])) OR ((tx_hash IS NOT NULL) AND (succeeded IS NOT NULL)))),
  constraint wallet_operations_check4 CHECK (((state <> 'CONFIRMED'::text) OR succeeded)),
  constraint wallet_operations_id_check CHECK ((id ~ '^(snd|rfd|own)_[0-9a-f]{44}$'::text)),
  constraint wallet_operations_kind_check CHECK ((kind = ANY (ARRAY['SEND'::text, 'REFUND'::text, 'OWNERS'::text]))),
  constraint wallet_operations_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint wallet_operations_owner_change_id_fkey FOREIGN KEY (owner_change_id) REFERENCES owner_changes(id),
  constraint wallet_operations_owners_check CHECK (((kind = 'OWNERS'::text) = (owner_change_id IS NOT NULL))),
  constraint wallet_operations_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES passkeys(id),
  constraint wallet_operations_pkey PRIMARY KEY (id),
  constraint wallet_operations_relay_id_fkey FOREIGN KEY (relay_id) REFERENCES relays(id),
  constraint wallet_operations_state_check CHECK ((state = ANY (ARRAY['AWAITING_SIGNATURE'::text, 'QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text, 'MINED'::text, 'CONFIRMED'::text, 'FAILED'::text, 'EXPIRED'::text, 'CANCELLED'::text]))),
  constraint wallet_operations_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id),
  constraint wallet_operations_user_op_hash_check CHECK ((user_op_hash ~ '^0x[0-9a-f]{64}$'::text)),
  constraint wallet_operations_void_of_fkey FOREIGN KEY (void_of) REFERENCES wallet_operations(id),
  constraint wallet_operations_wallet_id_fkey FOREIGN KEY (wallet_id) REFERENCES wallets(id)
);
CREATE UNIQUE INDEX wallet_operations_any_chain_key ON public.wallet_operations USING btree (wallet_id, account_nonce) WHERE ((state = ANY (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text, 'MINED'::text])) AND (NOT is_extra) AND is_any_chain);
CREATE INDEX wallet_operations_failed ON public.wallet_operations USING btree (user_id, queued_at) WHERE (state = 'FAILED'::text);
CREATE UNIQUE INDEX wallet_operations_hash_key ON public.wallet_operations USING btree (network, user_op_hash);
CREATE INDEX wallet_operations_height ON public.wallet_operations USING btree (network, block_number) WHERE (block_number IS NOT NULL);
CREATE UNIQUE INDEX wallet_operations_idempotency_key ON public.wallet_operations USING btree (user_id, kind, idempotency_key) WHERE ((idempotency_key IS NOT NULL) AND (state <> ALL (ARRAY['EXPIRED'::text, 'CANCELLED'::text])));
CREATE UNIQUE INDEX wallet_operations_live_key ON public.wallet_operations USING btree (wallet_id) WHERE ((state = ANY (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text, 'MINED'::text])) AND (NOT is_extra) AND (NOT is_any_chain));
CREATE INDEX wallet_operations_nonce ON public.wallet_operations USING btree (wallet_id, account_nonce);
CREATE INDEX wallet_operations_open ON public.wallet_operations USING btree (network, state) WHERE (state = ANY (ARRAY['QUEUED'::text, 'SIGNED'::text, 'BROADCAST'::text, 'MINED'::text]));
CREATE INDEX wallet_operations_owner_change ON public.wallet_operations USING btree (owner_change_id) WHERE (owner_change_id IS NOT NULL);
CREATE INDEX wallet_operations_queued ON public.wallet_operations USING btree (network, next_try_at) WHERE (state = 'QUEUED'::text);
CREATE INDEX wallet_operations_relay ON public.wallet_operations USING btree (relay_id) WHERE (relay_id IS NOT NULL);
CREATE INDEX wallet_operations_restored ON public.wallet_operations USING btree ("right"(id, 32)) WHERE (restored_at IS NOT NULL);
CREATE INDEX wallet_operations_unexecuted ON public.wallet_operations USING btree (network, updated_at) WHERE (state = ANY (ARRAY['EXPIRED'::text, 'CANCELLED'::text, 'FAILED'::text]));
CREATE INDEX wallet_operations_unsigned ON public.wallet_operations USING btree (expires_at) WHERE (state = 'AWAITING_SIGNATURE'::text);
CREATE INDEX wallet_operations_user ON public.wallet_operations USING btree (user_id, kind, id DESC);

create table wallets (
  address bytea not null,
  backfilled_at timestamp with time zone,
  booked_number bigint default '-1'::integer not null,
  booked_units numeric(78,0) default 0 not null,
  booked_version bigint default 0 not null,
  created_at timestamp with time zone default now() not null,
  deployed_at timestamp with time zone,
  difference_units numeric(78,0) default 0 not null,
  factory text not null,
  id text not null,
  indexed_from bigint,
  is_counting boolean default false not null,
  network text not null,
  opening_units numeric(78,0),
  owners text[] not null,
  passkey_id text not null,
  reconciled_at timestamp with time zone,
  recount_number bigint,
  recount_units numeric(78,0),
  salt_nonce bigint default 0 not null,
  user_id text not null,
  constraint wallets_address_check CHECK ((octet_length(address) = 20)),
  constraint wallets_factory_check CHECK (((factory ~ '^0x[0-9a-f]*$'::text) AND (length(factory) = 42))),
  constraint wallets_network_check CHECK ((network = ANY (ARRAY['base'::text, 'base-sepolia'::text]))),
  constraint wallets_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES passkeys(id),
  constraint wallets_pkey PRIMARY KEY (id),
  constraint wallets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX wallets_counting ON public.wallets USING btree (network) WHERE is_counting;
CREATE INDEX wallets_differing ON public.wallets USING btree (network) WHERE (difference_units <> (0)::numeric);
CREATE UNIQUE INDEX wallets_network_address_key ON public.wallets USING btree (network, address);
CREATE INDEX wallets_reconciled ON public.wallets USING btree (network, reconciled_at NULLS FIRST) WHERE (backfilled_at IS NOT NULL);
CREATE INDEX wallets_unjoined ON public.wallets USING btree (network) WHERE (indexed_from IS NULL);
CREATE INDEX wallets_unread ON public.wallets USING btree (network, created_at) WHERE (backfilled_at IS NULL);
CREATE UNIQUE INDEX wallets_user_network_key ON public.wallets USING btree (user_id, network);

create table webhook_attempts (
  created_at timestamp with time zone default now() not null,
  delivery_id text not null,
  duration_ms integer not null,
  error text,
  number integer not null,
  response text,
  status integer,
  constraint webhook_attempts_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES webhook_deliveries(id) ON DELETE CASCADE,
  constraint webhook_attempts_pkey PRIMARY KEY (delivery_id, number)
);

create table webhook_deliveries (
  attempts integer default 0 not null,
  created_at timestamp with time zone default now() not null,
  delivered_at timestamp with time zone,
  endpoint_id text not null,
  event_id bigint not null,
  id text not null,
  last_error text,
  last_status integer,
  lease_until timestamp with time zone,
  next_try_at timestamp with time zone default now() not null,
  state text default 'PENDING'::text not null,
  tries integer default 0 not null,
  user_id text not null,
  constraint webhook_deliveries_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE,
  constraint webhook_deliveries_event_id_fkey FOREIGN KEY (event_id) REFERENCES events(id) ON DELETE CASCADE,
  constraint webhook_deliveries_id_check CHECK (starts_with(id, 'whd_'::text)),
  constraint webhook_deliveries_pkey PRIMARY KEY (id),
  constraint webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'DELIVERED'::text, 'FAILED'::text])))
);
CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (endpoint_id, next_try_at) WHERE (state = 'PENDING'::text);
CREATE INDEX webhook_deliveries_ended ON public.webhook_deliveries USING btree (created_at) WHERE (state <> 'PENDING'::text);
CREATE INDEX webhook_deliveries_event ON public.webhook_deliveries USING btree (event_id);
CREATE UNIQUE INDEX webhook_deliveries_event_key ON public.webhook_deliveries USING btree (endpoint_id, event_id);
CREATE INDEX webhook_deliveries_leased ON public.webhook_deliveries USING btree (endpoint_id, lease_until) WHERE ((state = 'PENDING'::text) AND (lease_until IS NOT NULL));
CREATE INDEX webhook_deliveries_log ON public.webhook_deliveries USING btree (endpoint_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_next ON public.webhook_deliveries USING btree (next_try_at) WHERE (state = 'PENDING'::text);

create table webhook_endpoints (
  created_at timestamp with time zone default now() not null,
  description text default ''::text not null,
  disabled_reason text,
  enabled boolean default true not null,
  event_types text[] default '{}'::text[] not null,
  failing_since timestamp with time zone,
  id text not null,
  old_secret_until timestamp with time zone,
  sealed_old_secret bytea,
  sealed_secret bytea not null,
  updated_at timestamp with time zone default now() not null,
  url text not null,
  user_id text,
  constraint webhook_endpoints_description_check CHECK ((length(description) <= 200)),
  constraint webhook_endpoints_id_check CHECK (starts_with(id, 'whe_'::text)),
  constraint webhook_endpoints_pkey PRIMARY KEY (id),
  constraint webhook_endpoints_url_check CHECK (((length(url) >= 1) AND (length(url) <= 2000))),
  constraint webhook_endpoints_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX webhook_endpoints_user ON public.webhook_endpoints USING btree (user_id, created_at);

create view link_count_changes (amount_units numeric, count bigint, refunded_units numeric, status text, user_id text)

create view pending_transactions (amount_units numeric(78,0), block_number bigint, candidates text[], cell smallint, claim_id text, confirmed_at timestamp with time zone, counterparty bytea, created_at timestamp with time zone, description text, detected_at timestamp with time zone, failure_reason text, id text, is_settled boolean, link_id text, log_index integer, network text, operation_id text, operation_item_id bigint, operation_note text, owner uuid, payment_id text, reference text, settled_by text, status text, transfer_id bigint, tx_hash bytea, type text, updated_at timestamp with time zone)

create view transactions_to_count (amount_bucket integer, count bigint, day date, network text, owner uuid, status text, type text, units numeric(78,0), user_id text)

create view unwritten_transactions (amount_units numeric(78,0), block_number bigint, candidates text[], cell smallint, claim_id text, confirmed_at timestamp with time zone, counterparty bytea, created_at timestamp with time zone, description text, detected_at timestamp with time zone, failure_reason text, id text, is_settled boolean, link_id text, log_index integer, network text, operation_id text, operation_item_id bigint, operation_note text, owner uuid, payment_id text, reference text, settled_by text, status text, transfer_id bigint, tx_hash bytea, type text, updated_at timestamp with time zone)

CREATE OR REPLACE FUNCTION public.add_order_data()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  reference text;
  customer_email text;
  metadata jsonb;
  parent_id text;
begin
  select link.reference, link.customer_email, nullif(link.metadata, '{}'), link.parent_id
  into reference, customer_email, metadata, parent_id
  from payment_links link
  where link.id = case
      when new.type like 'payment_link.%' then new.subject_id
      when new.data ? 'linkId' then new.data ->> 'linkId'
      else (select link_id from transactions where id = new.subject_id)
    end;
  if num_nonnulls(reference, customer_email, metadata, parent_id) > 0 then
    new.data := new.data || jsonb_strip_nulls(jsonb_build_object(
      'reference', reference, 'customerEmail', customer_email, 'metadata', metadata, 'parentLinkId', parent_id
    ));
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.address_key(address bytea)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((('x'::text || encode(substr(address, 13), 'hex'::text)))::bit(64))::bigint;

CREATE OR REPLACE FUNCTION public.authorization_digest(network text, token bytea, payer bytea, nonce bytea)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (encode(substr(sha256(((((network)::bytea || token) || payer) || nonce)), 1, 16), 'hex'::text))::uuid;

CREATE OR REPLACE FUNCTION public.bytes_of(hex text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN decode(substr(hex, 3), 'hex'::text);

CREATE OR REPLACE FUNCTION public.count_added_links()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  with one as (
    select
      user_id, status, count(*) filter (where parent_id is null) as count,
      sum(coalesce(paid_units, amount_units)) as amount_units, sum(refunded_units) as refunded_units
    from added
    group by 1, 2
  ),
  counted as (
    update link_counts
    set
      count = link_counts.count + one.count,
      amount_units = link_counts.amount_units + one.amount_units,
      refunded_units = link_counts.refunded_units + one.refunded_units
    from one
    where link_counts.user_id = one.user_id and link_counts.status = one.status
    returning link_counts.user_id, link_counts.status
  )
  insert into link_counts (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count, amount_units, refunded_units
  from one
  where not exists (
      select from counted
      where counted.user_id = one.user_id and counted.status = one.status
    )
  on conflict (user_id, status) do update
  set
    count = link_counts.count + excluded.count,
    amount_units = link_counts.amount_units + excluded.amount_units,
    refunded_units = link_counts.refunded_units + excluded.refunded_units;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_added_transactions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    count(*), sum(amount_units)
  from added
  where status <> 'PENDING'
  group by owner, 2, 3, 4, 5, 6;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_changed_links()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_nestloop TO 'off'
AS $function$
begin
  insert into link_count_deltas (
    user_id, status, prior_status, count, amount_units, refunded_units, prior_amount_units, prior_refunded_units
  )
  select
    added.user_id, added.status, removed.status, count(*) filter (where added.parent_id is null),
    sum(coalesce(added.paid_units, added.amount_units)), sum(added.refunded_units),
    sum(coalesce(removed.paid_units, removed.amount_units)), sum(removed.refunded_units)
  from added
  join removed on removed.id = added.id
  where (added.status, coalesce(added.paid_units, added.amount_units), added.refunded_units)
    is distinct from (removed.status, coalesce(removed.paid_units, removed.amount_units), removed.refunded_units)
  group by 1, 2, 3;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_changed_transactions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (select from added) then
    return null;
  end if;
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    sum(n), sum(n * amount_units)
  from (
    select owner, detected_at, network, type, status, amount_units, 1 as n from added where status <> 'PENDING'
    union all
    select owner, detected_at, network, type, status, amount_units, -1 from removed where status <> 'PENDING'
  ) changed
  group by owner, 2, 3, 4, 5, 6
  having sum(n) <> 0 or sum(n * amount_units) <> 0;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_removed_links()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into link_count_deltas (user_id, prior_status, count, prior_amount_units, prior_refunded_units)
  select
    user_id, status, count(*) filter (where parent_id is null), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_removed_transactions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    -count(*), -sum(amount_units)
  from removed
  where status <> 'PENDING'
  group by owner, 2, 3, 4, 5, 6;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.deliver_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into webhook_deliveries (id, endpoint_id, user_id, event_id)
  select 'whd_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, added.user_id, added.id
  from added
  join webhook_endpoints endpoint on endpoint.user_id = added.user_id
  where endpoint.enabled
    and case
      when added.type = 'webhook.test' then endpoint.id = added.subject_id
      else endpoint.event_types = '{}' or added.type = any(endpoint.event_types)
    end
  order by added.id
  for key share of endpoint;
  if found then
    perform graphile_worker.add_job(
      'deliver_webhooks', '{}'::json, max_attempts => 3, priority => 4,
      job_key => 'deliver_webhooks:' || pg_current_xact_id()::text
    );
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.document_place(kind text, is_test boolean, year integer, number integer)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((((CASE kind WHEN 'CREDIT_NOTE'::text THEN 2 ELSE 0 END + (is_test)::integer) * '100000000000000'::bigint) + (year * '10000000000'::bigint)) + number);

CREATE OR REPLACE FUNCTION public.event_cluster()
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
$function$;

CREATE OR REPLACE FUNCTION public.event_name(public_id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ('evt_'::text || replace((public_id)::text, '-'::text, ''::text));

CREATE OR REPLACE FUNCTION public.hex_of(bytes bytea)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN ('0x'::text || encode(bytes, 'hex'::text));

CREATE OR REPLACE FUNCTION public.history_id(payment_id text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ('txn_'::text || substr(payment_id, 5));

CREATE OR REPLACE FUNCTION public.link_moment(link_id text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN substr(link_id, 6, 7);

CREATE OR REPLACE FUNCTION public.log_digest(network text, block_hash bytea, log_index integer)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (encode(substr(sha256((((network)::bytea || block_hash) || ((log_index)::text)::bytea)), 1, 16), 'hex'::text))::uuid;

CREATE OR REPLACE FUNCTION public.note_added_payments()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into open_payments (network, payment_id, owner)
  select network, id, open_payment_owner(link_id)
  from added
  where is_open;
  insert into relay_payments (relay_id, payment_ids)
  select relay_id, array_agg(id order by id)
  from added
  where relay_id is not null
  group by relay_id
  on conflict (relay_id) do update
  set payment_ids = relay_payments.payment_ids || excluded.payment_ids;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.note_cancellation()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.cancelled_at := now();
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.note_changed_payments()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into open_payments (network, payment_id, owner)
  select network, id, open_payment_owner(link_id)
  from (
    select network, id, link_id from added where is_open
    except all
    select network, id, link_id from removed where is_open
  ) opened
  on conflict do nothing;
  delete from open_payments
  using (
    select network, id, open_payment_owner(link_id) as owner
    from (
      select network, id, link_id from removed where is_open
      except all
      select network, id, link_id from added where is_open
    ) closed
  ) ended
  where open_payments.network = ended.network
    and open_payments.owner = ended.owner
    and open_payments.payment_id = ended.id;
  insert into relay_payments (relay_id, payment_ids)
  select relay_id, array_agg(id order by id)
  from (
    select relay_id, id from added where relay_id is not null
    except all
    select relay_id, id from removed where relay_id is not null
  ) bound
  group by relay_id
  on conflict (relay_id) do update
  set payment_ids = relay_payments.payment_ids || excluded.payment_ids;
  with written as (
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, link_id, payment_id, failure_reason,
      detected_at, created_at
    )
    select
      history_id(failed.id), owner_key(link.user_id), failed.network, 'PAYMENT_LINK', 'FAILED', failed.amount_units,
      failed.payer, link.description, failed.link_id, failed.id, failed.reason, failed.created_at, failed.created_at
    from (
      select id, network, amount_units, payer, link_id, reason, created_at
      from added
      where state = 'FAILED' and id = any(array(select id from removed where is_open))
    ) failed
    join payment_links link on link.id = failed.link_id
    where not exists (
      select from transactions
      where transactions.payment_id = failed.id
    )
    returning id, owner, failure_reason
  )
  insert into events (user_id, type, subject_id, data)
  select user_of(owner), 'transaction.failed', id, jsonb_build_object('reason', failure_reason)
  from written;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.note_changed_reference()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update transactions
  set reference = link.reference
  from (select (select reference from payment_links where id = new.link_id) as reference) link
  where transactions.id = new.id and transactions.reference is distinct from link.reference;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.note_reference()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.reference := (select reference from payment_links where id = new.link_id);
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.note_removed_payments()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  delete from open_payments
  using removed
  where open_payments.network = removed.network and open_payments.payment_id = removed.id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_event_readers()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (select from event_readers where until > now()) then
    return null;
  end if;
  perform pg_notify('outcome', string_agg(chunk.user_id, ','))
  from (
    select user_id, (row_number() over (order by user_id) - 1) / 150 as number
    from (
      select distinct added.user_id
      from added
      join event_readers on event_readers.user_id = added.user_id and event_readers.until > now()
    ) readers
  ) chunk
  group by chunk.number;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.number_parts(description text, reference text)
 RETURNS integer[]
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
declare
  words text := coalesce(description, '') || ' ' || coalesce(reference, '');
  parts int[];
  digits text;
begin
  foreach digits in array regexp_split_to_array(words, '[^0-9]+') loop
    for start in 1 .. length(digits) - 4 loop
      parts := parts || substr(digits, start, 5)::int;
    end loop;
  end loop;
  return parts;
end $function$;

CREATE OR REPLACE FUNCTION public.open_payment_owner(link_id text)
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN COALESCE((SELECT owner_key(payment_links.user_id) AS owner_key FROM payment_links WHERE (payment_links.id = open_payment_owner.link_id)), '00000000-0000-0000-0000-000000000000'::uuid);

CREATE OR REPLACE FUNCTION public.owner_key(user_id text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (substr(user_id, 6))::uuid;

CREATE OR REPLACE FUNCTION public.pending_of(whose uuid)
 RETURNS SETOF pending_transactions
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE ROWS 10
AS $function$
begin
  return query
  select
    one.id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from pending_transactions one
  where one.owner = whose;
end $function$;

CREATE OR REPLACE FUNCTION public.refuse_trail_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' and not exists (select from users where id = old.user_id) then
    return old;
  end if;
  if tg_op = 'DELETE' and old.created_at < nullif(current_setting('service.security_trail_from', true), '')::timestamptz then
    return old;
  end if;
  raise exception 'security_events is append-only';
end
$function$;

CREATE OR REPLACE FUNCTION public.running_event_epoch()
 RETURNS integer
 LANGUAGE sql
 STABLE
AS $function$
  select number + case when cluster = event_cluster() or pg_is_in_recovery() then 0 else 1 end
  from event_epochs
  order by number desc
  limit 1
$function$;

CREATE OR REPLACE FUNCTION public.timestamp_micros(instant timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((EXTRACT(epoch FROM instant) * (1000000)::numeric))::bigint;

CREATE OR REPLACE FUNCTION public.to_timestamp_micros(micros bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ('1970-01-01 00:00:00+00'::timestamp with time zone + ((micros)::double precision * '00:00:00.000001'::interval));

CREATE OR REPLACE FUNCTION public.transaction_amount_bucket(units numeric)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((length((trunc(units))::text) * 1000) + (rpad("left"((trunc(units))::text, 3), 3, '0'::text))::integer);

CREATE OR REPLACE FUNCTION public.transaction_cell(type text, status text, network text)
 RETURNS smallint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (((CASE type WHEN 'SEND'::text THEN 0 WHEN 'RECEIVE'::text THEN 1000 WHEN 'PAYMENT_LINK'::text THEN 2000 ELSE NULL::integer END + CASE status WHEN 'PENDING'::text THEN 0 WHEN 'DETECTED'::text THEN 100 WHEN 'CONFIRMED'::text THEN 200 WHEN 'FAILED'::text THEN 300 WHEN 'ORPHANED'::text THEN 400 ELSE NULL::integer END) + CASE network WHEN 'base'::text THEN 1 WHEN 'base-sepolia'::text THEN 2 ELSE NULL::integer END))::smallint;

CREATE OR REPLACE FUNCTION public.transaction_day(detected_at timestamp with time zone)
 RETURNS date
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((detected_at AT TIME ZONE 'UTC'::text))::date;

CREATE OR REPLACE FUNCTION public.unwritten_of(whose uuid)
 RETURNS SETOF unwritten_transactions
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE ROWS 10
AS $function$
begin
  return query
  select
    one.id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from unwritten_transactions one
  where one.owner = whose;
end $function$;

CREATE OR REPLACE FUNCTION public.user_of(owner uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN ('user_'::text || (owner)::text);

CREATE OR REPLACE FUNCTION public.widen_added_amount_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from added
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.widen_changed_amount_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from (
    select user_id, network, type, status, bucket, count from added
    union all
    select user_id, network, type, status, bucket, -count from removed
  ) changed
  group by 1, 2, 3
  having sum(count) <> 0
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.widen_removed_amount_counts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, -sum(count)
  from removed
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.write_event_epoch()
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  known constant text := current_setting('service.event_epoch', true);
  here text;
  newest event_epochs;
  epoch integer;
begin
  if known <> '' then
    return known::integer;
  end if;
  here := event_cluster();
  select * into newest from event_epochs order by number desc limit 1;
  epoch := newest.number;
  if newest.cluster is distinct from here then
    epoch := coalesce(newest.number, 0) + 1;
    insert into event_epochs (number, cluster) values (epoch, here) on conflict (number) do nothing;
  end if;
  perform set_config('service.event_epoch', epoch::text, true);
  return epoch;
end $function$;
