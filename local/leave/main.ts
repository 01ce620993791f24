/**
 * `npm run leave -- <host>`: serves the page for leaving on this machine under the host name that the passkeys belong to, in case the service
 * or its domain is gone. Prints what else is needed, changes nothing outside the data folder, and runs until Ctrl-C.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildPages } from "../processes/service-process.ts";
import { makeHostCertificate } from "./certificate.ts";
import { serveLeavePage } from "./serve-page.ts";

const PAGE = join(import.meta.dir, "../../web/dist/leave.html");
const HOST = /^(?=.{1,253}$)[a-z0-9-]+(\.[a-z0-9-]+)+$/;
const DEFAULT_PORT = 8443;

const [host = "", portText = String(DEFAULT_PORT)] = process.argv.slice(2);
const port = Number(portText);
if (!HOST.test(host) || !Number.isInteger(port) || port < 1 || port > 65_535) {
  console.error("Usage: npm run leave -- <rpId of the wallet file, such as pay.example.com> [port]");
  process.exit(64); // EX_USAGE of sysexits.h
}
await buildPages();
const certificate = await makeHostCertificate(host, new Date());
const folder = resolve(process.env.DATA_DIR ?? ".data", "leave");
mkdirSync(folder, { recursive: true });
const authorityFile = join(folder, `${host}.authority.pem`);
writeFileSync(authorityFile, certificate.authority);
const server = serveLeavePage({ host, port, page: readFileSync(PAGE, "utf8"), certificate });
console.log(instructions());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void server.stop());

function instructions(): string {
  return `
The page is served at ${server.url}, on this machine only, until Ctrl-C.

1. Let this machine take the name. Add this line to the hosts file (/etc/hosts; on Windows C:\\Windows\\System32\\drivers\\etc\\hosts):

     127.0.0.1 ${host}

2. Let the browser trust the certificate of this run. Its authority can vouch for ${host} alone, its key is gone, and it ends in a week:

     macOS     security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db "${authorityFile}"
     Windows   certutil -user -addstore Root "${authorityFile}"
     Linux     certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n leave -i "${authorityFile}"
     Firefox   Settings, Certificates, View, Authorities, Import

3. Open ${server.url} in that browser, and sign.

4. Afterwards remove the line from the hosts file and the certificate from the browser.

Without 1 and 2: a Chromium of its own, for passkeys on a phone, on a security key or in the system's own store:

     chromium --user-data-dir="${join(folder, "profile")}" --host-resolver-rules="MAP ${host} 127.0.0.1" --ignore-certificate-errors-spki-list=${certificate.authorityKeyHash} ${server.url}
`;
}
