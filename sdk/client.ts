/**
 * The typed client. `createClient({ baseUrl, apiKey })`, then `client.links.create({ amount: 5, description: "A coffee" })`.
 * Lists are async iterators over all pages. Creating and requesting carry an Idempotency-Key, so a retry never makes a second one.
 */
import { type Call, type ClientOptions, pause, request } from "./request.ts";
import type { Operations, PaymentLinkDetail } from "./wire.ts";

type Query<Name extends keyof Operations> = Operations[Name]["query"];
type Body<Name extends keyof Operations> = Operations[Name]["body"];
type Answer<Name extends keyof Operations> = Operations[Name]["answer"];
type Once = { idempotencyKey?: string };

export type Client = ReturnType<typeof createClient>;

const WAIT_MS = 10 * 60_000;
const POLL_MS = 1_000;

export function createClient(options: ClientOptions) {
  async function call<Name extends keyof Operations>(given: Call): Promise<Answer<Name>> {
    return (await request(options, given)).json() as Promise<Answer<Name>>;
  }
  const get = <Name extends keyof Operations>(path: string, query?: Query<Name>) =>
    call<Name>({ method: "GET", path, query });
  const once = (given: Once | undefined) => given?.idempotencyKey ?? crypto.randomUUID();

  const links = {
    create: (body: Body<"createPaymentLink">, given?: Once) =>
      call<"createPaymentLink">({
        ...{ method: "POST", path: "/v1/payment-links", body },
        idempotencyKey: once(given),
      }),
    get: (id: string) => get<"getPaymentLink">(`/v1/payment-links/${encodeURIComponent(id)}`),
    list: (query: Query<"listPaymentLinks"> = {}) =>
      pages(query.cursor, async (cursor) => {
        const page = await get<"listPaymentLinks">("/v1/payment-links", { ...query, ...cursor });
        return { items: page.links, next: page.nextCursor };
      }),
    cancel: (id: string) =>
      call<"cancelPaymentLink">({
        ...{ method: "POST", path: `/v1/payment-links/${encodeURIComponent(id)}/cancel` },
      }),
    payments: (id: string, query: Query<"listLinkPayments"> = {}) =>
      pages(query.cursor, async (cursor) => {
        const path = `/v1/payment-links/${encodeURIComponent(id)}/payments`;
        const page = await get<"listLinkPayments">(path, { ...query, ...cursor });
        return { items: page.payments, next: page.nextCursor };
      }),
    stats: (query: Query<"getPaymentLinkStats"> = {}) =>
      get<"getPaymentLinkStats">("/v1/payment-links/stats", query),
    /** Resolves with the link once it is PAID, EXPIRED or CANCELLED, or as it is when the time is over. */
    async waitForEnd(
      id: string,
      { timeoutMs = WAIT_MS, signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
    ): Promise<PaymentLinkDetail> {
      const deadline = Date.now() + timeoutMs;
      for (;;) {
        const link = await links.get(id);
        if ((link.status !== "ACTIVE" && link.status !== "PENDING") || Date.now() >= deadline) return link;
        await pause(Math.min(POLL_MS, Math.max(0, deadline - Date.now())), signal);
      }
    },
  };

  const transactions = {
    list: (query: Query<"listTransactions"> = {}) =>
      pages(query.cursor, async (cursor) => {
        const { data } = await get<"listTransactions">("/v1/transactions", { ...query, ...cursor });
        return { items: data.transactions, next: data.nextCursor };
      }),
    summary: async (query: Query<"summarizeTransactions"> = {}) =>
      (await get<"summarizeTransactions">("/v1/transactions/summary", query)).data,
    /** The file. One that takes long is made in the background, and downloaded when it is ready. */
    async export(body: Body<"exportTransactions">): Promise<Blob> {
      const first = await request(options, { method: "POST", path: "/v1/transactions/export", body });
      if (first.status !== 202) return first.blob();
      const { data } = (await first.json()) as Answer<"getExport">;
      const path = `/v1/transactions/exports/${data.export.id}`;
      for (let { status } = data.export; status !== "READY"; ) {
        if (status === "FAILED") throw new Error(`The export ${data.export.id} failed`);
        await pause(POLL_MS);
        status = (await get<"getExport">(path)).data.export.status;
      }
      return (await request(options, { method: "GET", path: `${path}/download` })).blob();
    },
  };

  const refunds = {
    /** Asks for a refund. Money moves only when an owner of the wallet signs it with a passkey. */
    request: (linkId: string, body: Body<"requestRefund">, given?: Once) =>
      call<"requestRefund">({
        ...{ method: "POST", path: `/v1/payment-links/${encodeURIComponent(linkId)}/refund-requests` },
        ...{ body, idempotencyKey: once(given) },
      }),
    get: (id: string) => get<"getRefund">(`/v1/refunds/${encodeURIComponent(id)}`),
    list: (query: Query<"listRefunds"> = {}) =>
      pages(query.cursor, async (cursor) => {
        const page = await get<"listRefunds">("/v1/refunds", { ...query, ...cursor });
        return { items: page.refunds, next: page.nextCursor };
      }),
  };

  const events = {
    /** Oldest first, up to the present end. Keep the `nextCursor` of the last page to continue there. */
    page: (query: Query<"listEvents"> = {}) => get<"listEvents">("/v1/events", query),
  };

  return { links, transactions, refunds, events };
}

type Page<Item> = { items: readonly Item[]; next: string | null };

/** All items, page by page, from `first` on. */
async function* pages<Item>(
  first: string | undefined,
  read: (cursor: { cursor?: string }) => Promise<Page<Item>>,
): AsyncGenerator<Item, void, undefined> {
  for (let cursor = first; ; ) {
    const { items, next } = await read(cursor === undefined ? {} : { cursor });
    yield* items;
    if (next === null) return;
    cursor = next;
  }
}
