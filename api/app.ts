/** Combines the features. Each is one line here and must not import this file. */
import { Elysia } from "elysia";
import { identityRoutes } from "./accounts/routes.ts";
import { securityRoutes } from "./accounts/security-routes.ts";
import { settingsRoutes } from "./accounts/settings-routes.ts";
import { apiKeyRoutes } from "./api-keys/routes.ts";
import { googleRoutes } from "./auth/google/routes.ts";
import { passkeyRoutes } from "./auth/passkey-routes.ts";
import { authRoutes } from "./auth/routes.ts";
import { wellKnownRoutes } from "./auth/well-known-routes.ts";
import { discoveryRoutes } from "./discovery/routes.ts";
import { documentRoutes } from "./documents/routes.ts";
import { eventRoutes } from "./events/routes.ts";
import { booksSettingsRoutes } from "./exports/books-settings-routes.ts";
import { exchangeRateRoutes } from "./exports/exchange-rate-routes.ts";
import { ownRateRoutes } from "./exports/own-rate-routes.ts";
import { exportProfileRoutes } from "./exports/profile-routes.ts";
import { exportRoutes } from "./exports/routes.ts";
import { exportScheduleRoutes } from "./exports/schedule-routes.ts";
import { statementRoutes } from "./exports/statement-routes.ts";
import { facilitatorRoutes } from "./facilitator/routes.ts";
import { guideRoutes } from "./guides/routes.ts";
import { healthRoutes } from "./health/routes.ts";
import type { ApiDeps } from "./http/deps.ts";
import { errorMapper, useOwnValidationMessages } from "./http/envelope.ts";
import { refuseLargeHeaders, refuseLongUrl } from "./http/header-limit.ts";
import { jsonBody } from "./http/json-body.ts";
import { buildDocument, openApi } from "./http/openapi.ts";
import { plainQuery } from "./http/query.ts";
import { requestContext } from "./http/request-context.ts";
import { traceRequests } from "./http/trace-requests.ts";
import { pageSettingsRoutes } from "./links/page-settings-routes.ts";
import { publicLinkRoutes } from "./links/public-routes.ts";
import { returnRoutes } from "./links/return-secret-routes.ts";
import { linkRoutes } from "./links/routes.ts";
import { mcpRoutes } from "./mcp/routes.ts";
import { invitationRoutes } from "./members/invitation-routes.ts";
import { memberRoutes } from "./members/routes.ts";
import { networkRoutes } from "./networks/routes.ts";
import { ownerRoutes } from "./owners/routes.ts";
import { brandingAssetRoutes } from "./pages/branding-asset-routes.ts";
import { dashboardRoutes, unknownPageRoutes } from "./pages/dashboard-routes.ts";
import { leaveRoutes } from "./pages/leave-routes.ts";
import { pageRoutes } from "./pages/routes.ts";
import { useFormRoutes } from "./pages/use-form.ts";
import { receiptRoutes } from "./receipts/routes.ts";
import { recoverRoutes } from "./recover/routes.ts";
import { sessionRoutes } from "./sessions/routes.ts";
import { testModeRoutes } from "./test-mode/routes.ts";
import { testWalletRoutes } from "./test-mode/wallet-routes.ts";
import { transactionRoutes } from "./transactions/routes.ts";
import { refundRequestRoutes } from "./wallet-ops/refund-request-routes.ts";
import { refundRoutes } from "./wallet-ops/refund-routes.ts";
import { sendRoutes } from "./wallet-ops/send-routes.ts";
import { recoveryRoutes } from "./wallets/recovery-routes.ts";
import { walletRoutes } from "./wallets/routes.ts";
import { webhookRoutes } from "./webhooks/routes.ts";
import { x402Routes } from "./x402/routes.ts";

/** json-body.ts limits bodies and responds with the error envelope; the server's own limit would close the connection without a response. */
const BODY_MAX_BYTES_OF_SERVER = Number.MAX_SAFE_INTEGER;

export function createApp(deps: ApiDeps) {
  useOwnValidationMessages();
  const app = traceRequests(
    new Elysia({
      name: "api",
      serve: {
        maxRequestBodySize: BODY_MAX_BYTES_OF_SERVER,
        idleTimeout: deps.config.idleTimeoutS,
        development: false,
      },
    }),
  );
  let document: object | undefined;
  const readDocument = () => {
    document ??= buildDocument(app, deps.config.baseUrl);
    return document;
  };
  return (
    app
      .use(requestContext(deps))
      .use(unknownPageRoutes(deps))
      .use(errorMapper(deps, () => app.routes))
      .onRequest(({ request }) => {
        refuseLongUrl(request);
        refuseLargeHeaders(request);
      })
      // before the body parser: x402 has its own response to a malformed body
      .use(x402Routes(deps))
      .use(useFormRoutes(deps))
      .use(jsonBody)
      .use(plainQuery)
      .use(openApi(readDocument))
      .use(guideRoutes(deps, readDocument))
      .use(healthRoutes(deps))
      .use(identityRoutes(deps))
      .use(authRoutes(deps))
      .use(sessionRoutes(deps))
      .use(passkeyRoutes(deps))
      .use(wellKnownRoutes(deps))
      .use(googleRoutes(deps))
      .use(walletRoutes(deps))
      .use(recoveryRoutes(deps))
      .use(sendRoutes(deps))
      .use(refundRoutes(deps))
      .use(refundRequestRoutes(deps))
      .use(ownerRoutes(deps))
      .use(recoverRoutes(deps))
      .use(apiKeyRoutes(deps))
      .use(securityRoutes(deps))
      .use(settingsRoutes(deps))
      .use(returnRoutes(deps))
      .use(pageSettingsRoutes(deps))
      .use(memberRoutes(deps))
      .use(invitationRoutes(deps))
      .use(linkRoutes(deps))
      .use(publicLinkRoutes(deps))
      .use(receiptRoutes(deps))
      .use(documentRoutes(deps))
      .use(pageRoutes(deps))
      .use(brandingAssetRoutes(deps))
      .use(leaveRoutes(deps))
      .use(dashboardRoutes(deps))
      .use(exportRoutes(deps))
      .use(statementRoutes(deps))
      .use(booksSettingsRoutes(deps))
      .use(exchangeRateRoutes(deps))
      .use(ownRateRoutes(deps))
      .use(exportProfileRoutes(deps))
      .use(exportScheduleRoutes(deps))
      .use(transactionRoutes(deps))
      .use(eventRoutes(deps))
      .use(webhookRoutes(deps))
      .use(mcpRoutes(deps, () => app))
      .use(networkRoutes(deps))
      .use(discoveryRoutes(deps))
      .use(deps.config.facilitator ? facilitatorRoutes(deps) : new Elysia())
      .use(deps.config.testMode ? testModeRoutes(deps) : new Elysia())
      .use(deps.config.testWallet ? testWalletRoutes(deps, deps.config.testWallet) : new Elysia())
  );
}
