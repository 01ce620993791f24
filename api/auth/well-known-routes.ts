/**
 * `/.well-known/webauthn`: the origins on other domains whose pages may use passkeys of this RP id (related origin requests, WebAuthn level 3,
 * section 5.11). Browsers read it from the RP id's domain, so after a move the earlier domain must keep serving it.
 */
import { Elysia } from "elysia";
import { notFound } from "../../core/domain/errors.ts";
import type { ApiDeps } from "../http/deps.ts";
import { requestContext } from "../http/request-context.ts";

export const wellKnownRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "well-known-routes" }).use(requestContext(deps)).get(
    "/.well-known/webauthn",
    () => {
      const { relatedOrigins } = deps.config.passkey;
      if (relatedOrigins.length === 0) throw notFound("List of related origins");
      return { origins: relatedOrigins };
    },
    // public, like the pages
    { detail: { hide: true } },
  );
