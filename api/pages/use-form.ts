/**
 * The form of a reusable link's page: opens a use for this payer and redirects to its page. Forms are not JSON, so the route reads its
 * body itself.
 */

import { Elysia } from "elysia";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { parseUnits } from "../../core/domain/money.ts";
import { COUNTED_USE_LIFE_MINUTES } from "../../core/domain/reusable-link.ts";
import { hasTwoReadings, toLatinDigits } from "../../core/domain/typed-amount.ts";
import { findPublicLink, type PublicLink } from "../../db/links/links.ts";
import { findUnpaidUse } from "../../db/links/uses.ts";
import type { PaymentLink } from "../../db/schema.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import { readBodyText } from "../http/json-body.ts";
import { takeFromCallersLimit } from "../http/rate-limits.ts";
import { requestContext } from "../http/request-context.ts";
import { readCookie } from "../http/session-cookie.ts";
import { openUseFor } from "../links/open-use.ts";
import { presentPublicLink } from "../links/wire.ts";
import { embedQuery, findShop } from "./embed-origin.ts";
import { sendPage } from "./html-document.ts";
import { messagePage } from "./link-page.ts";
import { filesOf } from "./page-files.ts";
import { chooseLanguage, textsOf } from "./page-texts.ts";
import { reusablePage } from "./reusable-page.ts";

const BODY_MAX_CHARS = 1_000;
const AMOUNT_MAX_CHARS = 40;
/** Names the payment that this browser opened; sent to the form only. */
const USE_COOKIE = "use";

export const useFormRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "use-form-routes" }).use(requestContext(deps)).post(
    "/pay/:linkId",
    async ({ params: { linkId }, body, request, set, clientAddress, log, route }) => {
      const asked = new URL(request.url).searchParams.get("lang");
      const texts = textsOf(chooseLanguage(asked, request.headers.get("accept-language")));
      const files = filesOf(deps);
      const url = `${deps.config.baseUrl}/pay/${encodeURIComponent(linkId)}`;
      try {
        await takeFromCallersLimit(deps, set, "claims", { clientAddress, route });
        const link = LINK_ID.test(linkId) ? await findPublicLink(deps.sql, linkId) : undefined;
        if (!link?.isReusable) return sendPage(messagePage("unknown", texts, files, url), request, 404);
        const shopOrigin = findShop({ request, set }, link.frameOrigins);
        const given = readAmount(body);
        const isAmbiguous = given !== undefined && hasTwoReadings(given, texts.language);
        const amountUnits = given === undefined ? undefined : parseUnits(given.replace(",", "."));
        const own = await findOwnUse(deps, link, request);
        const wanted = link.minUnits === null ? link.amountUnits : amountUnits;
        const use = isAmbiguous
          ? invalid("amount", "has two readings")
          : own && own.amountUnits === wanted
            ? own
            : await openUseFor(deps.sql, {
                ...{ linkId, amountUnits, opener: addressGroup(clientAddress), replaces: own?.id },
              }).catch((error: unknown) => {
                if (error instanceof ServiceError && error.status < 500) return error;
                throw error;
              });
        if (!(use instanceof ServiceError))
          return new Response(null, {
            status: 303,
            headers: {
              location: `/pay/${use.id}?lang=${texts.language}${embedQuery(shopOrigin)}`,
              "cache-control": "no-store",
              ...(link.maxPayments === null ? {} : { "set-cookie": cookieOf(use, deps.config.baseUrl) }),
            },
          });
        const retryAfter = use.headers?.["retry-after"];
        const current = (await findPublicLink(deps.sql, linkId)) ?? link;
        const view = {
          url,
          shopOrigin,
          branding: current,
          retryS: retryAfter === undefined ? undefined : Number(retryAfter),
          given,
          problem:
            use.status !== 400
              ? undefined
              : isAmbiguous || amountUnits === undefined || isInRange(link, amountUnits)
                ? ("twoReadings" as const)
                : ("amountRange" as const),
        };
        const page = reusablePage(presentPublicLink(current, deps.config), texts, files, view);
        return sendPage(page, request, use.status, { hasForm: true, shopOrigin });
      } catch (error) {
        const isRefusal = error instanceof ServiceError && error.status < 500;
        if (!isRefusal) log.error({ err: error }, "opening a payment of a reusable link failed");
        const page = messagePage("unavailable", texts, files, url);
        return sendPage(page, request, isRefusal ? error.status : 503);
      }
    },
    { parse: ({ request }: { request: Request }) => readBodyText(request), detail: { hide: true } },
  );

/**
 * A browser has one unpaid payment of a link with a maximum: who returns to the form is led to the one that was opened before, whose
 * place would otherwise be taken from them by themselves.
 */
async function findOwnUse({ sql }: ApiDeps, { id: parentId, maxPayments }: PublicLink, request: Request) {
  const id = maxPayments === null ? undefined : readCookie(request.headers.get("cookie"), USE_COOKIE);
  return id !== undefined && LINK_ID.test(id) ? findUnpaidUse(sql, { id, parentId }) : undefined;
}

function cookieOf({ id, parentId }: PaymentLink, baseUrl: string): string {
  const secure = baseUrl.startsWith("https:") ? "; Secure" : "";
  return `${USE_COOKIE}=${id}; Path=/pay/${parentId}; Max-Age=${COUNTED_USE_LIFE_MINUTES * 60}; HttpOnly; SameSite=Lax${secure}`;
}

/** Then another amount is not the advice: it was written in a way that is not accepted. */
const isInRange = ({ minUnits, maxUnits }: PublicLink, units: bigint) =>
  minUnits !== null && maxUnits !== null && units >= minUnits && units <= maxUnits;

/** As typed: "12.50" or "12,50". */
function readAmount(body: unknown): string | undefined {
  const text = typeof body === "string" ? body.slice(0, BODY_MAX_CHARS) : "";
  const typed = new URLSearchParams(text).get("amount")?.trim().slice(0, AMOUNT_MAX_CHARS);
  return typed === undefined ? undefined : toLatinDigits(typed);
}
