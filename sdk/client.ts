/**
 * The typed client. `createClient({ baseUrl, apiKey })`, then `client.links.create({ amount: 5, description: "A coffee" })`.
 * Lists are async iterators over all pages. Creating and requesting carry an Idempotency-Key, so a retry never makes a second one.
 */
import { ConnectionError } from "./errors.ts";
import { readStream } from "./event-stream.ts";
import { type Call, type ClientOptions, either, pause, request } from "./request.ts";
import type { Event, Export, Operations, PaymentLinkDetail, PublicPaymentLink } from "./wire.ts";

type Query<Name extends keyof Operations> = Operations[Name]["query"];
type Body<Name extends keyof Operations> = Operations[Name]["body"];
type Answer<Name extends keyof Operations> = Operations[Name]["answer"];
type Once = { idempotencyKey?: string | undefined };
type Abortable = { signal?: AbortSignal | undefined };

/** `seen`: the block being built contains a transfer that would pay the link. Only a hint. */
export type WatchedLink = PublicPaymentLink & { seen?: true };
type WaitOptions = Abortable & {
  timeoutMs?: number | undefined;
  onChange?: ((link: WatchedLink) => void) | undefined;
};

export type Client = ReturnType<typeof createClient>;

const LINKS = "/v1/payment-links";
const TRANSACTIONS = "/v1/transactions";
const WAIT_MS = 10 * 60_000;
const POLL_MS = 1_000;

