/** A merchant's own payment links. */

import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { formatUnits, toAmountNumber } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { presentLink, presentSingleLink } from "../../core/domain/present-link.ts";
import { recordEvents } from "../../db/events/events.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import { setDiscoverable } from "../../db/links/discoverable-links.ts";
import { endClaimsOf } from "../../db/links/end-claims.ts";
import {
  cancelLink,
  countByOrder,
  countLinks,
  findLink,
  isByOrder,
  type LinkPosition,
  listLinks,
} from "../../db/links/links.ts";
import { countExceptions, listExceptions } from "../../db/links/list-link-exceptions.ts";
import { findUsedUp } from "../../db/links/max-uses.ts";
import { cancelUses, listLinkPayments } from "../../db/links/uses.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { PaymentLink } from "../../db/schema.ts";
import { type ReceivedDay, sumReceivedByDay } from "../../db/transactions/received-by-day.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { pageOf, readCursor, writeCursor } from "../http/list-pages.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { refuseOtherUser } from "../http/own-user-id.ts";
import { createLink } from "./create-link.ts";
import { readOrder } from "./order-fields.ts";
import { readReuse } from "./reusable-fields.ts";
import {
  createBody,
  linkPaymentsSchema,
  linkSchema,
  listQuery,
  listSchema,
  ownQuery,
  paymentsQuery,
  presentLinkPayment,
  singleLinkSchema,
  statsQuery,
  statsSchema,
  updateBody,
} from "./wire.ts";

const tags = ["Payment links"];
const mayRead = { allow: ["session", "apiKey"], scope: "links:read", needs: "links:read" } as const;
const mayReadPayments = { ...mayRead, scope: ["links:read", "payments:read"] } as const;
const mayWrite = { allow: ["session", "apiKey"], scope: "links:write", needs: "links:write" } as const;
const linkParams = z.object({ id: z.string().max(100) });

