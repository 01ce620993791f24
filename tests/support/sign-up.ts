/** A merchant's way in, as their browser goes it. */
import type { Sql } from "../../db/postgres/client.ts";
import { createSoftwarePasskey, type SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { type Client, openClient } from "./http-client.ts";

export type Merchant = {
  client: Client;
  email: string;
  userId: string;
  passkey: SoftwarePasskey;
  walletAddress: string;
};

let counter = 0;

export function newEmail(): string {
  counter += 1;
  return `merchant-${process.pid}-${counter}@example.com`;
}

/** The newest code mailed to an address. */
export async function readCode(client: Client, email: string): Promise<string> {
  const { body } = await client.post("/v1/test/outbox", { email });
  const code = /Your code: (\d{6})/.exec(body?.text ?? "")?.[1];
  if (!code) throw new Error(`no code was mailed to ${email}: ${JSON.stringify(body)}`);
  return code;
}

/** As if the codes of this address were made `seconds` earlier. */
export async function ageCodes(sql: Sql, email: string, seconds: number): Promise<void> {
  await sql`
    update otps
    set created_at = created_at - make_interval(secs => ${seconds}),
      expires_at = expires_at - make_interval(secs => ${seconds})
    where user_id = (select id from users where email = ${email})`;
}

/** Registered and verified: a signed-in user without a wallet. */
export async function verifiedUser(
  baseUrl: string,
  email = newEmail(),
): Promise<{ client: Client; email: string; userId: string }> {
  const client = openClient(baseUrl);
  const registered = await client.post("/v1/identity/register", { email });
  if (registered.status !== 201) throw new Error(`register: ${registered.text}`);
  const verified = await client.post("/v1/email-verification/verify", {
    email,
    otp: await readCode(client, email),
  });
  if (verified.status !== 200) throw new Error(`verify: ${verified.text}`);
  return { client, email, userId: registered.body.userId };
}

/** A passkey for the site that serves `baseUrl`. */
export function newPasskey(baseUrl: string): Promise<SoftwarePasskey> {
  const { hostname: rpId, origin } = new URL(baseUrl);
  return createSoftwarePasskey({ rpId, origin });
}

/** ACTIVE, with a wallet. */
export async function signUp(baseUrl: string, email = newEmail()): Promise<Merchant> {
  const user = await verifiedUser(baseUrl, email);
  const passkey = await newPasskey(baseUrl);
  const started = await user.client.post("/v1/wallets/setup/start", {});
  const completed = await user.client.post("/v1/wallets/setup/complete", {
    challengeId: started.body.challengeId,
    passkeyResponse: await passkey.register(started.body.passkeyChallenge),
  });
  if (completed.status !== 200) throw new Error(`setup: ${started.text} ${completed.text}`);
  return { ...user, passkey, walletAddress: completed.body.wallet.address };
}

/** Signs in with the passkey on a fresh client. */
export async function signIn(merchant: Merchant): Promise<Client> {
  const client = openClient(merchant.client.baseUrl);
  const options = await client.post("/v1/auth/options", { email: merchant.email });
  const verified = await client.post("/v1/auth/verify", {
    challengeId: options.body.challengeId,
    email: merchant.email,
    authenticationResponse: await merchant.passkey.authenticate(options.body),
  });
  if (verified.status !== 200) throw new Error(`sign in: ${options.text} ${verified.text}`);
  return client;
}
