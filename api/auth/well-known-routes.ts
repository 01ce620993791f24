/**
 * `/.well-known/webauthn`: the origins elsewhere whose pages may use the passkeys of this RP id (related origin requests, WebAuthn level 3,
 * section 5.11). Browsers read it from the RP id's own domain, so an earlier domain goes on serving it after a move.
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
    // for browsers, like the pages
    { detail: { hide: true } },
  );
