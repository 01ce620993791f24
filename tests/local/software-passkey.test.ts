import { describe, expect, test } from "bun:test";
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type WebAuthnCredential,
} from "@simplewebauthn/server";
import { cose, decodeCredentialPublicKey, isoBase64URL } from "@simplewebauthn/server/helpers";
import {
  createSoftwarePasskey,
  type PasskeyQuirks,
  type SoftwarePasskey,
} from "../../local/passkey/software-passkey.ts";

const SITE = { rpId: "localhost", origin: "http://localhost:3000" };
const USER_ID = new TextEncoder().encode("user_6f1c0d6e-5f2b-4d5c-9a0e-2f6b7c1d8e9f");
const challenge48 = () => crypto.getRandomValues(new Uint8Array(48));

async function creationOptions() {
  return generateRegistrationOptions({
    rpName: "Service",
    rpID: SITE.rpId,
    userName: "merchant@example.com",
    userID: USER_ID,
    challenge: challenge48(),
    attestationType: "direct",
    authenticatorSelection: { authenticatorAttachment: "platform", userVerification: "required" },
    supportedAlgorithmIDs: [-7],
  });
}

async function registerWith(passkey: SoftwarePasskey, quirks?: PasskeyQuirks) {
  const options = await creationOptions();
  return verifyRegistrationResponse({
    response: await passkey.register(options, quirks),
    expectedChallenge: options.challenge,
    expectedOrigin: [SITE.origin],
    expectedRPID: SITE.rpId,
    requireUserVerification: true,
    supportedAlgorithmIDs: [-7],
  });
}

async function loginWith(passkey: SoftwarePasskey, credential: WebAuthnCredential, quirks?: PasskeyQuirks) {
  const options = await generateAuthenticationOptions({
    rpID: SITE.rpId,
    challenge: challenge48(),
    allowCredentials: [{ id: credential.id }],
    userVerification: "required",
  });
  return verifyAuthenticationResponse({
    response: await passkey.authenticate(options, quirks),
    expectedChallenge: options.challenge,
    expectedOrigin: [SITE.origin],
    expectedRPID: SITE.rpId,
    credential,
    requireUserVerification: true,
  });
}

async function registered(quirks: PasskeyQuirks = {}) {
  const passkey = await createSoftwarePasskey({ ...SITE, ...quirks });
  const { verified, registrationInfo } = await registerWith(passkey);
  if (!verified) throw new Error("registration did not verify");
  return { passkey, registrationInfo, credential: registrationInfo.credential };
}

describe("registration", () => {
  test.each(["none", "packed-self"] as const)(
    "verifies with attestation %s and carries the public key",
    async (kind) => {
      const passkey = await createSoftwarePasskey({ ...SITE, attestation: kind });
      const { verified, registrationInfo } = await registerWith(passkey);
      expect(verified).toBe(true);
      expect(registrationInfo?.fmt).toBe(kind === "none" ? "none" : "packed");
      expect(registrationInfo?.credential.id).toBe(passkey.credentialId);
      const key = decodeCredentialPublicKey(registrationInfo?.credential.publicKey ?? new Uint8Array());
      if (!cose.isCOSEPublicKeyEC2(key)) throw new Error("not an EC2 key");
      expect(key.get(cose.COSEKEYS.alg)).toBe(cose.COSEALG.ES256);
      expect(key.get(cose.COSEKEYS.crv)).toBe(cose.COSECRV.P256);
      const hexOf = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString("hex");
      expect(`0x${hexOf(key.get(cose.COSEKEYS.x))}`).toBe(passkey.publicKey.x);
      expect(`0x${hexOf(key.get(cose.COSEKEYS.y))}`).toBe(passkey.publicKey.y);
    },
  );

  test("is a synced passkey by default", async () => {
    const synced = await registered();
    expect(synced.registrationInfo.credentialDeviceType).toBe("multiDevice");
    expect(synced.registrationInfo.credentialBackedUp).toBe(true);
    const bound = await registered({ backupEligible: false, backedUp: false });
    expect(bound.registrationInfo.credentialDeviceType).toBe("singleDevice");
  });

  test.each([
    ["origin", { origin: "https://evil.example" }, /origin/],
    ["RP id", { rpId: "evil.example" }, /RP ID/],
    ["type", { type: "webauthn.get" }, /type/],
    ["challenge", { challenge: "AAAA" }, /challenge/],
    ["user presence", { userPresent: false }, /presence/],
    ["user verification", { userVerified: false }, /verification/],
    ["algorithm", { alg: -8 }, /alg/],
  ] as [string, PasskeyQuirks, RegExp][])(
    "a wrong %s is refused by the library",
    async (_, quirks, message) => {
      const passkey = await createSoftwarePasskey(SITE);
      await expect(registerWith(passkey, quirks)).rejects.toThrow(message);
    },
  );

  test("the software passkey itself refuses another site, a known credential and a missing ES256", async () => {
    const passkey = await createSoftwarePasskey(SITE);
    const options = await creationOptions();
    await expect(passkey.register({ ...options, rp: { id: "other.example" } })).rejects.toThrow(
      "SecurityError",
    );
    expect(
      passkey.register({ ...options, excludeCredentials: [{ id: passkey.credentialId }] }),
    ).rejects.toThrow("InvalidStateError");
    await expect(passkey.register({ ...options, pubKeyCredParams: [{ alg: -257 }] })).rejects.toThrow(
      "NotSupportedError",
    );
  });
});

