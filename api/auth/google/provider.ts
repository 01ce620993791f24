/** The OpenID Connect provider, discovered on first use (openid-client). */
import * as client from "openid-client";
import { ServiceError } from "../../../core/domain/errors.ts";
import type { Log } from "../../../core/runtime/log.ts";
import type { OauthFlow } from "../../../db/accounts/identities.ts";
import type { GoogleConfig } from "../../config.ts";

const TIMEOUT_S = 5;

export type GoogleIdentity = {
  issuer: string;
  subject: string;
  email: string;
  isEmailVerified: boolean;
  /** The Google Workspace domain that owns the account. */
  hostedDomain: string | undefined;
};

export type Provider = {
  /** The redirect URL, and what to remember until the callback. The state begins with `statePrefix`. */
  begin(redirectUri: string, statePrefix?: string): Promise<{ url: URL; state: string; flow: OauthFlow }>;
  /** Exchanges the code for an identity. Undefined when the provider's answer is invalid. */
  finish(callback: URL, state: string, flow: OauthFlow): Promise<GoogleIdentity | undefined>;
};

export function openProvider(config: GoogleConfig, log: Log): Provider {
  let discovered: Promise<client.Configuration> | undefined;
  const discover = () => {
    discovered ??= discoverProvider(config).catch((cause: unknown) => {
      discovered = undefined;
      throw new ServiceError("INTERNAL_ERROR", "The sign-in provider is unreachable; retry", { cause });
    });
    return discovered;
  };
  return {
    async begin(redirectUri, statePrefix = "") {
      const configuration = await discover();
      const codeVerifier = client.randomPKCECodeVerifier();
      const [state, nonce] = [`${statePrefix}${client.randomState()}`, client.randomNonce()];
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: "openid email",
        // without it the provider would continue with the account that the browser is signed in to, even if the person wants another
        prompt: "select_account",
        code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: "S256",
        state,
        nonce,
      });
      return { url, state, flow: { codeVerifier, nonce } };
    },
    async finish(callback, state, flow) {
      const configuration = await discover();
      try {
        const tokens = await client.authorizationCodeGrant(configuration, callback, {
          expectedState: state,
          expectedNonce: flow.nonce,
          pkceCodeVerifier: flow.codeVerifier,
          idTokenExpected: true,
        });
        return readIdentity(tokens.claims());
      } catch (error) {
        // Refusals of the provider and tokens that fail verification have the same outcome for the user.
        log.warn({ err: error }, "sign-in provider's answer rejected");
        return undefined;
      }
    },
  };
}

async function discoverProvider({ issuer, clientId, clientSecret }: GoogleConfig) {
  const isLocal = new URL(issuer).protocol === "http:";
  return client.discovery(
    new URL(issuer),
    clientId,
    { client_secret: clientSecret, id_token_signed_response_alg: "RS256" },
    client.ClientSecretPost(clientSecret),
    {
      timeout: TIMEOUT_S,
      execute: [
        // Verifies the ID token's signature although it came over TLS (OpenID Connect Core 3.1.3.7).
        client.enableNonRepudiationChecks,
        ...(isLocal ? [client.allowInsecureRequests] : []),
      ],
    },
  );
}

function readIdentity(claims: client.IDToken | undefined): GoogleIdentity | undefined {
  if (!claims || typeof claims.email !== "string") return undefined;
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: claims.email.trim().toLowerCase(),
    isEmailVerified: claims.email_verified === true,
    hostedDomain: typeof claims.hd === "string" ? claims.hd.toLowerCase() : undefined,
  };
}