export function createClient(options: ClientOptions) {
  async function call<Name extends keyof Operations>(given: Call): Promise<Answer<Name>> {
    const answer = await request(options, given);
    return answer.json().catch((cause: unknown) => {
      throw new ConnectionError(`${given.path} returned something that is not JSON`, { cause });
    }) as Promise<Answer<Name>>;
  }
  const get = <Name extends keyof Operations>(path: string, query?: Query<Name>) =>
    call<Name>({ path, query });
  const post = <Name extends keyof Operations>(path: string, body?: Body<Name>, key?: string) =>
    call<Name>({ method: "POST", path, body, idempotencyKey: key });
  const startExport = (body: Body<"exportTransactions">, given: Partial<Call>) =>
    request(options, { method: "POST", path: `${TRANSACTIONS}/export`, body, ...given });

  const links = {
    create: (body: Body<"createPaymentLink">, given?: Once) =>
      post<"createPaymentLink">(LINKS, body, keyOf(given)),
    get: (id: string) => get<"getPaymentLink">(at(LINKS, id)),
    list: (query?: Query<"listPaymentLinks">) =>
      pages("links", query, (page) => get<"listPaymentLinks">(LINKS, page)),
    cancel: (id: string) => post<"cancelPaymentLink">(at(LINKS, id, "/cancel")),
    payments: (id: string, query?: Query<"listLinkPayments">) =>
      pages("payments", query, (page) => get<"listLinkPayments">(at(LINKS, id, "/payments"), page)),
    stats: (query?: Query<"getPaymentLinkStats">) => get<"getPaymentLinkStats">(`${LINKS}/stats`, query),
    /** What payers see, without a key. */
    public: (id: string) => get<"getPublicPaymentLink">(publicPath(id, "/data")),
    /** The link's public data now and at each change, until it has ended or `signal` is aborted. */
    async *watch(id: string, { signal }: Abortable = {}): AsyncGenerator<WatchedLink> {
      for await (const { event, data } of readStream(options, { path: publicPath(id, "/events"), signal })) {
        if (event !== "status") continue;
        const link = JSON.parse(data) as WatchedLink;
        yield link;
        if (!["ACTIVE", "PENDING"].includes(link.status)) return;
      }
    },
    /** Resolves with the link once it is PAID, EXPIRED or CANCELLED, or in its current state at the timeout. */
    async waitForEnd(
      id: string,
      { timeoutMs = WAIT_MS, signal, onChange }: WaitOptions = {},
    ): Promise<PaymentLinkDetail> {
      const watched = links.watch(id, { signal: either(signal, AbortSignal.timeout(timeoutMs)) });
      for await (const link of watched) onChange?.(link);
      signal?.throwIfAborted();
      return links.get(id);
    },
  };

  const transactions = {
    page: async (query?: Query<"listTransactions">) =>
      (await get<"listTransactions">(TRANSACTIONS, query)).data,
    list: (query?: Query<"listTransactions">) => pages("transactions", query, transactions.page),
    summary: async (query?: Query<"summarizeTransactions">) =>
      (await get<"summarizeTransactions">(`${TRANSACTIONS}/summary`, query)).data,
    /** The file. If it takes long, it is created in the background and downloaded when ready. */
    async export(body: Body<"exportTransactions">, { signal }: Abortable = {}): Promise<Blob> {
      // without it a PDF that is ready at once is a text report
      const accept = body.format === "pdf" ? "application/pdf" : undefined;
      const first = await startExport(body, { accept, signal });
      if (first.status !== 202) return first.blob();
      const { id } = await exportOf(first.json());
      await exports.waitUntilReady(id, { signal });
      return exports.download(id, { signal });
    },
  };

  const exports = {
    /** Begins an export in the background. */
    start: async (body: Body<"exportTransactions">): Promise<Export> =>
      exportOf((await startExport(body, { headers: { prefer: "respond-async" } })).json()),
    get: (id: string): Promise<Export> => exportOf(get<"getExport">(at(`${TRANSACTIONS}/exports`, id))),
    async waitUntilReady(id: string, { signal }: Abortable = {}): Promise<Export> {
      for (;;) {
        const file = await exports.get(id);
        if (file.status === "FAILED") throw new Error(file.refusal ?? `The export ${id} failed`);
        if (file.status === "READY") return file;
        await pause(POLL_MS, signal);
      }
    },
    async download(id: string, { signal }: Abortable = {}): Promise<Blob> {
      const path = at(`${TRANSACTIONS}/exports`, id, "/download");
      return (await request(options, { path, signal, accept: "*/*" })).blob();
    },
  };

  const refunds = {
    /** Asks for a refund. Money moves only when an owner of the wallet signs it with a passkey. */
    request: (linkId: string, body: Body<"requestRefund">, given?: Once) =>
      post<"requestRefund">(at(LINKS, linkId, "/refund-requests"), body, keyOf(given)),
    get: (id: string) => get<"getRefund">(at("/v1/refunds", id)),
    list: (query?: Query<"listRefunds">) =>
      pages("refunds", query, (page) => get<"listRefunds">("/v1/refunds", page)),
  };

  const events = {
    /** Oldest first, up to the present end. Keep the `nextCursor` of the last page to continue there. */
    page: (query?: Query<"listEvents">) => get<"listEvents">("/v1/events", query),
    /**
     * As they happen, each once, across lost connections. From `cursor` on, else from what is new. Keep the last `cursor` that is not
     * undefined to continue there. Needs the scope `webhooks`; ends when `signal` is aborted.
     */
    async *stream({
      cursor,
      signal,
    }: Abortable & { cursor?: string | undefined } = {}): AsyncGenerator<
      { event: Event; cursor: string | undefined },
      void,
      undefined
    > {
      const seen = new Set<string>();
      for await (const { id, event: type, data } of readStream(options, {
        path: "/v1/events/stream",
        lastEventId: cursor,
        signal,
      })) {
        if (type !== "message") continue;
        const event = JSON.parse(data) as Event;
        // a connection that broke within a page is continued from the page's beginning; only a page's last event has an id
        if (seen.has(event.id)) continue;
        if (id) seen.clear();
        else seen.add(event.id);
        yield { event, cursor: id };
      }
    },
  };

  return { links, transactions, exports, refunds, events };
}

const at = (base: string, id: string, rest = "") => `${base}/${encodeURIComponent(id)}${rest}`;
const publicPath = (id: string, rest: string) => at("/api/v1/public/payment-links", id, rest);
const keyOf = (given?: Once) => given?.idempotencyKey ?? crypto.randomUUID();

async function exportOf(answer: Promise<unknown>): Promise<Export> {
  return ((await answer) as Answer<"getExport">).data.export;
}

/** All items of the field `name`, page by page, from the query's cursor on. */
async function* pages<Name extends string, Item, Paged extends object>(
  name: Name,
  query: Paged | undefined,
  read: (query: Paged | undefined) => Promise<{ nextCursor: string | null } & Record<Name, readonly Item[]>>,
): AsyncGenerator<Item, void, undefined> {
  for (let next = query; ; ) {
    const page = await read(next);
    yield* page[name];
    if (page.nextCursor === null) return;
    next = { ...query, cursor: page.nextCursor } as Paged;
  }
}
