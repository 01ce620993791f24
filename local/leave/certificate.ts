/**
 * A certificate for one host name, and its authority, which can vouch for that name only: its name constraint limits it, and its key is
 * discarded once it has signed. A person trusts it on their own machine for as long as they need the name there.
 */
import "reflect-metadata";
import { createHash, randomBytes } from "node:crypto";
import { AsnConvert } from "@peculiar/asn1-schema";
import {
  GeneralName,
  GeneralSubtree,
  GeneralSubtrees,
  id_ce_nameConstraints,
  NameConstraints,
} from "@peculiar/asn1-x509";
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

export type HostCertificate = {
  /** PEM of the leaf, then of the authority. */
  chain: string;
  key: string;
  /** PEM of the authority, for the browser to trust. */
  authority: string;
  /** base64 SHA-256 of the authority's public key, as Chromium's --ignore-certificate-errors-spki-list takes it. */
  authorityKeyHash: string;
};

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const LIFE_DAYS = 7;
const DAY_MS = 86_400_000;
/** A clock may be a little behind. */
const BACKDATED_MS = 3_600_000;

export async function makeHostCertificate(host: string, now: Date): Promise<HostCertificate> {
  const [authorityKeys, keys] = await Promise.all([newKeys(), newKeys()]);
  const validity = {
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(now.getTime() + LIFE_DAYS * DAY_MS),
  };
  const authorityName = `CN=Only ${host} on this machine`;
  const authority = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: authorityName,
    keys: authorityKeys,
    signingAlgorithm: ALGORITHM,
    ...validity,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      new Extension(id_ce_nameConstraints, true, AsnConvert.serialize(onlyHost(host))),
    ],
  });
  const leaf = await X509CertificateGenerator.create({
    ...{ serialNumber: newSerial(), subject: `CN=${host}`, issuer: authorityName },
    publicKey: keys.publicKey,
    signingKey: authorityKeys.privateKey,
    signingAlgorithm: ALGORITHM,
    ...validity,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension([{ type: "dns", value: host }]),
    ],
  });
  return {
    chain: `${pemOf(leaf)}${pemOf(authority)}`,
    key: pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", keys.privateKey)),
    authority: pemOf(authority),
    authorityKeyHash: createHash("sha256")
      .update(new Uint8Array(authority.publicKey.rawData))
      .digest("base64"),
  };
}

function onlyHost(host: string): NameConstraints {
  const subtree = new GeneralSubtree({ base: new GeneralName({ dNSName: host }) });
  return new NameConstraints({ permittedSubtrees: new GeneralSubtrees([subtree]) });
}

function newKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;
}

/** Positive, as the format requires. */
function newSerial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}

function pemOf(certificate: X509Certificate): string {
  return pem("CERTIFICATE", certificate.rawData);
}

function pem(label: string, bytes: ArrayBuffer): string {
  const lines =
    Buffer.from(bytes)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
