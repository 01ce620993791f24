/** Pages for people: `/pay/{linkId}`, and the files they load. Reading a page must not change anything, because chat previews read it too. */

import { Elysia } from "elysia";
import { ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { findPublicLink } from "../../db/links/links.ts";
import { findNextPlaceOf } from "../../db/links/places.ts";
import type { ApiDeps } from "../http/deps.ts";
import { takeFromCallersLimit } from "../http/rate-limits.ts";
import { requestContext } from "../http/request-context.ts";
import type { ResponseSet } from "../http/session-cookie.ts";
import { presentPublicLink } from "../links/wire.ts";
import { findShop } from "./embed-origin.ts";
import { type PageFiles, sendPage } from "./html-document.ts";
import { foreignOriginsOf, linkPage, messagePage } from "./link-page.ts";
import { filesOf } from "./page-files.ts";
import { chooseLanguage, textsOf } from "./page-texts.ts";
import { reusablePage } from "./reusable-page.ts";

const EMBED_KEPT_S = 300;

export const pageRoutes = (deps: ApiDeps) => {
  const files = filesOf(deps);
  return new Elysia({ name: "page-routes" })
    .use(requestContext(deps))
    .get(
      "/pay/:linkId",
      ({ params, request, set, clientAddress, log, route }) => {
        const countRequest = () =>
          takeFromCallersLimit(deps, set, "publicLinkData", { clientAddress, route });
        const fail = (error: unknown) => log.error({ err: error }, "rendering a payment page failed");
        return respond(deps, files, { linkId: params.linkId, request, set, countRequest, fail });
      },
      { detail: { hide: true } },
    )
    .get(
      "/embed.js",
      ({ request }) => {
        const file = deps.assets.pathOf("embed.js").replace("/assets/", "");
        const script = deps.assets.respond(file, request.headers.get("accept-encoding") ?? "");
        // its name never changes, so it is not cached for long
        script?.headers.set("cache-control", `public, max-age=${EMBED_KEPT_S}`);
        return script ?? new Response(null, { status: 404 });
      },
      { detail: { hide: true } },
    )
    .get(
      "/assets/:file",
      ({ params, request }) =>
        deps.assets.respond(params.file, request.headers.get("accept-encoding") ?? "") ??
        new Response(null, { status: 404 }),
      { detail: { hide: true } },
    );
};

type PageRequest = {
  linkId: string;
  request: Request;
  set: ResponseSet;
  countRequest: () => Promise<void>;
  fail: (error: unknown) => void;
};

/** Whatever happens, people get a page that says what to do. */
async function respond(deps: ApiDeps, files: PageFiles, page: PageRequest): Promise<Response> {
  const { linkId, request, set, countRequest, fail } = page;
  const asked = new URL(request.url).searchParams.get("lang");
  const texts = textsOf(chooseLanguage(asked, request.headers.get("accept-language")));
  const url = `${deps.config.baseUrl}/pay/${encodeURIComponent(linkId)}`;
  try {
    await countRequest();
    const link = LINK_ID.test(linkId) ? await findPublicLink(deps.sql, linkId) : undefined;
    if (!link) return sendPage(messagePage("unknown", texts, files, url), request, 404);
    const data = presentPublicLink(link, deps.config);
    const shopOrigin = findShop({ request, set }, link.frameOrigins);
    if (data.reusable) {
      const nextPlaceAt = data.payable ? null : await findNextPlaceOf(deps.sql, linkId);
      const retryS = nextPlaceAt ? Math.ceil((nextPlaceAt.getTime() - Date.now()) / 1_000) : undefined;
      const page = reusablePage(data, texts, files, { url, shopOrigin, branding: link, retryS });
      return sendPage(page, request, 200, { hasForm: true, shopOrigin });
    }
    const fixed = { ...data, amount: data.amount ?? 0 };
    const foreignOrigins = foreignOriginsOf(fixed, files);
    const { parentId } = link;
    const page = linkPage(fixed, texts, files, { url, shopOrigin, branding: link, parentId });
    return sendPage(page, request, 200, { shopOrigin, foreignOrigins });
  } catch (error) {
    const isRefusal = error instanceof ServiceError && error.status < 500;
    if (!isRefusal) fail(error);
    return sendPage(messagePage("unavailable", texts, files, url), request, isRefusal ? error.status : 503);
  }
}