describe("login", () => {
  test("verifies repeatedly, with high and with low s", async () => {
    const { passkey, credential } = await registered();
    for (const s of ["low", "high", undefined] as const) {
      const { verified } = await loginWith(passkey, credential, s ? { s } : {});
      expect(verified).toBe(true);
    }
  });

  test("returns the user handle of the registration", async () => {
    const { passkey } = await registered();
    const answer = await passkey.authenticate({ challenge: isoBase64URL.fromBuffer(challenge48()) });
    expect(isoBase64URL.toUTF8String(answer.response.userHandle ?? "")).toBe(
      new TextDecoder().decode(USER_ID),
    );
  });

  test("another passkey's answer does not verify", async () => {
    const { credential } = await registered();
    const other = await createSoftwarePasskey({ ...SITE, credentialId: credential.id });
    expect((await loginWith(other, credential)).verified).toBe(false);
  });

  test("the same key and credential id are the same passkey", async () => {
    const { passkey, credential } = await registered();
    const again = await createSoftwarePasskey({
      ...SITE,
      key: passkey.key,
      credentialId: passkey.credentialId,
    });
    expect(again.publicKey).toEqual(passkey.publicKey);
    expect((await loginWith(again, credential)).verified).toBe(true);
  });

  test("increments its counter if it has one, and a decreasing counter is refused", async () => {
    const { passkey, credential } = await registered({ counter: 5 });
    expect(credential.counter).toBe(5);
    const first = await loginWith(passkey, credential);
    expect(first.authenticationInfo.newCounter).toBe(6);
    await expect(loginWith(passkey, { ...credential, counter: 6 }, { counter: 6 })).rejects.toThrow(
      "counter",
    );
  });

  test.each([
    ["origin", { origin: "https://evil.example" }, /origin/],
    ["RP id", { rpId: "evil.example" }, /RP ID/],
    ["type", { type: "webauthn.create" }, /type/],
    ["user presence", { userPresent: false }, /present/],
    ["user verification", { userVerified: false }, /verification/],
  ] as [string, PasskeyQuirks, RegExp][])(
    "a wrong %s is refused by the library",
    async (_, quirks, message) => {
      const { passkey, credential } = await registered();
      await expect(loginWith(passkey, credential, quirks)).rejects.toThrow(message);
    },
  );

  test("crossOrigin and extra members appear in clientDataJSON where asked", async () => {
    const { passkey } = await registered();
    const quirks = { crossOrigin: true, clientDataBefore: { a: 1 }, clientDataAfter: { z: 2 } };
    const answer = await passkey.authenticate({ challenge: "AAAA" }, quirks);
    const text = Buffer.from(answer.response.clientDataJSON, "base64url").toString();
    expect(text).toBe(
      '{"a":1,"type":"webauthn.get","challenge":"AAAA","origin":"http://localhost:3000","crossOrigin":true,"z":2}',
    );
  });

  test("ignores credentials it does not hold", async () => {
    const { passkey } = await registered();
    await expect(
      passkey.authenticate({ challenge: "AAAA", allowCredentials: [{ id: "other" }] }),
    ).rejects.toThrow("NotAllowedError");
  });
});
