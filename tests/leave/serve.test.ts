/** The file itself, and `npm run leave`, which serves it under any host name on this machine. */
import "reflect-metadata";
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AsnConvert } from "@peculiar/asn1-schema";
import { NameConstraints } from "@peculiar/asn1-x509";
import { X509Certificate } from "@peculiar/x509";
import { findFreePort } from "../../local/free-port.ts";
import { buildPages } from "../../local/processes/service-process.ts";

const ROOT = join(import.meta.dir, "../..");
const HOST = "pay.merchant.example";
await buildPages();
const page = readFileSync(join(ROOT, "web/dist/leave.html"), "utf8");

const partOf = (tag: string) => new RegExp(`<${tag}[^>]*>([\\s\\S]*)</${tag}>`).exec(page)?.[1] ?? "";

describe("web/dist/leave.html", () => {
  test("runs its own script and style only, loads nothing, and sends no form", () => {
    const policy = /content-security-policy" content="([^"]*)"/.exec(page)?.[1] ?? "";
    const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
    expect(policy.split("; ")).toEqual([
      "default-src 'none'",
      `script-src ${hashOf(partOf("script"))}`,
      `style-src ${hashOf(partOf("style"))}`,
      "img-src data:",
      "connect-src https: http://localhost:* http://127.0.0.1:*",
      "form-action 'none'",
      "base-uri 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ]);
    expect(partOf("script").length).toBeGreaterThan(10_000);
    expect(page.match(/<script/g)).toHaveLength(1);
    expect(page).not.toMatch(/\bsrc="|url\(|@import/);
  });
});

type Answer = { status: number; body: string; headers: Record<string, unknown> };

/** Trusts `authority` alone, and asks for `host` at this machine. */
function get(
  host: string,
  { port, authority }: { port: number; authority: string },
  path = "/",
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path, servername: host, ca: authority, headers: { host } };
    const call = request(options, async (answer) => {
      let body = "";
      for await (const chunk of answer) body += chunk;
      resolve({ status: answer.statusCode ?? 0, body, headers: answer.headers });
    });
    call.on("error", reject).end();
  });
}

function start(folder: string, ...args: string[]) {
  const { PATH, HOME } = process.env;
  return Bun.spawn([process.execPath, "--no-env-file", join(ROOT, "local/leave/main.ts"), ...args], {
    env: { PATH, HOME, DATA_DIR: folder },
    stdout: "pipe",
    stderr: "pipe",
  });
}

describe("npm run leave", () => {
  test("serves the page under the given name with a certificate of its own authority, and prints what to do", async () => {
    const folder = mkdtempSync(join(tmpdir(), "test-leave-"));
    const port = await findFreePort();
    const child = start(folder, HOST, String(port));
    const reader = child.stdout.getReader();
    let output = "";
    while (!output.includes("--host-resolver-rules")) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`it ended: ${output} ${await new Response(child.stderr).text()}`);
      output += new TextDecoder().decode(value);
    }
    const authority = readFileSync(join(folder, "leave", `${HOST}.authority.pem`), "utf8");
    expect(output).toContain(`https://${HOST}:${port}/`);
    expect(output).toContain(`127.0.0.1 ${HOST}`);
    const { status, body, headers } = await get(HOST, { port, authority });
    expect({ status, body: body === page, type: headers["content-type"] }).toEqual({
      ...{ status: 200, body: true, type: "text/html; charset=utf-8" },
    });
    expect((await get(HOST, { port, authority }, "/other")).status).toBe(404);
    await expect(get("bank.example", { port, authority })).rejects.toThrow();
    expectOnlyHost(authority);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
    rmSync(folder, { recursive: true });
  });

  test.each([
    [[]],
    [["localhost"]],
    [["https://pay.example"]],
    [["pay.example", "0"]],
    [["pay.example", "x"]],
  ])("error: the arguments %p are refused with the usage", async (args) => {
    const child = start(tmpdir(), ...args);
    expect(await child.exited).toBe(64);
    expect(await new Response(child.stderr).text()).toStartWith("Usage: npm run leave");
  });
});

/** A browser that trusts this authority refuses everything else it might ever sign. */
function expectOnlyHost(authority: string): void {
  const extension = new X509Certificate(authority).getExtension("2.5.29.30");
  expect(extension?.critical).toBe(true);
  const { permittedSubtrees } = AsnConvert.parse(extension?.value ?? new ArrayBuffer(0), NameConstraints);
  expect(permittedSubtrees?.map(({ base }) => base.dNSName)).toEqual([HOST]);
}