export const linkRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "link-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/payment-links",
      async ({ body, bodyText, user, headers, set, status }) => {
        refuseOtherUser(user.id, body.userId);
        const { network, description, expiresInHours, discoverable } = body;
        const { amountUnits, reuse } = readReuse(bodyText, body);
        const order = readOrder(body, bodyText);
        const described = { userId: user.id, network, description, expiresInHours };
        const listing = discoverable ? { isDiscoverable: true as const } : {};
        const terms = { ...described, amountUnits, order, reuse, ...listing };
        const made = await createLink(deps, terms, parseIdempotencyKey(headers["idempotency-key"]));
        if (made.isReplay) set.headers["idempotent-replayed"] = "true";
        return status(201, made.body as z.infer<typeof linkSchema>);
      },
      {
        auth: { ...mayWrite, limit: "paymentOperations" },
        body: createBody,
        response: { 201: linkSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "createPaymentLink",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Create a payment link",
          tags,
        },
      },
    )
    .get("/v1/payment-links", ({ query, user }) => answerList(deps, user.id, query), {
      auth: mayRead,
      query: listQuery,
      response: { 200: listSchema, ...errorResponses(400, 401, 403, 429) },
      detail: { operationId: "listPaymentLinks", summary: "Your payment links, newest first", tags },
    })
    .get("/v1/payment-links/stats", ({ query, user }) => answerStats(deps, user.id, query), {
      auth: mayRead,
      query: statsQuery,
      response: { 200: statsSchema, ...errorResponses(400, 401, 403, 429) },
      detail: {
        operationId: "getPaymentLinkStats",
        summary: "Counts and earnings of your payment links",
        tags,
      },
    })
    .get(
      "/v1/payment-links/:id",
      async ({ params, query, user }) => {
        refuseOtherUser(user.id, query.userId);
        return presentSingleLink(await getLink(deps, params.id, user.id), deps.config);
      },
      {
        auth: mayRead,
        params: linkParams,
        query: ownQuery,
        response: { 200: singleLinkSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: { operationId: "getPaymentLink", summary: "One payment link", tags },
      },
    )
    .patch(
      "/v1/payment-links/:id",
      async ({ params, body, user }) =>
        presentSingleLink(await update(deps, { id: params.id, userId: user.id }, body), deps.config),
      {
        auth: mayWrite,
        params: linkParams,
        body: updateBody,
        response: { 200: singleLinkSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "updatePaymentLink",
          summary: "List a payment link for agents, or remove it from the list",
          tags,
        },
      },
    )
    .get(
      "/v1/payment-links/:id/payments",
      ({ params, query, user }) => answerPayments(deps, { id: params.id, userId: user.id }, query),
      {
        auth: mayReadPayments,
        params: linkParams,
        query: paymentsQuery,
        response: { 200: linkPaymentsSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: {
          operationId: "listLinkPayments",
          summary: "Payments of a link, newest first; of a reusable link, its uses",
          tags,
        },
      },
    )
    .post(
      "/v1/payment-links/:id/cancel",
      async ({ params, user }) => presentSingleLink(await cancel(deps, params.id, user.id), deps.config),
      {
        auth: mayWrite,
        params: linkParams,
        response: { 200: singleLinkSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: { operationId: "cancelPaymentLink", summary: "Cancel an active payment link", tags },
      },
    );

async function answerList(deps: ApiDeps, userId: string, query: z.infer<typeof listQuery>) {
  refuseOtherUser(userId, query.userId);
  const { limit, status, reference, customerEmail } = query;
  const hasException = query.exception === "any";
  const after = query.cursor === undefined ? undefined : readPosition(userId, query.cursor);
  const filter = { userId, status, reference, customerEmail };
  if (hasException && isByOrder(filter))
    throw invalid("exception", "cannot be combined with reference or customerEmail");
  const { found, counts, ofFilter, usedUp } = await deps.reader.read(async (tx) => {
    const [found, counts, ofFilter] = await Promise.all([
      (hasException ? listExceptions : listLinks)(tx, filter, { after, limit: limit + 1 }),
      countLinks(tx, userId),
      isByOrder(filter) ? countByOrder(tx, filter) : hasException ? countExceptions(tx, filter) : undefined,
    ]);
    return { found, counts, ofFilter, usedUp: await findUsedUp(tx, found) };
  });
  const { rows, nextCursor, hasNextPage } = pageOf(found, limit, (last) => writePosition(userId, last));
  return {
    links: rows.map((link) => ({ ...presentLink(link, deps.config), usedUp: usedUp.get(link.id) })),
    nextCursor,
    totalCount: ofFilter ?? (status ? counts[status] : counts.all),
    activeCount: counts.ACTIVE,
    pagination: { hasNextPage, limit },
  };
}

async function answerPayments(
  deps: ApiDeps,
  { id, userId }: { id: string; userId: string },
  { limit, cursor, ...query }: z.infer<typeof paymentsQuery>,
) {
  refuseOtherUser(userId, query.userId);
  const link = await getLink(deps, id, userId);
  const after = cursor === undefined ? undefined : readPosition(userId, cursor);
  const place = { linkId: link.id, userId };
  const found = await deps.reader.read((tx) => listLinkPayments(tx, place, { after, limit: limit + 1 }));
  const { rows, nextCursor, hasNextPage } = pageOf(found, limit, (last) => writePosition(userId, last));
  return {
    payments: rows.map((payment) => presentLinkPayment(payment, deps.config)),
    nextCursor,
    pagination: { hasNextPage, limit },
  };
}

function readPosition(userId: string, cursor: string): LinkPosition {
  const { micros, id } = readCursor({ list: "link", userId }, cursor);
  return { createdAtMicros: micros, id };
}

function writePosition(userId: string, { createdAtMicros, id }: LinkPosition): string {
  return writeCursor({ list: "link", userId }, { micros: createdAtMicros, id });
}

async function answerStats(deps: ApiDeps, userId: string, query: z.infer<typeof statsQuery>) {
  refuseOtherUser(userId, query.userId);
  const { days, timeZone } = query;
  const [counts, received] = await deps.reader.read((tx) =>
    Promise.all([
      countLinks(tx, userId),
      query.by === "day" ? sumReceivedByDay(tx, userId, { days, timeZone }) : undefined,
    ]),
  );
  return {
    ...(received ? presentDays(received, deps.config.chains) : {}),
    totalLinks: counts.all,
    activeLinks: counts.ACTIVE,
    paidLinks: counts.PAID,
    expiredLinks: counts.EXPIRED,
    pendingLinks: counts.PENDING,
    cancelledLinks: counts.CANCELLED,
    totalEarnings: toAmountNumber(counts.paidUnits),
    totalRefunded: toAmountNumber(counts.refundedUnits),
    currency: "USDC" as const,
  };
}

function presentDays(received: readonly ReceivedDay[], chains: readonly { id: NetworkId }[]) {
  const dates = [...new Set(received.map(({ date }) => date))];
  return {
    days: dates.map((date) => {
      const sameDay = received.filter((day) => day.date === date);
      return presentDay({
        date,
        units: sameDay.reduce((sum, { units }) => sum + units, 0n),
        count: sameDay.reduce((sum, { count }) => sum + count, 0),
      });
    }),
    daysByNetwork: chains.map(({ id }) => ({
      network: id,
      days: received.filter(({ network }) => network === id).map(presentDay),
    })),
  };
}

function presentDay({ date, units, count }: Pick<ReceivedDay, "date" | "units" | "count">) {
  return { date, received: formatUnits(units), count };
}

async function getLink(deps: ApiDeps, id: string, userId: string): Promise<PaymentLink> {
  const link = LINK_ID.test(id) ? await findLink(deps.sql, { id, userId }) : undefined;
  if (!link) throw notFound("Payment link");
  return link;
}

async function update(
  deps: ApiDeps,
  { id, userId }: { id: string; userId: string },
  { discoverable: isDiscoverable }: z.infer<typeof updateBody>,
): Promise<PaymentLink> {
  const link = await getLink(deps, id, userId);
  if (link.parentId !== null)
    throw conflict("A single payment of a reusable link cannot be listed; list the reusable link", {
      field: "discoverable",
      issue: "is_use",
    });
  await setDiscoverable(deps.sql, { id, userId, isDiscoverable });
  return getLink(deps, id, userId);
}

async function cancel(deps: ApiDeps, id: string, userId: string): Promise<PaymentLink> {
  const link = await getLink(deps, id, userId);
  const cancelled = await deps.sql.begin(async (tx) => {
    const row = await cancelLink(tx, { id, userId });
    if (!row) return undefined;
    await endClaimsOf(tx, [id], "link_cancelled");
    const uses = row.isReusable ? await cancelUses(tx, id) : [];
    const ended = [id, ...uses.map((use) => use.id)];
    await recordEvents(
      tx,
      ended.map((subjectId) => ({ userId, type: "payment_link.cancelled" as const, subjectId })),
    );
    await notify(tx, ended);
    return row;
  });
  if (cancelled) return cancelled;
  const { status } = await getLink(deps, link.id, userId);
  throw conflict(`Only an unpaid link can be cancelled; this one is ${status}`, {
    field: "status",
    issue: status,
  });
}
