/**
 * The form of a reusable link's page: opens a use for this payer and redirects to its page. Forms are not JSON, so the route reads its
 * body itself.
 */

import { Elysia } from "elysia";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { parseUnits } from "../../core/domain/money.ts";
import { hasTwoReadings } from "../../core/domain/typed-amount.ts";
import { findPublicLink } from "../../db/links/links.ts";
import type { ApiDeps } from "../http/deps.ts";
import { readBodyText } from "../http/json-body.ts";
import { takeFromCallersLimit } from "../http/rate-limits.ts";
import { requestContext } from "../http/request-context.ts";
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
        const use = isAmbiguous
          ? invalid("amount", "has two readings")
          : await openUseFor(deps.sql, {
              linkId,
              amountUnits: given === undefined ? undefined : parseUnits(given.replace(",", ".")),
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
            },
          });
        const current = (await findPublicLink(deps.sql, linkId)) ?? link;
        const view = {
          url,
          shopOrigin,
          branding: current,
          given,
          problem: isAmbiguous
            ? ("twoReadings" as const)
            : use.status === 400
              ? ("amountRange" as const)
              : undefined,
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

/** As typed: "12.50" or "12,50". */
function readAmount(body: unknown): string | undefined {
  const text = typeof body === "string" ? body.slice(0, BODY_MAX_CHARS) : "";
  return new URLSearchParams(text).get("amount")?.trim().slice(0, AMOUNT_MAX_CHARS);
}
