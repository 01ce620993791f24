/** A local OpenID Connect provider with a page on which the person chooses the account, as Google has one. */
import { OAuth2Server } from "oauth2-mock-server";

export type GoogleAccount = { sub: string; email: string; email_verified: boolean; hd?: string };

export type GoogleProvider = {
  origin: string;
  /** What the API is configured with. */
  env: Record<string, string>;
  /** Whose account the page offers from now on. */
  offer: (account: GoogleAccount) => void;
  stop: () => Promise<void>;
};

const CLIENT_ID = "client-1";
const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", '"': "&quot;", "<": "&lt;" };
const escaped = (text: string) => text.replace(/[&"<]/g, (character) => ESCAPES[character] ?? "");

/** Another site than the service's: the browser treats the way back as it treats Google's. */
export async function startGoogleProvider(): Promise<GoogleProvider> {
  const idp = new OAuth2Server();
  let account: GoogleAccount | undefined;
  await idp.issuer.keys.generate("RS256");
  await idp.start(0, "127.0.0.1");
  const inner = `http://127.0.0.1:${idp.address().port}`;
  idp.service.on("beforeTokenSigning", (token: { payload: Record<string, unknown> }) => {
    if (token.payload.nonce !== undefined || token.payload.aud === CLIENT_ID)
      Object.assign(token.payload, account);
  });
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      if (pathname === "/authorize") return chooser(search, account);
      const path = pathname === "/chosen" ? "/authorize" : pathname;
      const body = request.method === "POST" ? await request.text() : null;
      const { method, headers } = request;
      return fetch(`${inner}${path}${search}`, { method, headers, body, redirect: "manual" });
    },
  });
  const origin = `http://127.0.0.1:${server.port}`;
  idp.issuer.url = origin;
  return {
    origin,
    env: { GOOGLE_CLIENT_ID: CLIENT_ID, GOOGLE_CLIENT_SECRET: "secret-1", GOOGLE_ISSUER: origin },
    offer: (offered) => {
      account = offered;
    },
    stop: async () => {
      await server.stop(true);
      await idp.stop();
    },
  };
}

function chooser(search: string, account: GoogleAccount | undefined): Response {
  const asked = new URLSearchParams(search);
  const cancelled = new URL(asked.get("redirect_uri") ?? "");
  cancelled.search = String(new URLSearchParams({ error: "access_denied", state: asked.get("state") ?? "" }));
  const page = `<!doctype html><html lang="en"><title>Choose an account</title><main><h1>Choose an account</h1>
<a href="/chosen${escaped(search)}">${escaped(account?.email ?? "")}</a> <a href="${escaped(cancelled.href)}">Cancel</a></main></html>`;
  return new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } });
}
